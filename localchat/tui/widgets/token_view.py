"""A finished reply as tokens, with a cursor on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from localchat.tui.explain import Token
from localchat.tui.token_text import Flow, Piece, round_pieces, styled
from localchat.tui.widgets.lines import Looks


class TokenView(ScrollView, can_focus=True):
    """Lays all tokens out once for a width; moving the cursor draws two lines."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "TokenView { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Token before", show=False),
        Binding("right", "move(1)", "Next token", show=False),
        Binding("up", "move_rows(-1)", "Line above", show=False),
        Binding("down", "move_rows(1)", "Line below", show=False),
        Binding("pageup", "move_pages(-1)", "Page above", show=False),
        Binding("pagedown", "move_pages(1)", "Page below", show=False),
        Binding("home", "move_to(0)", "First token", show=False),
        Binding("end", "move_to(-1)", "Last token", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The cursor stands on another token."""

        number: int

    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__()
        self.cursor = 0
        self._tokens = tokens
        self._looks = Looks(self)
        self._flow = Flow(1)
        self._rows: dict[int, int] = {}
        """The line each token begins in."""
        self._column = -1
        """Where the cursor wants to be when it moves by lines; -1: where its token begins."""

    def on_resize(self) -> None:
        """Lay everything out for the new width."""
        width = self.scrollable_content_region.width
        if width > 0 and width != self._flow.width:
            self._flow = Flow(width, breaks=True)
            self._rows = {}
            for _, group in groupby(self._tokens, key=lambda token: id(token.wrote)):
                first = next(group)
                for piece in round_pieces(first.wrote, first.number):
                    row = self._flow.add(piece)
                    if piece.token >= 0:
                        self._rows[piece.token] = row
            self.virtual_size = Size(width, len(self._flow.lines))
            self.refresh()
        self._reveal()

    def notify_style_update(self) -> None:
        """Forget colours of another theme."""
        self._looks.forget()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        """One line, the token under the cursor reversed."""
        row = self.scroll_offset.y + y
        pieces = self._flow.lines[row] if row < len(self._flow.lines) else []
        return self._looks.strip(styled(pieces, self.cursor), self.size.width)

    def go(self, number: int) -> None:
        """Put the cursor on a token."""
        if not self._tokens:
            return
        number = min(max(number, 0), len(self._tokens) - 1)
        self._column = -1
        if number == self.cursor:
            return
        old, self.cursor = self.cursor, number
        for row in {*self._rows_of(old), *self._rows_of(number)}:
            self.refresh(Region(0, row - self.scroll_offset.y, self.size.width, 1))
        self._reveal()
        self.post_message(self.Moved(number))

    def action_move(self, step: int) -> None:
        """To a neighbour."""
        self.go(self.cursor + step)

    def action_move_to(self, number: int) -> None:
        """To a token, counted from the end if negative."""
        self.go(number if number >= 0 else len(self._tokens) + number)

    def action_move_rows(self, step: int) -> None:
        """To the token above or below."""
        row = self._rows.get(self.cursor, 0)
        column = self._column if self._column >= 0 else self._begin(row)
        while 0 <= (row := row + step) < len(self._flow.lines):
            found = self._at(row, column)
            if found is not None:
                self.go(found)
                self._column = column
                return

    def action_move_pages(self, step: int) -> None:
        """A screenful up or down."""
        row = self._rows.get(self.cursor, 0) + step * max(1, self.size.height - 1)
        row = min(max(row, 0), len(self._flow.lines) - 1)
        rows = range(row, -1, -1) if step > 0 else range(row, len(self._flow.lines))
        found = next((token for at in rows if (token := self._at(at, 0)) is not None), None)
        if found is not None:
            self.go(found)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the token that was clicked."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        row = self.scroll_offset.y + offset.y
        found = self._at(row, offset.x) if row < len(self._flow.lines) else None
        if found is not None:
            self.go(found)

    def _begin(self, row: int) -> int:
        taken = 0
        for piece in self._flow.lines[row]:
            if piece.token == self.cursor:
                break
            taken += cell_len(piece.text)
        return taken

    def _at(self, row: int, column: int) -> int | None:
        """The token at a column of a line, or the last one before it; None on a line without tokens."""
        found, taken = None, 0
        for piece in self._flow.lines[row]:
            if taken > column and found is not None:
                break
            found = piece.token if piece.token >= 0 else found
            taken += cell_len(piece.text)
        return found

    def _rows_of(self, number: int) -> range:
        """The lines a token stands in: long ones go on in the next."""
        first = self._rows.get(number, 0)
        last = first
        while last + 1 < len(self._flow.lines) and _begins_with(self._flow.lines[last + 1], number):
            last += 1
        return range(first, last + 1)

    def _reveal(self) -> None:
        row = self._rows.get(self.cursor, 0)
        self.scroll_to_region(Region(0, row, 1, 1), animate=False)


def _begins_with(pieces: list[Piece], number: int) -> bool:
    return bool(pieces) and pieces[0].token == number
