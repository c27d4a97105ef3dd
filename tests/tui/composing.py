"""A composer on an empty screen, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.pilot import Pilot

from localchat.tui.widgets.composer import Composer
from localchat.tui.widgets.text_box import TextBox


class Desk(App[None]):
    """A composer at the foot of an empty screen."""

    CSS = "Composer { dock: bottom; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("alt+s", "settings", priority=True)]

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []
        self.drafts: list[str] = []
        self.settings = 0

    def compose(self) -> ComposeResult:
        """The composer alone."""
        yield Composer()

    def on_mount(self) -> None:
        """As the chat screen does."""
        self.composer.focus()

    @property
    def composer(self) -> Composer:
        """The composer."""
        return self.query_one(Composer)

    @property
    def box(self) -> TextBox:
        """Its field."""
        return self.composer.box

    def on_composer_submitted(self, message: Composer.Submitted) -> None:
        """Keep what is sent."""
        self.sent.append(message.text)

    def on_composer_changed(self, message: Composer.Changed) -> None:
        """Keep what would be saved."""
        self.drafts.append(message.text)

    def action_settings(self) -> None:
        """Count."""
        self.settings += 1


def drive(steps: Callable[[Pilot[None], Desk], Awaitable[None]], size: tuple[int, int] = (80, 24)) -> None:
    """Run steps on a fresh app."""

    async def go() -> None:
        app = Desk()
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(pilot, app)

    asyncio.run(go())
