"""How far loading is."""

from __future__ import annotations

from localchat.chat.events import Loading
from localchat.tui.figures import MUTED, Line, fit, percent, plain, rule
from localchat.tui.widgets.lines import Lines

_BAR = 24


class LoadLine(Lines):
    """One line: a bar where the length is known, and the step in words."""

    DEFAULT_CSS = "LoadLine { height: 1; display: none; }"

    _step: Loading | None = None
    _words = ""

    def show(self, step: Loading | None, words: str = "") -> None:
        """Show a step of loading, with words after it; None hides the line."""
        self._step, self._words, self.display = step, words, step is not None
        self.redraw()

    def draw(self, width: int, height: int) -> list[Line]:
        """The bar and the words."""
        if self._step is None:
            return [()]
        share = self._step.done / self._step.total if self._step.total else 0.0
        known = f" {percent(share)}" if self._step.total else ""
        text = f" {plain(self._step.stage)}{known}"
        return [
            (
                *rule(share, _BAR, "$accent"),
                (fit(text, width - _BAR), ""),
                (fit(f"  {self._words}", max(0, width - _BAR - len(text))), MUTED),
            )
        ]
