"""The live panel: whether drafting pays, and every figure behind it, as the rounds come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import ClassVar

from localchat.tui import sections
from localchat.tui.figures import Line, width_of
from localchat.tui.live import Live, Phase
from localchat.tui.widgets.lines import Lines

_WIDEST = 46
"""Cells a column of figures may take: wider ones tear name and value apart."""
_TWO_COLUMNS = 64
_GAP = 4

Section = Callable[[Live, int, int], list[Line]]

_LEFT: tuple[Section, ...] = (sections.verdict, sections.rounds, sections.accepted, sections.sources)
_RIGHT: tuple[Section, ...] = (sections.time, sections.memory, sections.reply, sections.governor)
"""The governor comes last: its reasons may be of any length, and nothing below them must move."""


class Panel(Lines):
    """All figures of the engine. In a wide and low place they stand in two columns."""

    DEFAULT_CSS = "Panel { width: 34; padding: 0 1; }"
    HELP: ClassVar[str] = """\
# The live panel
It follows the engine round by round. A **round** is one draft and one check of it by the target.

- **▲ Drafting pays**: speed against plain decoding, as measured here. `◐` parked: the governor found plain decoding
  faster for now. `○` switched off.
- **saved**: seconds won in this chat against plain decoding.
- **rounds**: tokens per round, and above how many drafting pays. One column a round: grey is the target's own token,
  coloured was drafted and accepted, hatched was drafted and rejected.
- **accepted**: drafted tokens that the target would have written too; **by place** in the draft.
- **governor**: how deep it drafts and why; what it expects of the round: tokens, and time in plain rounds.
- **time**: shares of drafting, verifying and everything else.
- **memory**: one bar of all there is. Caches are set aside in full when a model is loaded.
"""

    _live: Live = Live()

    def show(self, live: Live) -> None:
        """Show this state of things."""
        self._live = live
        self.redraw()

    def draw(self, width: int, height: int) -> list[Line]:
        """The sections, with as much in them as the height holds."""
        return panel_lines(self._live, width, height)


def panel_lines(live: Live, width: int, height: int) -> list[Line]:
    """The whole panel for a size in cells."""
    if live.phase in (Phase.EMPTY, Phase.LOADING, Phase.DEAD):
        return sections.waiting(live, min(width, _WIDEST))[:height]
    if width < _TWO_COLUMNS:
        return _stacked(_LEFT + _RIGHT, live, min(width, _WIDEST), height)
    column = min((width - _GAP) // 2, _WIDEST)
    sides = (_stacked(side, live, column, height) for side in (_LEFT, _RIGHT))
    return [_beside(left, right, column) for left, right in zip_longest(*sides, fillvalue=())]


def _stacked(parts: Sequence[Section], live: Live, width: int, height: int) -> list[Line]:
    """One below the other with blank lines between them, each as full as there is room for."""
    chosen = [part(live, width, sections.SHORT) for part in parts]
    room = height - sum(map(len, chosen))
    gaps = max(0, min(room, len(parts) - 1))
    room -= gaps
    for level in (sections.MEDIUM, sections.TALL):
        for index, part in enumerate(parts):
            fuller = part(live, width, level)
            if len(fuller) - len(chosen[index]) <= room:
                room -= len(fuller) - len(chosen[index])
                chosen[index] = fuller
    lines = [line for index, part in enumerate(chosen) for line in (*part, *((),) * (index < gaps))]
    return lines[:height]


def _beside(left: Line, right: Line, column: int) -> Line:
    return (*left, (" " * (column + _GAP - width_of(left)), ""), *right)
