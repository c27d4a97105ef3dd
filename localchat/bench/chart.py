"""A comparison as a picture: speed against plain by kind of work, and one race over time. Plain SVG, no library."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from xml.sax.saxutils import escape

from localchat.bench import words
from localchat.bench.comparison import Comparison, Race, Side
from localchat.bench.runner import Result
from localchat.sanitize import clean

WIDTH = 960
_LEFT, _RIGHT = 170, 640
"""Where bars begin and end; their figures stand to the right."""
_ROW = 38
_RACE = 220
_FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Colours:
    """As "#rrggbb"."""

    background: str = "#ffffff"
    text: str = "#1f2328"
    muted: str = "#59606a"
    line: str = "#d5d8dd"
    plain: str = "#8a929e"
    fast: str = "#0b5cad"


def svg(comparison: Comparison, colours: Colours) -> str:
    """The picture's text."""
    race = max(comparison.races, key=lambda race: race.plain.tokens, default=None)
    bars_top = 120
    race_top = bars_top + _ROW * len(comparison.drafted) + 66
    notes_top = race_top + (_RACE + 76 if race else 0)
    notes = textwrap.wrap(" · ".join(words.conditions(comparison)), 138)
    height = notes_top + 17 * len(notes) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="{_FONT}" font-size="14" role="img">',
        f"<title>{_safe(comparison.title)}</title>",
        f'<rect width="100%" height="100%" fill="{colours.background}"/>',
        *_heading(comparison, colours),
        *_bars(comparison, colours, bars_top),
        *(_timeline(race, colours, race_top) if race else ()),
        *(_text(32, notes_top + 17 * i, note, colours.muted, size=12) for i, note in enumerate(notes)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _heading(comparison: Comparison, colours: Colours) -> list[str]:
    kinds = len(comparison.drafted)
    title = "nothing was measured"
    if comparison.speedup:
        over = f", median over {kinds} kinds of work" if kinds > 1 else ""
        title = f"{comparison.speedup.median:.2f}× the speed of plain decoding{over}"
    worst = max((result.sameness.verdict for result in comparison.drafted), key=list(words.MARKS).index, default=None)
    texts = {"same": "every text the same, token for token", "tie": "texts part only at ties within rounding"}
    below = texts.get(worst.value, "some texts differ: see the record") if worst else ""
    return [
        _text(32, 46, title, colours.text, size=24, weight=600),
        _text(32, 72, f"{comparison.target} {comparison.precision} · {below}", colours.muted),
    ]


def _bars(comparison: Comparison, colours: Colours, top: int) -> list[str]:
    results = comparison.drafted
    most = max((result.speedup.high for result in results), default=1.0)
    step = next(s for s in (0.25, 0.5, 1, 2, 5, 10, 50, math.inf) if most / s <= 6)
    end = max(1.0, math.ceil(most * 1.02 / step) * step) if math.isfinite(step) else most
    bottom = top + _ROW * len(results)
    parts = []
    for tick in range(round(end / step) + 1):
        x, value = _at(tick * step, end), tick * step
        parts += [
            _line(x, top - 8, x, bottom, colours.line),
            _text(x, bottom + 18, f"{value:g}×", colours.muted, size=12, anchor="middle"),
        ]
    for index, result in enumerate(results):
        parts += _bar(result, colours, top + index * _ROW, end)
    x = _at(1.0, end)
    label = _text(x, top - 14, "plain = 1×", colours.text, size=12, anchor="middle")
    return [*parts, _line(x, top - 8, x, bottom, colours.text, width=1.5, dash="4 3"), label]


def _bar(result: Result, colours: Colours, top: int, end: float) -> list[str]:
    middle, spread = top + _ROW // 2 - 4, result.speedup
    x, low, high = (_at(value, end) for value in (spread.median, spread.low, spread.high))
    parts = [
        _text(_LEFT - 14, middle + 5, result.category, colours.text, anchor="end"),
        f'<rect x="{_LEFT}" y="{middle - 10}" width="{x - _LEFT:.1f}" height="20" rx="3" fill="{colours.fast}"/>',
    ]
    if result.runs > 1:
        parts += [
            _line(low, middle, high, middle, colours.text, width=1.5),
            *(_line(cap, middle - 5, cap, middle + 5, colours.text, width=1.5) for cap in (low, high)),
        ]
    ratio = words.ratio(spread, result.runs)
    note = f"n {result.runs} · {words.mark(result.sameness)} · {result.acceptance_rate:.0%} accepted"
    return [
        *parts,
        _text(_RIGHT + 16, middle - 1, ratio, colours.text, weight=600),
        _text(_RIGHT + 16, middle + 14, note, colours.muted, size=11),
    ]


def _timeline(race: Race, colours: Colours, top: int) -> list[str]:
    """Tokens over time, both sides of a race."""
    end = max(race.plain.seconds, race.fast.seconds) or 1.0
    most = max(race.plain.tokens, race.fast.tokens, 1)
    bottom, right = top + 24 + _RACE, WIDTH - 150
    across, up = (right - _LEFT) / end, _RACE / most

    def steps(side: Side) -> str:
        points, written = [(0.0, 0)], 0
        for moment in side.moments:
            points.append((moment.seconds, written))
            written += moment.tokens
            points.append((moment.seconds, written))
        return " ".join(f"{_LEFT + seconds * across:.1f},{bottom - count * up:.1f}" for seconds, count in points)

    parts = [
        _text(32, top, f"One race, {race.kind}: tokens over time", colours.text, weight=600),
        _line(_LEFT, bottom, right, bottom, colours.line),
        _text(_LEFT, bottom + 18, "0", colours.muted, size=12, anchor="middle"),
        _text(right, bottom + 18, words.seconds(end), colours.muted, size=12, anchor="middle"),
        _text(_LEFT - 14, bottom - most * up + 5, f"{most} tokens", colours.muted, size=12, anchor="end"),
    ]
    sides = ((race.plain, "plain", colours.plain, "6 4", -8), (race.fast, race.fast.drafter, colours.fast, "", 18))
    for side, name, colour, dash, shift in sides:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<polyline points="{steps(side)}" fill="none" stroke="{colour}" stroke-width="2.5"{dashes}/>')
        x, y = _LEFT + side.seconds * across, bottom - side.tokens * up
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
        parts.append(_text(x + 10, y + shift, f"{name} {words.seconds(side.seconds)}", colours.text, size=12))
    return parts


def _at(value: float, end: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * value / end


def _text(
    x: float, y: float, text: str, colour: str, *, size: int = 14, weight: int = 400, anchor: str = "start"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f"<text {place}>{_safe(text)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, width: float = 1, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"{dashes}/>'


def _safe(text: str) -> str:
    """Text that XML can hold: two code points are not allowed in it."""
    return escape(clean(text).replace("\n", " ").translate({0xFFFE: "�", 0xFFFF: "�"}))
