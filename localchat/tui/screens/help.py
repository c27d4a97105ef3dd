"""Help (F1): what has the focus, and which keys there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widgets import Markdown, Static

from localchat.tui import keymap
from localchat.tui.keymap import Command


class HelpScreen(ModalScreen[None]):
    """Shows the nearest HELP at or above `node`, and the keys of everything there."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,q", "dismiss", "Close", show=False)]
    CSS = """
    HelpScreen {
        align: right top;
        background: $background 60%;
        #help { width: 64; max-width: 100%; height: 1fr; background: $surface; border-left: outer $rule; }
        #about { padding: 1 2 0 2; background: transparent; }
        .section { padding: 1 2 0 2; height: auto; color: $accent; text-style: bold; }
        Grid { grid-size: 2; grid-columns: 20 1fr; grid-rows: auto; height: auto; padding: 0 2; }
        .keys { text-style: bold; }
        #foot { dock: bottom; height: 1; padding: 0 2; color: $muted; background: $panel; }
    }
    """

    def __init__(self, node: DOMNode) -> None:
        super().__init__()
        self._node = node

    @classmethod
    def of(cls, app: App[Any]) -> HelpScreen:
        """Help for what has the focus now."""
        return cls(app.focused or app.screen)

    def compose(self) -> ComposeResult:
        """The text, then the keys, nearest first."""
        with Vertical(id="help"):
            with VerticalScroll(can_focus=True):
                if about := _about(self._node):
                    yield Markdown(about, id="about")
                commands = keymap.commands(self.app, self._node)
                for title, group in groupby(commands, key=_place):
                    yield Static(title, classes="section", markup=False)
                    with Grid():
                        yield from _rows(group)
            yield Static("Esc closes · ↑ ↓ scroll · italic: its name in [keys]", id="foot", markup=False)


def _about(node: DOMNode) -> str:
    """The nearest help text."""
    texts = (getattr(above, "HELP", None) for above in node.ancestors_with_self)
    return next((text for text in texts if text), "")


def _place(command: Command) -> str:
    """The heading that a command belongs under."""
    if isinstance(command.node, App):
        return "Everywhere"
    return "On this screen" if isinstance(command.node, Screen) else "Here"


def _rows(commands: Iterator[Command]) -> Iterator[Static]:
    for command in commands:
        keys = "  ".join(keymap.spelled(key) for key in command.keys) or "no key"
        yield Static(Content(keys), classes="keys")
        yield Static(Content.assemble(command.meaning or command.label, " ", (command.id, "$muted italic")))
