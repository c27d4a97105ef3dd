"""The tokens of the reply as they are drafted and checked."""

from __future__ import annotations

from typing import ClassVar

from localchat.tui.figures import MUTED, Line, spread
from localchat.tui.live import Live
from localchat.tui.token_text import Flow, legend, round_pieces, styled
from localchat.tui.widgets.lines import Lines


class TokenStrip(Lines):
    """The end of the token stream, below a line that says what the looks mean."""

    DEFAULT_CSS = "TokenStrip { height: 5; }"
    HELP: ClassVar[str] = """\
# Tokens
Underlined tokens were drafted and accepted, in the colour of their source (slanted ones were copied by lookup).
Plain ones are the target's own. Struck-through ones were drafted and rejected; the target's correction follows.
"""

    _live: Live = Live()
    _flow: Flow | None = None
    _replies: int = -1
    _next: int = 0
    """Number of the next round to lay."""

    def show(self, live: Live) -> None:
        """Show this state of things."""
        self._live = live
        self.redraw()

    def draw(self, width: int, height: int) -> list[Line]:
        """The legend and the last lines. Only new rounds are laid."""
        live = self._live
        first = live.rounds[0].round.index if live.rounds else 0
        if self._flow is None or self._flow.width != width or self._replies != live.replies or first > self._next:
            self._flow, self._replies, self._next = Flow(width), live.replies, first
        for wrote in live.rounds[max(0, self._next - first) :]:
            for piece in round_pieces(wrote, 0):
                self._flow.add(piece)
            self._next = wrote.round.index + 1
        del self._flow.lines[: -max(1, height - 1)]
        sources = tuple(name for name, _ in live.stats.by_source)
        head = spread((("tokens  ", MUTED), *legend(sources)), (), width)
        return [head, *map(styled, self._flow.lines)]
