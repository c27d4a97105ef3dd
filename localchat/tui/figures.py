"""Figures as people read them, and bars and columns made of characters. Pure text: no textual, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from rich.cells import cell_len, set_cell_size

from localchat.sanitize import clean

Line = tuple[tuple[str, str], ...]
"""Pieces of one line: text, and how it looks in textual's words ("bold $accepted")."""

MUTED = "$muted"
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def rate(tokens_per_second: float) -> str:
    """ "84" tokens per second; one more digit below 10, a dash for none."""
    if not tokens_per_second or not isfinite(tokens_per_second):
        return "–"
    return f"{tokens_per_second:.0f}" if tokens_per_second >= 9.95 else f"{tokens_per_second:.1f}"


def ratio(value: float) -> str:
    """ "2.1×", or a dash for none."""
    if not value or not isfinite(value):
        return "–"
    return f"{value:.0f}×" if value >= 9.95 else f"{value:.1f}×"


def percent(share: float) -> str:
    """ "71 %"."""
    return f"{share * 100:.0f} %"


def duration(seconds: float) -> str:
    """ "0.21 s", "3.4 s", "34 s" or "2:04 min"."""
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


def thousands(count: int) -> str:
    """ "16k" for 16384 and "512" for 512: lengths of contexts."""
    return f"{count / 1024:.3g}k" if count >= 1024 else str(count)


def short_name(model: str) -> str:
    """The last part of a hub id or a path."""
    return plain(model).rstrip("/").rsplit("/", 1)[-1]


def plain(text: str) -> str:
    """Text of a file or a model on one line, safe for a terminal."""
    return " ".join(clean(text).split())


def width_of(line: Line) -> int:
    """Cells that a line takes."""
    return sum(cell_len(text) for text, _ in line)


def merged(pieces: Sequence[tuple[str, str]]) -> Line:
    """Neighbours of one look as one piece: fewer pieces draw faster."""
    out: list[tuple[str, str]] = []
    for text, style in pieces:
        if out and out[-1][1] == style:
            out[-1] = (out[-1][0] + text, style)
        else:
            out.append((text, style))
    return tuple(out)


def fit(text: str, width: int) -> str:
    """Text cut to a width, with a sign that it was cut."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else "…"[:width]


def cut(line: Line, width: int) -> Line:
    """A line without what goes beyond a width."""
    kept: list[tuple[str, str]] = []
    for text, style in line:
        if width <= 0:
            break
        shown = fit(text, width)
        kept.append((shown, style))
        width -= cell_len(shown) if shown == text else width
    return tuple(kept)


def spread(left: Line, right: Line, width: int) -> Line:
    """Two parts at the two ends of a line; the left one gives way."""
    right = cut(right, width)
    left = cut(left, width - width_of(right) - bool(right))
    return (*left, (" " * (width - width_of(left) - width_of(right)), ""), *right)


def joined(parts: Sequence[Line], width: int) -> Line:
    """Parts with a dot between them, without the last ones if they have no room."""
    line, taken = parts[0], width_of(parts[0])
    for part in parts[1:]:
        taken += 3 + width_of(part)
        if taken > width:
            break
        line = (*line, (" · ", MUTED), *part)
    return line


def wrap(text: str, width: int, rows: int) -> list[str]:
    """Words in at most so many rows of a width; what does not fit is cut with a sign."""
    out: list[str] = []
    row = ""
    for word in text.split():
        longer = f"{row} {word}" if row else word
        if cell_len(longer) <= width:
            row = longer
            continue
        if row:
            out.append(row)
        row = word
    out.append(row)
    if len(out) > rows:
        out = [*out[: rows - 1], " ".join(out[rows - 1 :])]
    return [fit(row, width) for row in out]


def apportion(shares: Sequence[float], cells: int) -> list[int]:
    """How many of so many cells each share gets, so that rounding never adds up; shares are of 1 in all.

    Each border between two parts is rounded by itself, so a part that grows never makes another one jump.
    """
    edges, total = [0], 0.0
    for share in shares:
        total += max(0.0, share)
        edges.append(min(cells, round(total * cells)))
    return [right - left for left, right in pairwise(edges)]


def rule(share: float, width: int, style: str, rest: str = "$panel") -> Line:
    """A thin bar, filled to a share; half cells count."""
    halves = round(min(max(share, 0.0), 1.0) * width * 2)
    full, half = divmod(halves, 2)
    blank = width - full - half
    return (("━" * full + "╸" * half, style), ("─" * blank, rest))


def columns(values: Sequence[float], rows: int) -> list[str]:
    """Shares from 0 to 1 as columns of eighths, one character wide each, top row first; never quite empty."""
    heights = [max(1, round(min(max(value, 0.0), 1.0) * rows * 8)) for value in values]
    return ["".join(eighths(height, row) for height in heights) for row in reversed(range(rows))]


def eighths(height: int, row: int) -> str:
    """The part of a column of so many eighths that lies in a row, counted from the bottom."""
    return _EIGHTHS[min(max(height - 8 * row, 0), 8)]
