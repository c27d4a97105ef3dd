"""Help: what has the focus, and the keys that work there."""

from __future__ import annotations

from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Markdown, Static

from localchat import config, paths
from localchat.tui import keymap, theme
from localchat.tui.keys import ACTIONS
from localchat.tui.screens.help import HelpScreen
from tests.tui.support import screen_text, wait_until

ALL = {action.id: action for action in ACTIONS}


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


class Box(Vertical):
    """A place with help and keys of its own."""

    HELP: ClassVar[str] = "# The box\n\nHolds a line."
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+b", "turn", "Turn the box"), ALL["newline"].binding()]

    def compose(self) -> ComposeResult:
        """A line without help."""
        yield Input()


class Sample(App[None]):
    """An app with help."""

    BINDINGS: ClassVar[list[BindingType]] = [ALL["help"].binding(), ALL["compare"].binding()]

    def __init__(self, keys: str = "") -> None:
        super().__init__()
        theme.register_all(self)
        keymap.apply(self, config.parse(paths.config_file(), keys))

    def compose(self) -> ComposeResult:
        """The box."""
        yield Box()
        yield Static("behind")

    def action_help(self) -> None:
        """Open help once."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen.of(self))


@pytest.mark.anyio
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 12)])
async def test_help_tells_of_what_has_the_focus(size: tuple[int, int]) -> None:
    """Guards against help that is the same everywhere, is cut off, or cannot be left."""
    app = Sample()
    async with app.run_test(size=size) as pilot:
        await pilot.press("f1")
        await wait_until(pilot, lambda: "The box" in screen_text(app))
        assert "Holds a line." in screen_text(app)
        assert "Ctrl+B" in screen_text(app)
        await pilot.press("end")
        await wait_until(pilot, lambda: "F3  Alt+C" in screen_text(app))
        assert "Esc closes" in screen_text(app)
        await pilot.press("escape")
        await wait_until(pilot, lambda: "behind" in screen_text(app))
        await pilot.press("f1", "f1", "q")
        await wait_until(pilot, lambda: not isinstance(app.screen, HelpScreen))


@pytest.mark.anyio
async def test_help_shows_the_keys_of_the_config_file() -> None:
    """Guards against help that names keys which were changed or switched off."""
    app = Sample('[keys]\nnewline = "ctrl+t"\ncompare = "none"\n')
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("f1")
        await wait_until(pilot, lambda: "Ctrl+T" in screen_text(app))
        text = screen_text(app)
        assert "Ctrl+J" not in text
        assert "no key" in text
        assert app.screen.query_one(Markdown)
