"""Rounds as columns: at the bottom the target's own token, on it the accepted ones, above them the rejected, hatched.

So the grey base is what plain decoding would have given, and everything coloured is won by drafting.
"""

from __future__ import annotations

from collections.abc import Sequence

from localchat.engine.types import Round
from localchat.tui.figures import MUTED, Line, eighths, merged
from localchat.tui.sources import source_colour

_CEILINGS = (4, 8, 16, 32, 64)
"""Tokens that a full column may stand for: few steps, so that the scale seldom moves."""


_LEAST = 4
"""Eighths of a cell from which on a token is high enough to be told from the next: two of them fill a cell."""


def strip_lines(rounds: Sequence[Round], width: int, rows: int) -> list[Line]:
    """The last rounds, newest at the right; top row first."""
    shown = rounds[-width:]
    tallest = max((_height(round_) for round_ in shown), default=1)
    ceiling = next((step for step in _CEILINGS if step >= tallest), tallest)
    blank = (" " * (width - len(shown)), "")
    lines: list[Line] = []
    for row in reversed(range(rows)):
        cells = [_cell(round_, row, 8 * rows / ceiling) for round_ in shown]
        lines.append((blank, *merged(cells)))
    return lines


def _height(round_: Round) -> int:
    return max(len(round_.tokens), 1) + round_.drafted - round_.accepted


def _cell(round_: Round, row: int, scale: float) -> tuple[str, str]:
    """One cell of a column, of which one token is so many eighths high."""
    solid = max(1, round(len(round_.tokens) * scale))
    if solid <= 8 * row:
        hatched = round(_height(round_) * scale) > 8 * row + 3 and round_.drafted > round_.accepted
        return ("▒", "$rejected") if hatched else (" ", "")
    colour = source_colour(round_.source if round_.accepted else "")
    base = round((len(round_.tokens) - round_.accepted) * scale) if scale >= _LEAST else 0
    if base <= 8 * row or colour == MUTED:
        return eighths(solid, row), colour
    return eighths(base, row), f"{MUTED} on {colour}"
