"""The figures of one kind of work: plain, accelerated, and what lies between them."""

from __future__ import annotations

from typing import ClassVar

from localchat.bench import words
from localchat.bench.comparison import Race
from localchat.bench.runner import Result, Spread
from localchat.models.memory import gib
from localchat.tui.figures import MUTED, Line, fit, percent
from localchat.tui.widgets.lines import Lines

ROWS = 7

Rows = tuple[tuple[str, str, str, str], ...]


class RaceFigures(Lines):
    """A small table; medians of the kind, and of the race that is shown where it says so."""

    HELP: ClassVar[str] = """# Figures

**speed** counts decoding alone; **first token** is from the question to the first visible token. Both are medians, with
the range of the runs in brackets. **accepted** is accepted / drafted, and in brackets the share at each position of the
draft. **whole reply**, **memory** and how many were **drafted** are those of the race that is shown.

The ratio is against true plain decoding: what exact mode costs plain decoding is taken off.
"""
    DEFAULT_CSS = f"RaceFigures {{ height: {ROWS}; padding: 0 1; }}"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._full: Rows = ()
        self._short: Rows = ()

    def show(self, plain: Result | None, fast: Result | None, race: Race | None) -> None:
        """Show a kind; nothing if it was not measured."""
        self._full = rows(plain, fast, race, positions=True) if plain and fast and race else ()
        self._short = rows(plain, fast, race, positions=False) if plain and fast and race else ()
        self.redraw()

    def draw(self, width: int, height: int) -> list[Line]:
        """The table; what each position of the draft gave is left out where there is no room."""
        shown = self._full if sum(_columns(self._full)) <= width else self._short
        first, second, third, _ = _columns(shown)
        lines: list[Line] = []
        for index, (name, plain, fast, change) in enumerate(shown[:height]):
            style = MUTED if index == 0 else ""
            lines.append(
                (
                    (f"{name:<{first}}", MUTED),
                    (f"{plain:<{second}}", style),
                    (f"{fast:<{third}}", style or "$accepted"),
                    (fit(change, max(0, width - first - second - third)), style or "bold"),
                )
            )
        return lines


def _columns(cells: Rows) -> tuple[int, int, int, int]:
    """The widths of the four columns, with a gap behind each but the last."""
    first, second, third, last = (max((len(row[column]) for row in cells), default=0) for column in range(4))
    return first + 2, second + 2, third + 2, last


def rows(plain: Result, fast: Result, race: Race, *, positions: bool) -> Rows:
    """The cells of the table, head first."""
    many = fast.runs > 1
    first = fast.ttft_seconds.median - plain.ttft_seconds.median
    took = f"{race.plain.seconds / (race.fast.seconds or 1.0):.2f}× in this race"
    if race.plain.tokens != race.fast.tokens:
        took = f"{race.plain.tokens} and {race.fast.tokens} tokens"
    by_position = " ".join(percent(share).removesuffix(" %") for share in fast.acceptance_by_position[:5])
    verified = f"{race.fast.accepted} of {race.fast.drafted} drafted" if race.fast.drafted else "nothing drafted"
    accepted = percent(fast.acceptance_rate) + (f" ({by_position})" if positions and by_position else "")
    alone = max(0, race.plain.memory_bytes - race.plain.draft_bytes)
    return (
        (fast.category, "plain", fast.drafter, f"median of {fast.runs} (range)" if many else "one run"),
        ("speed", _speed(plain, many), _speed(fast, many), words.ratio(fast.speedup, fast.runs)),
        ("first token", _time(plain.ttft_seconds, many), _time(fast.ttft_seconds, many), _later(first)),
        (
            "whole reply",
            words.seconds(race.plain.seconds),
            words.seconds(race.fast.seconds),
            took,
        ),
        ("tokens a round", "1", f"{fast.tokens_per_round:.2f}", ""),
        ("accepted", "–", accepted, verified),
        ("memory", gib(alone), f"+{gib(race.fast.draft_bytes)}", "draft and its cache"),
    )


def _speed(result: Result, many: bool) -> str:  # noqa: FBT001
    spread = result.tokens_per_second
    return f"{spread.median:.0f}" + (f" ({spread.low:.0f}–{spread.high:.0f})" if many else "") + " tok/s"


def _time(spread: Spread, many: bool) -> str:  # noqa: FBT001
    if not many or spread.high >= 1:
        return words.seconds(spread.median)
    return f"{1000 * spread.median:.0f} ({1000 * spread.low:.0f}–{1000 * spread.high:.0f}) ms"


def _later(difference: float) -> str:
    if abs(difference) < 0.0005:
        return "at the same time"
    return f"{words.seconds(abs(difference))} {'later' if difference > 0 else 'sooner'}"
