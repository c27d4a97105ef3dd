"""What a reasoning model thinks before it answers: one line, unfolded on demand."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from localchat.sanitize import clean
from localchat.tui.keymap import worded

_MOST = 40_000


class Thought(Vertical):
    """Folded, it costs nothing: the text is laid out when it is asked for."""

    def __init__(self) -> None:
        super().__init__(classes="-empty")
        self._text = ""
        self._thinking = False
        self._line = Static("", markup=False, classes="line")
        self._body = Static("", markup=False, classes="thoughts")

    def compose(self) -> ComposeResult:
        """A line and the text."""
        yield self._line
        yield self._body

    def show(self, text: str, *, thinking: bool) -> None:
        """The thought so far."""
        if (text, thinking) == (self._text, self._thinking):
            return
        self._text, self._thinking = text, thinking
        self.set_class(not text and not thinking, "-empty")
        self._draw()

    def toggle(self) -> None:
        """Unfold or fold."""
        self.toggle_class("-open")
        self._draw()

    def on_click(self) -> None:
        """The line is a button too."""
        self.toggle()

    def _draw(self) -> None:
        is_open = self.has_class("-open")
        words = len(self._text.split())
        state = "thinking" if self._thinking else "thought"
        fold = "folds" if is_open else "unfolds"
        line = f"{'▾' if is_open else '▸'} {state} · {words} words · {{thinking}} {fold}"
        self._line.update(worded(self.app, line), layout=False)  # one line: nothing is laid out again
        if is_open:
            self._body.update(Content(clean(self._text[:_MOST])))
