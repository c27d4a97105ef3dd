"""What runs, how far it is, and in the end whether the texts are the same."""

from __future__ import annotations

from localchat.tui.figures import MUTED, Line, fit, plain, rule, spread, wrap
from localchat.tui.widgets.lines import Lines


class RaceStatus(Lines):
    """Two rows: a sentence, or a step and a bar."""

    DEFAULT_CSS = "RaceStatus { height: 2; padding: 0 1; }"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text, self._style = "", ""
        self._share: float | None = None
        self._left = ""

    def say(self, text: str, style: str = "") -> None:
        """A sentence; it may take both rows."""
        self._text, self._style, self._share = plain(text), style, None
        self.redraw()

    def progress(self, text: str, share: float, left: str) -> None:
        """A step, how much is done (0 to 1), and how long it may still take."""
        self._text, self._style, self._share, self._left = plain(text), "", share, left
        self.redraw()

    def draw(self, width: int, height: int) -> list[Line]:
        """The rows."""
        if self._share is not None:
            right: Line = ((self._left, MUTED),)
            return [spread(((self._text, "bold"),), right, width), rule(self._share, width, "$primary")]
        return [((fit(row, width), self._style),) for row in wrap(self._text, width, height)]
