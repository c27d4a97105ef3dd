"""The command palette: everything can be found by its name or meaning, and run."""

from __future__ import annotations

from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.containers import Vertical
from textual.widgets import Input

from localchat import config, paths
from localchat.tui import keymap, palette, theme
from localchat.tui.commands import Everything
from localchat.tui.keys import ACTIONS
from tests.tui.support import screen_text, wait_until

ALL = {action.id: action for action in ACTIONS}


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


class Box(Vertical):
    """Does one thing."""

    BINDINGS: ClassVar[list[BindingType]] = [ALL["newline"].binding()]

    def compose(self) -> ComposeResult:
        """Somewhere to type."""
        yield Input()

    def action_newline(self) -> None:
        """Note it."""
        assert isinstance(self.app, Sample)
        self.app.done.append("newline")


class Sample(App[None]):
    """An app with a palette."""

    COMMANDS = {Everything}  # noqa: RUF012 - as textual has it
    BINDINGS: ClassVar[list[BindingType]] = [ALL[name].binding() for name in ("compare", "tokens", "commands")]

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        theme.register_all(self)
        keymap.apply(self, config.parse(paths.config_file(), '[keys]\ncompare = "none"\n'))

    def compose(self) -> ComposeResult:
        """The box."""
        yield Box()

    def action_commands(self) -> None:
        """The palette."""
        self.action_command_palette()

    def action_compare(self) -> None:
        """Note it."""
        self.done.append("compare")

    def action_tokens(self) -> None:
        """Note it."""
        self.done.append("tokens")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Tokens cannot be shown now."""
        return action != "tokens"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("typed", "done"), [("compare", "compare"), ("side by side", "compare"), ("begin a new", "newline")]
)
async def test_an_action_without_a_key_can_be_found_and_run(typed: str, done: str) -> None:
    """Guards those who switched a key off or know only what they want: name and meaning both lead there."""
    app = Sample()
    async with app.run_test(size=(90, 30)) as pilot:
        await pilot.press("ctrl+p", *("space" if sign == " " else sign for sign in typed))
        await wait_until(pilot, lambda: ALL["newline" if done == "newline" else done].meaning in screen_text(app))
        await pilot.press("enter")
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.done == [done])


@pytest.mark.anyio
async def test_all_that_can_be_done_is_listed_and_nothing_else() -> None:
    """Guards the list: what the screen can do, with keys; nothing that cannot be done now, nor the palette itself."""
    app = Sample()
    async with app.run_test(size=(90, 30)) as pilot:
        entries = list(Everything(app.screen)._entries())
        assert [entry.title for entry in entries[:2]] == ["Compare", "New line"]
        assert entries[0].keys == ""
        assert entries[1].keys == "Ctrl+J Shift+Enter Alt+Enter"
        assert not {"Tokens", "Commands"} & {entry.title for entry in entries}
        assert "Theme: light" in [entry.title for entry in entries]
        await pilot.press("ctrl+p")
        await wait_until(pilot, lambda: "Shift+Enter" in screen_text(app))


@pytest.mark.anyio
async def test_a_theme_is_changed_and_kept() -> None:
    """Guards the way to a theme, and against the markup of somebody's theme file."""
    folder = palette.user_folder()
    folder.mkdir(parents=True)
    text = 'name = "mine"\ndark = true\nabout = "my [b]own[/x]"\n[colours]\n'
    (folder / "mine.toml").write_text(
        text + 'background = "#101010"\ntext = "#f0f0f0"\naccent = "#80c0ff"\n', encoding="utf-8"
    )
    app = Sample()
    async with app.run_test(size=(90, 30)) as pilot:
        await pilot.press("ctrl+p", *"mine")
        await wait_until(pilot, lambda: "my [b]own[/x]" in screen_text(app))
        await pilot.press("enter")
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.theme == "mine" and not isinstance(app.screen, CommandPalette))
    assert dict(config.read(paths.config_file()).values) == {"theme": "mine"}
