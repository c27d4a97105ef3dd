"""The screen as an SVG picture. Blocks, bars and frames are drawn as shapes, so they meet in every font."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from rich.cells import cell_len
from rich.color import blend_rgb
from rich.style import Style
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from textual.app import App

FONTS = "'JetBrains Mono','Cascadia Mono','SF Mono',Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
WIDE, HIGH, SIZE = 9, 19, 15
"""A cell and its font, in pixels: a monospaced letter is 0.6 of its size wide."""
EDGE, BAR = 12, 34
"""The window's margin and its title bar."""

_SHADES = {"░": 0.25, "▒": 0.5, "▓": 0.75}
_QUADRANTS = {"▖": 4, "▗": 8, "▘": 1, "▙": 13, "▚": 9, "▛": 7, "▜": 11, "▝": 2, "▞": 6, "▟": 14}
"""Quarters of a cell: 1 and 2 above, 4 and 8 below."""
_ARMS = {
    "─": "lr", "│": "ud", "━": "LR", "┃": "UD", "╸": "L", "╺": "R", "╴": "l", "╶": "r", "╵": "u", "╷": "d",
    "╭": "rd", "╮": "ld", "╰": "ur", "╯": "ul", "┌": "rd", "┐": "ld", "└": "ur", "┘": "ul",
    "├": "urd", "┤": "uld", "┬": "lrd", "┴": "ulr", "┼": "ulrd",
}  # fmt: skip
"""Frames: from the middle of a cell to the left, right, up or down; a capital is a heavy line."""


@dataclass(frozen=True, slots=True)
class Ink:
    """How a run of text looks."""

    front: str
    back: str
    bold: bool
    italic: bool
    underline: bool
    strike: bool


@dataclass(frozen=True, slots=True)
class Run:
    """Text of one look, from a cell on."""

    x: int
    y: int
    text: str
    ink: Ink


def svg(app: App[Any], title: str) -> str:
    """What the app shows now, in a window."""
    columns, rows = app.size
    ground = app.screen.background_colors[1].hex6.lower()
    muted, surface = (app.theme_variables[name][:7] for name in ("muted", "surface"))
    width, height = columns * WIDE + 2 * EDGE, rows * HIGH + BAR + EDGE
    runs = list(_runs(app, ground))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(title)}</title>",
        f'<g font-family="{FONTS}" font-size="{SIZE}" xml:space="preserve" style="white-space:pre">',
        f'<clipPath id="window"><rect width="{width}" height="{height}" rx="9"/></clipPath>',
        '<g clip-path="url(#window)">',
        _box(0, 0, width, BAR, surface),
        _box(0, BAR - 4, width, height, ground),
        *(
            f'<circle cx="{20 + 20 * place}" cy="15" r="6" fill="{colour}"/>'
            for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
        f'<text x="{width // 2}" y="20" text-anchor="middle" font-size="13" fill="{muted}">{escape(title)}</text>',
        f'<g transform="translate({EDGE},{BAR})" shape-rendering="crispEdges">',
        *(_ground(run, columns, rows) for run in runs if run.ink.back != ground),
        *(piece for run in runs for piece in _drawn(run)),
        "</g></g></g></svg>\n",
    ]
    return "\n".join(parts)


def _runs(app: App[Any], ground: str) -> Iterator[Run]:
    """Neighbours of one look are one run."""
    strips = app.screen._compositor.render_strips(app.size)
    for y, strip in enumerate(strips[: app.size.height]):
        x, start, text, last = 0, 0, "", None
        for segment in strip:
            if segment.control or not segment.text:
                continue
            ink = _ink(segment.style or Style(), ground)
            if last is not None and ink != last:
                yield Run(start, y, text, last)
                start, text = x, ""
            last = ink
            text += segment.text
            x += cell_len(segment.text)
        if last is not None:
            yield Run(start, y, text, last)


def _ink(style: Style, ground: str) -> Ink:
    theme = DEFAULT_TERMINAL_THEME
    plain = style.bgcolor is None or style.bgcolor.is_default
    back = ground if plain or style.bgcolor is None else style.bgcolor.get_truecolor(theme, foreground=False).hex
    front = "#808080" if style.color is None else style.color.get_truecolor(theme).hex
    if style.reverse:
        front, back = back, front
    if style.dim and style.color is not None and style.bgcolor is not None:
        front = blend_rgb(style.color.get_truecolor(theme), style.bgcolor.get_truecolor(theme), 0.4).hex
    flags = (bool(style.bold), bool(style.italic), bool(style.underline), bool(style.strike))
    return Ink(front.lower(), back.lower(), *flags)


def _ground(run: Run, columns: int, rows: int) -> str:
    """What lies behind it; at the screen's sides and foot, up to the edge of the window."""
    end = run.x + cell_len(run.text)
    left, right = run.x * WIDE - EDGE * (run.x == 0), end * WIDE + EDGE * (end == columns)
    return _box(left, run.y * HIGH, right - left, HIGH + EDGE * (run.y == rows - 1), run.ink.back)


def _drawn(run: Run) -> Iterator[str]:
    """Its letters word by word, so that no font can push them out of their cells, and its shapes."""
    word, x, start, wide = "", run.x, run.x, cell_len(run.text)
    for sign in [*run.text, ""]:
        shape = _shape(sign, x * WIDE, run.y * HIGH, run.ink.front) if sign else ""
        alone = not sign or sign == " " or bool(shape) or not (sign.isascii() and word.isascii())
        if alone and word:
            yield _text(word, start, run)
            word = ""
        if shape:
            yield shape
        elif sign.strip():
            start = start if word else x
            word += sign
        x += cell_len(sign)
    left, top = run.x * WIDE, run.y * HIGH
    if run.ink.underline:
        yield _box(left, top + HIGH - 3, wide * WIDE, 1, run.ink.front)
    if run.ink.strike and run.text.strip():
        yield _box(left, top + HIGH // 2, wide * WIDE, 1, run.ink.front)


def _text(word: str, x: int, run: Run) -> str:
    look = ' font-weight="bold"' * run.ink.bold + ' font-style="italic"' * run.ink.italic
    fit = f' textLength="{cell_len(word) * WIDE}"' if word.isascii() and len(word) > 1 else ""
    return f'<text x="{x * WIDE}" y="{run.y * HIGH + 14}" fill="{run.ink.front}"{look}{fit}>{escape(word)}</text>'


def _box(x: int, y: int, width: int, height: int, fill: str, opacity: float = 1.0) -> str:
    faint = f' fill-opacity="{opacity}"' if opacity < 1 else ""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"{faint}/>'


def _shape(sign: str, x: int, y: int, fill: str) -> str:
    """A block, a shade or a piece of a frame; nothing for a letter."""
    code, half, middle = ord(sign), HIGH // 2, WIDE // 2
    if 0x2581 <= code <= 0x2588:
        high = round(HIGH * (code - 0x2580) / 8)
        return _box(x, y + HIGH - high, WIDE, high, fill)
    if 0x2589 <= code <= 0x258F:
        return _box(x, y, max(1, round(WIDE * (0x2590 - code) / 8)), HIGH, fill)
    boxes = {
        "▀": (0, 0, WIDE, half),
        "▔": (0, 0, WIDE, 2),
        "▐": (middle, 0, WIDE - middle, HIGH),
        "▕": (WIDE - 1, 0, 1, HIGH),
    }
    if sign in boxes:
        left, top, wide, high = boxes[sign]
        return _box(x + left, y + top, wide, high, fill)
    if sign in _SHADES:
        return _box(x, y, WIDE, HIGH, fill, _SHADES[sign])
    if sign in _QUADRANTS:
        places = ((0, 0), (middle, 0), (0, half), (middle, half))
        shown = [place for bit, place in enumerate(places) if _QUADRANTS[sign] >> bit & 1]
        return "".join(_box(x + left, y + top, WIDE - middle, HIGH - half, fill) for left, top in shown)
    return "".join(_arm(arm, x, y, fill) for arm in _ARMS.get(sign, ""))


def _arm(arm: str, x: int, y: int, fill: str) -> str:
    thick = 3 if arm.isupper() else 1
    middle, half = x + WIDE // 2 - thick // 2, y + HIGH // 2 - thick // 2
    boxes = {
        "l": (x, half, middle - x + thick, thick),
        "r": (middle, half, x + WIDE - middle, thick),
        "u": (middle, y, thick, half - y + thick),
        "d": (middle, half, thick, y + HIGH - half),
    }
    return _box(*boxes[arm.lower()], fill)
