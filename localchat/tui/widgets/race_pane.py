"""One side of a race: its text as it came, how far it is, and what it took."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.message import Message

from localchat.bench import words
from localchat.sanitize import clean
from localchat.tui.figures import MUTED, Line, merged, rate, rule, spread
from localchat.tui.race import Track
from localchat.tui.widgets.lines import Lines

_WORD = re.compile(r"\n|[^\S\n]+|\S+")
_OWN = "bold $foreground"
_ACCEPTED = "$accepted"
_PARTED = "bold underline $warning"


@dataclass(frozen=True, slots=True)
class View:
    """What a pane shows of a text."""

    text: str
    own: tuple[tuple[int, int], ...] = ()
    """The target's own tokens, where drafts were accepted beside them."""
    parts_at: int | None = None
    """Where the text begins to differ from the other one."""


class RacePane(Lines, can_focus=True):
    """Text above, a bar and a line of figures below."""

    HELP: ClassVar[str] = """# A side of the race

Both sides are replayed at the times that were measured. The arrow keys and page keys scroll both.

On the drafted side, accepted drafts are coloured, and the target's own tokens, one or more in a round, are **bold**.
Where the texts part, the rest is underlined.
"""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_by(-1)", "Up", show=False),
        Binding("down", "scroll_by(1)", "Down", show=False),
        Binding("pageup", "scroll_by(-10)", "Page up", show=False),
        Binding("pagedown", "scroll_by(10)", "Page down", show=False),
        Binding("home", "scroll_by(-100000)", "Top", show=False),
        Binding("end", "scroll_by(100000)", "End", show=False),
    ]
    DEFAULT_CSS = """
    RacePane {
        border: round $border-blurred; border-title-color: $foreground; border-title-style: bold;
        border-subtitle-color: $muted; padding: 0 1;
        &:focus { border: round $border; }
    }
    """

    class Scrolled(Message):
        """The user scrolls; the other side follows."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

    def __init__(self, name: str, id: str | None = None) -> None:
        super().__init__(id=id)
        self.border_title = name
        self._track: Track | None = None
        self._view = View("")
        self._shown = 0
        self._foot: Line = ()
        self._bar: Line | None = None
        self._seconds = 0.0
        self._style = ""
        self._top: int | None = None
        self._wrapped: tuple[str, int, list[int]] = ("", 0, [0])

    def say(self, text: str, note: str = "", style: str = MUTED) -> None:
        """Show a text that is no replay: an explanation, or a reply as it comes."""
        self._track, self._view, self._style, self._top = None, View(clean(text)), style, None
        self._shown, self._foot = len(self._view.text), ((note, MUTED),)
        self.redraw()

    def load(self, track: Track, parts_at: int | None) -> None:
        """Get ready to replay; `parts_at` is the first character that differs from the other side."""
        self._track, self._style, self._top = track, "", None
        self._view = View(clean(track.text), track.own(), parts_at)
        self.at(0.0)

    def at(self, seconds: float) -> None:
        """Show it as it was after so many seconds."""
        if self._track is not None:
            self._seconds = seconds
            self._shown = self._track.characters(seconds)
            self._top = None
            self.redraw()

    def go_to_parting(self) -> None:
        """Scroll to where the texts part."""
        if self._view.parts_at is not None:
            rows = self._breaks()
            row = max(0, bisect_left(rows, self._view.parts_at + 1) - 1)
            self._top = self._bounded(row - self._room() // 3)
            self.redraw()

    def action_scroll_by(self, rows: int) -> None:
        """Scroll, and let the other side know."""
        self.post_message(self.Scrolled(rows))

    def on_mouse_scroll_down(self) -> None:
        """The wheel."""
        self.action_scroll_by(2)

    def on_mouse_scroll_up(self) -> None:
        """The wheel."""
        self.action_scroll_by(-2)

    def scroll_rows(self, rows: int) -> None:
        """Scroll by so many rows."""
        top = self._last() if self._top is None else self._top
        self._top = self._bounded(top + rows)
        self.redraw()

    def draw(self, width: int, height: int) -> list[Line]:
        """The rows of text that are in view, then the bar and the figures."""
        rows = self._breaks()
        top = self._last() if self._top is None else self._bounded(self._top)
        lines = [self._row(*span) for span in list(pairwise(rows))[top : top + self._room()]]
        lines += [()] * (max(0, height - 2) - len(lines))
        return [*lines, *self._below(width)][-height:]

    def _below(self, width: int) -> list[Line]:
        track = self._track
        if track is None:
            return [(), self._foot]
        side, tokens = track.side, track.tokens(self._seconds)
        finished = self._seconds >= side.seconds
        now = min(self._seconds, side.seconds)
        bar = rule(tokens / side.tokens if side.tokens else 1.0, width, "$accepted" if finished else "$primary")
        first = f"  first token {words.seconds(side.first_token_seconds)}"
        left: Line = ((f"{'■' if finished else '▶'} {words.seconds(now)}", "bold"), (f"  {tokens} tok", ""))
        right: Line = ((f"{rate(side.tokens_per_second)} tok/s" if finished else "", "bold"),)
        if now >= side.first_token_seconds and width >= len(first) + 34:
            left = (*left, (first, MUTED))
        return [bar, spread(left, right, width)]

    def _row(self, start: int, end: int) -> Line:
        """One row of the text, in pieces of one look each; what has not come yet is left out."""
        end = min(end, self._shown)
        if start >= end:
            return ()
        view = self._view
        cuts = {start, end, *(cut for span in view.own for cut in span if start < cut < end)}
        if view.parts_at is not None and start < view.parts_at < end:
            cuts.add(view.parts_at)
        pieces = []
        for a, b in pairwise(sorted(cuts)):
            piece = view.text[a:b].replace("\n", "").replace("\t", "    ")
            pieces.append((piece, self._looks_like(a)))
        return merged(pieces)

    def _looks_like(self, place: int) -> str:
        view = self._view
        if view.parts_at is not None and place >= view.parts_at:
            return _PARTED
        if not view.own:
            return self._style
        return _OWN if any(a <= place < b for a, b in view.own) else _ACCEPTED

    def _breaks(self) -> list[int]:
        """Where rows begin, in characters of the whole text, and its end; kept until text or width change."""
        width = max(1, self.size.width)
        if self._wrapped[:2] != (self._view.text, width):
            self._wrapped = (self._view.text, width, breaks(self._view.text, width))
        return self._wrapped[2]

    def _room(self) -> int:
        return max(1, self.size.height - 2)

    def _last(self) -> int:
        """The top row when what came last is in view."""
        return max(0, bisect_left(self._breaks(), max(self._shown, 1)) - self._room())

    def _bounded(self, top: int) -> int:
        return min(max(0, top), max(0, len(self._breaks()) - 1 - self._room()))


def breaks(text: str, width: int) -> list[int]:
    """Where the rows of a text begin when it is broken between words at a width in cells, and its end."""
    rows, column = [0], 0
    for match in _WORD.finditer(text):
        word = match.group()
        if word == "\n":
            rows.append(match.end())
            column = 0
            continue
        size = cell_len(word.replace("\t", "    "))
        if column + size > width and not word.isspace():
            if column:
                rows.append(match.start())
            column = 0
            if size > width:
                size = _fold(word, match.start(), width, rows)
        column += size
    return [*rows, len(text)] if len(text) > rows[-1] or len(rows) == 1 else rows


def _fold(word: str, start: int, width: int, rows: list[int]) -> int:
    """Break a word that is wider than a row; returns the cells of what stands in the last one."""
    column = 0
    for place, character in enumerate(word, start):
        size = cell_len(character)
        if column + size > width:
            rows.append(place)
            column = 0
        column += size
    return column
