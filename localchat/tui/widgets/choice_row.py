"""A row of choices of which one stands; left and right move it, and every choice says whether it fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message

from localchat.tui.figures import MUTED, Line, fit, width_of
from localchat.tui.widgets.lines import Lines

_TITLE = 13
"""Cells of the row's name."""

_FITS, _NOT = "✓", "✗"


@dataclass(frozen=True, slots=True)
class Cell:
    """One choice."""

    label: str
    detail: str = ""
    """A few characters about it: beneath it where there is room, else shown for the chosen one only."""
    fits: bool | None = None
    """None: it is not a matter of memory."""

    @property
    def sign(self) -> str:
        """The mark before the label."""
        return "" if self.fits is None else f"{_FITS} " if self.fits else f"{_NOT} "


class ChoiceRow(Lines, can_focus=True):
    """Tells its screen which choice is wanted; the screen answers with `show`."""

    DEFAULT_CSS = "ChoiceRow { height: 1; } ChoiceRow.-roomy { height: 2; } ChoiceRow.-airy { margin-bottom: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", "Before", show=False),
        Binding("right,l", "step(1)", "After", show=False),
        # Here and not on the screen: a scrolling container in between would take them.
        Binding("up,k", "move(-1)", "Row above", show=False),
        Binding("down,j", "move(1)", "Row below", show=False),
        Binding("home", "far(-1)", "First", show=False),
        Binding("end", "far(1)", "Last", show=False),
    ]

    class Wanted(Message):
        """Another choice is wanted."""

        def __init__(self, row: ChoiceRow, place: int) -> None:
            super().__init__()
            self.row, self.place = row, place

    class Entered(Message):
        """The row has the focus."""

        def __init__(self, row: ChoiceRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self, title: str, *, id: str) -> None:
        super().__init__(id=id)
        self._title = title
        self._cells: tuple[Cell, ...] = ()
        self._chosen = -1
        self._changed = False
        self._spans: list[tuple[int, int, int]] = []

    @property
    def chosen(self) -> int:
        """The place of the choice that stands; -1 if none does."""
        return self._chosen

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All choices."""
        return self._cells

    def show(self, cells: Sequence[Cell], chosen: int, *, changed: bool = False) -> None:
        """Show these choices; `changed` marks a row that differs from what is loaded."""
        self._cells, self._chosen, self._changed = tuple(cells), chosen, changed
        self.redraw()

    def action_step(self, by: int) -> None:
        """The next choice to one side."""
        start = self._chosen if self._chosen >= 0 else (-1 if by > 0 else len(self._cells))
        self._want(start + by)

    def action_move(self, by: int) -> None:
        """Another row."""
        if by > 0:
            self.screen.focus_next(ChoiceRow)
        else:
            self.screen.focus_previous(ChoiceRow)

    def action_far(self, by: int) -> None:
        """The first or the last choice."""
        self._want(0 if by < 0 else len(self._cells) - 1)

    def _want(self, place: int) -> None:
        if 0 <= place < len(self._cells) and place != self._chosen:
            self.post_message(self.Wanted(self, place))

    def on_click(self, event: Click) -> None:
        """A choice is wanted with the mouse."""
        for start, end, place in self._spans:
            if start <= event.x < end:
                self._want(place)

    def watch_has_focus(self, has_focus: bool) -> None:  # noqa: FBT001
        """Draw with or without the cursor."""
        self.redraw()
        if has_focus:
            self.post_message(self.Entered(self))

    def draw(self, width: int, height: int) -> list[Line]:
        """The name, then as many choices as there is room for, the one that stands always among them."""
        head = f"{'▸' if self.has_focus else ' '}{'•' if self._changed else ' '}{self._title}"
        title = (fit(head, _TITLE).ljust(_TITLE + 1), "bold $accent" if self.has_focus else MUTED)
        if not self._cells:
            return [(title, ("–", MUTED))]
        roomy = height > 1
        room = width - _TITLE - 1
        texts = [self._text(place, roomy=roomy) for place in range(len(self._cells))]
        first, last = self._window([cell_len(text) + 1 for text in texts], room)
        before, after = ("‹" if first else " "), ("›" if last < len(texts) else "")
        top: list[tuple[str, str]] = [title, (before, MUTED)]
        below: list[tuple[str, str]] = [(" " * (_TITLE + 2), "")]
        self._spans = []
        for place in range(first, last):
            text = fit(texts[place], room - 2)
            start = width_of(tuple(top))
            self._spans.append((start, start + cell_len(text), place))
            top += [(text, self._tone(place)), (" ", "")]
            below += [(f"  {self._cells[place].detail}".ljust(cell_len(text)), MUTED), (" ", "")]
        top.append((after, MUTED))
        return [tuple(top), tuple(below)] if roomy else [tuple(top)]

    def _text(self, place: int, *, roomy: bool) -> str:
        cell = self._cells[place]
        text = f"{cell.sign}{cell.label}"
        if place == self._chosen and not roomy and cell.detail:
            text += f" {cell.detail}"
        wide = max(cell_len(text), cell_len(cell.detail)) if roomy else cell_len(text)
        text += " " * (wide - cell_len(text))
        return f"[{text}]" if place == self._chosen else f" {text} "

    def _window(self, sizes: list[int], room: int) -> tuple[int, int]:
        """First and one past the last choice shown."""
        chosen = max(0, self._chosen)
        first, end = 0, chosen + 2  # the neighbour too, so that there is always something to go to
        while first < chosen and sum(sizes[first:end]) > room - 3:
            first += 1
        last, used = first, 0
        while last < len(sizes) and (last <= chosen or used + sizes[last] <= room - 3):
            used += sizes[last]
            last += 1
        return first, last

    def _tone(self, place: int) -> str:
        cell, chosen = self._cells[place], place == self._chosen
        if chosen and self.has_focus:
            return "bold on $selection" if cell.fits is not False else "bold reverse $error"
        if cell.fits is False:
            return "bold $error" if chosen else "$rejected"
        return "bold" if chosen else MUTED
