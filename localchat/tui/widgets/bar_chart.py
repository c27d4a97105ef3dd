"""Speed against plain by kind of work, as bars; the one that is selected is the one whose race is shown."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import set_cell_size
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message

from localchat.bench import words
from localchat.bench.runner import Result
from localchat.tui.figures import MUTED, Line, fit, merged, spread
from localchat.tui.widgets.lines import Lines

_PARTS = " ▏▎▍▌▋▊▉█"
_STEPS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)


class BarChart(Lines, can_focus=True):
    """One row a kind: name, bar, median and range, and whether the text is the same."""

    HELP: ClassVar[str] = """# Speed by kind of work

Each bar is the **median** speed against plain decoding; `1×` is as fast as plain. Its shaded end and the thin line
behind it reach from the slowest to the fastest of the **n** runs. `=` means that every text was the same as the plain
one, token for token; `≈` that they part at a tie within rounding; `≠` that they differ.

Up and down choose a kind; its race is replayed above, and its figures are shown beside the bars.
"""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "Kind before", show=False),
        Binding("down", "step(1)", "Next kind", show=False),
    ]
    DEFAULT_CSS = """
    BarChart { height: 8; padding: 0 1; &:focus { background: $surface; } }
    """

    class Chosen(Message):
        """Another kind is to be shown."""

        def __init__(self, kind: str) -> None:
            super().__init__()
            self.kind = kind

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._results: tuple[Result, ...] = ()
        self._kinds: tuple[str, ...] = ()
        self._kind = ""
        self._summary = ""

    def show(self, results: tuple[Result, ...], kinds: tuple[str, ...], kind: str, summary: str) -> None:
        """Show these.

        Args:
            results: of drafted replies, as far as they are there.
            kinds: all there will be.
            kind: the one that is selected.
            summary: one line above the bars.
        """
        self._results, self._kinds, self._kind, self._summary = results, kinds, kind, summary
        self.styles.height = max(len(kinds), 1) + 2
        self.redraw()

    def action_step(self, by: int) -> None:
        """Choose a neighbour among the kinds that have a result."""
        there = [result.category for result in self._results]
        if there:
            place = there.index(self._kind) if self._kind in there else -by
            self.post_message(self.Chosen(there[min(max(place + by, 0), len(there) - 1)]))

    def on_click(self, event: Click) -> None:
        """A row is chosen by the mouse."""
        row = event.y - 1
        if 0 <= row < len(self._kinds) and self._kinds[row] in [result.category for result in self._results]:
            self.post_message(self.Chosen(self._kinds[row]))

    def draw(self, width: int, height: int) -> list[Line]:
        """Summary, bars, scale; nothing before there is anything to show."""
        if not self._kinds:
            return []
        names = min(20, max(map(len, self._kinds), default=0))
        values = max((len(_value(result)) for result in self._results), default=12)
        room = max(6, width - names - values - 6)
        end = _end(max((result.speedup.high for result in self._results), default=2.0))
        legend = "median (range), n, = same text" if self._results and width > 100 else ""
        rows: list[Line] = [spread(((self._summary, MUTED),), ((legend, MUTED),) if legend else (), width)]
        for kind in self._kinds:
            result = next((item for item in self._results if item.category == kind), None)
            mark = "▸ " if kind == self._kind and len(self._kinds) > 1 else "  "
            style = "bold" if kind == self._kind else ""
            name: Line = ((mark, "bold $accent"), (set_cell_size(fit(kind, names), names + 1), style))
            if result is None:
                rows.append((*name, ("·" * min(3, room), MUTED)))
                continue
            left: Line = (*name, *bar(result, room, end))
            rows.append(spread(left, ((_value(result), style),), width))
        rows.append(((" " * (names + 3), ""), *_scale(room, end)))
        return rows[:height]


def _value(result: Result) -> str:
    return f"{words.ratio(result.speedup, result.runs)} n{result.runs} {words.mark(result.sameness).split()[0]}"


def _end(most: float) -> float:
    """The end of the scale: a round number."""
    step = next((step for step in _STEPS if most / step <= 5), most)
    return max(1.0, -(-most // step) * step)


def bar(result: Result, room: int, end: float) -> Line:
    """A bar to the median, and a thin line from the slowest to the fastest run."""
    style = "$accepted" if result.speedup.median >= 1 else "$warning"
    many = result.runs > 1
    eighths = max(1, round(result.speedup.median / end * room * 8))
    full, rest = (max(1, round(eighths / 8)), 0) if many else divmod(eighths, 8)
    cells = [("█", style)] * full + ([(_PARTS[rest], style)] if rest else [])
    low, high = (round(value / end * room) for value in (result.speedup.low, result.speedup.high))
    if many and low < full:
        cells[low:full] = [("▓", style)] * (full - low)
    if many and high > full:
        cells += [*[("─", MUTED)] * (high - full - 1), ("┤", MUTED)]
    cells += [(" ", "")] * (room - len(cells))
    one = round(room / end)
    if one < room:
        cells[one] = ("┊", f"$background on {style}") if one < full else ("┊" if cells[one][0] == " " else "┼", MUTED)
    return merged(cells)


def _scale(room: int, end: float) -> Line:
    """The numbers below the bars; plain stands at 1×."""
    cells = [" "] * (room + 10)
    step = next((step for step in _STEPS if end / step <= 5), end)
    labels = [(value * step, f"{value * step:g}×") for value in range(round(end / step) + 1)]
    labels = [(1.0, "1× plain"), *(label for label in labels if label[0] != 1.0)]
    for value, text in labels:
        place = round(value / end * room)
        if all(cell == " " for cell in cells[max(0, place - 1) : place + len(text) + 1]):
            cells[place : place + len(text)] = text
    return (("".join(cells).rstrip(), MUTED),)
