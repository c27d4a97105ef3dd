"""Tokens as text: how each kind looks, and how they flow into lines. Pure text: no textual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rich.cells import cell_len, chop_cells

from localchat.chat.events import Wrote
from localchat.engine.types import Origin
from localchat.sanitize import clean
from localchat.tui.figures import MUTED, Line, plain
from localchat.tui.sources import source_colour

_LONGEST = 120
"""Characters of one token that are shown."""
_REJECTED = 8
"""Rejected tokens of a round that are shown one by one: a tree has many, and the text is to stay readable."""
_SIGNS = str.maketrans({"\n": "↵", "\t": "⇥"})
_OWN = frozenset(origin.value for origin in Origin)

REJECTED = "strike $rejected"
CORRECTION = "$corrected"


@dataclass(frozen=True, slots=True)
class Piece:
    """One token as it is shown."""

    text: str
    style: str
    token: int
    """Its number in the reply, counted from 0; -1 for one that was rejected."""
    breaks: bool = False
    """A new line begins behind it."""


def visible(text: str) -> str:
    """A token's text in one line with nothing left invisible."""
    shown = clean(text[:_LONGEST]).translate(_SIGNS)
    if len(text) > _LONGEST:
        shown += "…"
    return shown if cell_len(shown) else "∅"


def origin_style(origin: str) -> str:
    """How a token of an origin looks: accepted ones are underlined, copied ones slanted as well."""
    if origin in _OWN:
        return CORRECTION if origin == Origin.CORRECTION else ""
    slant = "italic " if origin == "lookup" else ""
    return f"underline {slant}{source_colour(origin)}"


def round_pieces(wrote: Wrote, first: int) -> Iterator[Piece]:
    """A round's tokens in reading order: accepted, rejected, then the target's own.

    Args:
        wrote: the round; without the text of its tokens its text stands for all of them.
        first: number of its first token in the reply.
    """
    origins = wrote.round.origins
    if len(wrote.pieces) != len(origins):
        if wrote.text:
            yield _piece(wrote.text, "", first)
        return
    rejected = [_piece(text, REJECTED, -1) for text in wrote.rejected[:_REJECTED]]
    if (more := len(wrote.rejected) - _REJECTED) > 0:
        rejected.append(_piece(f" +{more}", MUTED, -1))
    for index, (text, origin) in enumerate(zip(wrote.pieces, origins, strict=True)):
        if origin in _OWN:
            yield from rejected
            rejected = []
        yield _piece(text, origin_style(origin), first + index)
    yield from rejected


def _piece(text: str, style: str, token: int) -> Piece:
    return Piece(visible(text), style, token, token >= 0 and text.endswith("\n"))


@dataclass(slots=True)
class Flow:
    """Lines of a width that pieces flow into. What has been laid never moves, so a reader's eye need not either."""

    width: int
    breaks: bool = False
    """Begin a new line where the text does; else line ends are only shown as signs."""
    lines: list[list[Piece]] = field(default_factory=lambda: [[]])
    _x: int = 0

    def add(self, piece: Piece) -> int:
        """Lay a piece; returns the line it begins in."""
        size = cell_len(piece.text)
        if self._x and self._x + size > self.width:
            self._new_line()
            if piece.text.startswith(" ") and piece.text.strip():
                piece, size = replace(piece, text=piece.text[1:]), size - 1
        row = len(self.lines) - 1
        if size > self.width:
            *heads, rest = chop_cells(piece.text, self.width)
            for head in heads:
                self._put(replace(piece, text=head), self.width)
                self._new_line()
            piece, size = replace(piece, text=rest), cell_len(rest)
        self._put(piece, size)
        if self.breaks and piece.breaks:
            self._new_line()
        return row

    def _put(self, piece: Piece, size: int) -> None:
        self.lines[-1].append(piece)
        self._x += size

    def _new_line(self) -> None:
        self.lines.append([])
        self._x = 0


def styled(pieces: list[Piece], cursor: int = -2) -> Line:
    """A line of pieces; the token under the cursor stands out. A leading space keeps neighbours apart."""
    line: list[tuple[str, str]] = []
    for piece in pieces:
        if piece.token == cursor:
            line.append((piece.text, f"{piece.style} reverse"))
        elif piece.style and piece.text.startswith(" ") and piece.text.strip():
            line += [(" ", ""), (piece.text[1:], piece.style)]
        else:
            line.append((piece.text, piece.style))
    return tuple(line)


def legend(sources: tuple[str, ...]) -> Line:
    """What the looks mean, for the sources there are."""
    words: list[tuple[str, str]] = []
    for source in sources:
        words += [(plain(source), origin_style(source)), ("  ", "")]
    own = [("target's own", ""), ("  ", ""), ("correction", CORRECTION), ("  ", ""), ("rejected", REJECTED)]
    return (*words, *own) if sources else (("target's own", MUTED),)
