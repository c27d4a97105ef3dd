"""One question that is answered by a name."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from localchat.sanitize import clean


class AskName(ModalScreen[str | None]):
    """Ends with the name, or None if the user leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]
    DEFAULT_CSS = """
    AskName {
        align: center middle;
        & > Vertical {
            width: 60; max-width: 90%; height: auto; padding: 1 2;
            background: $surface; border: round $border;
        }
        Label { width: 1fr; text-style: bold; }
        Input.-textual-compact { padding: 0 1; margin: 1 0; background: $panel; }
        .hint { color: $text-muted; text-style: none; }
    }
    """

    def __init__(self, title: str, value: str = "") -> None:
        super().__init__()
        self._title = clean(title)
        self._value = " ".join(clean(value).split())

    def compose(self) -> ComposeResult:
        """The question, the field and what the keys do."""
        with Vertical():
            yield Label(self._title, markup=False)
            yield Input(self._value, max_length=200, compact=True)
            yield Label("Enter keeps it, Esc leaves.", classes="hint")

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        if name := " ".join(clean(event.value).split()):
            self.dismiss(name)

    def action_leave(self) -> None:
        """No answer."""
        self.dismiss(None)
