"""Themes as data: TOML files in the package, in the source tree and in the user's config folder. No textual here.

A theme gives three colours or all of them; what it leaves out is derived from what it gives, so a theme of the user's
can be five lines long and still fit every screen.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path

from localchat import paths

TEXT_RATIO = 4.5
"""Least contrast of text (WCAG 2.2, level AA)."""
MARK_RATIO = 3.0
"""Least contrast of bars and marks that carry a meaning (WCAG 2.2, level AA)."""

ANSI = tuple(
    f"ansi_{bright}{name}"
    for bright in ("", "bright_")
    for name in ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
)
"""The terminal's own sixteen colours; a theme with `ansi = true` takes these and "ansi_default"."""

_HEX = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True, slots=True)
class Colours:
    """Every colour of the screen, as "#rrggbb" (or an ANSI name); in a file a name has - for _."""

    background: str
    surface: str
    """Behind the composer, the lists and the bars at the edges."""
    panel: str
    """Behind what floats or is chosen."""
    code: str
    """Behind code."""
    border: str
    """Thin lines that part one thing from another."""
    text: str
    muted: str
    """Text that is not read first."""
    accent: str
    """What has the focus, keys and headings."""
    secondary: str
    """A second voice beside the accent."""
    user: str
    """The mark of what you wrote."""
    success: str
    warning: str
    error: str
    accepted: str
    corrected: str
    rejected: str
    source_lookup: str
    source_model: str
    source_head: str
    source_other: str
    gauge_target: str
    gauge_target_cache: str
    gauge_draft: str
    gauge_draft_cache: str
    gauge_work: str
    gauge_other: str
    gauge_free: str
    selection: str
    """Behind selected text and the row under the cursor."""
    syntax_keyword: str
    syntax_function: str
    syntax_type: str
    syntax_string: str
    syntax_number: str
    syntax_comment: str


ROLES = tuple(field.name.replace("_", "-") for field in fields(Colours))
"""The keys of a file's [colours] table."""
REQUIRED = ("background", "text", "accent")
"""Those that nothing can be derived from."""

GROUNDS = ("background", "surface", "panel", "code")
TEXTS = (
    "text", "muted", "accent", "secondary", "user", "success", "warning", "error", "accepted", "corrected", "rejected",
    "source-lookup", "source-model", "source-head", "source-other",
)  # fmt: skip
SYNTAX = tuple(role for role in ROLES if role.startswith("syntax-"))
GAUGES = tuple(role for role in ROLES if role.startswith("gauge-") and role != "gauge-free")


@dataclass(frozen=True, slots=True)
class Palette:
    """A theme file that was read, with everything that is wrong with it."""

    path: Path
    name: str
    dark: bool
    ansi: bool
    """Uses the terminal's own colours."""
    about: str
    """One line for lists of themes."""
    colours: Colours | None
    """None if there are problems."""
    problems: tuple[str, ...]


def mix(first: str, second: str, share: float) -> str:
    """The colour that lies `share` (0 to 1) of the way from the first to the second."""
    parts = zip(_rgb(first), _rgb(second), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in parts)


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two "#rrggbb" colours, 1 to 21 (WCAG 2.2)."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in _rgb(colour))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def readable(colour: str, grounds: tuple[str, ...], text: str, ratio: float = TEXT_RATIO) -> str:
    """The colour itself, or moved towards the text's colour as far as it must be to be read on every ground."""
    for step in range(21):
        moved = mix(colour, text, step / 20)
        if all(contrast(moved, ground) >= ratio for ground in grounds):
            return moved
    return text


def complete(given: Mapping[str, str], *, dark: bool) -> Colours:
    """All colours from those that are given; at least the required ones."""
    values = dict(given)
    if len(given) < len(ROLES):  # a theme of the terminal's colours gives all: nothing can be mixed from their names
        _derive(values, _DARK_HUES if dark else _LIGHT_HUES)
    return Colours(**{role.replace("-", "_"): values[role] for role in ROLES})


def _derive(values: dict[str, str], hues: Mapping[str, str]) -> None:
    ground, text, accent = (values[role] for role in REQUIRED)
    for role, share in _SHADES.items():
        values.setdefault(role, mix(ground, text, share))
    grounds = tuple(values[role] for role in GROUNDS)
    for role, hue in {"muted": mix(ground, text, 0.5), **hues}.items():
        values.setdefault(role, readable(hue, grounds, text))
    values.setdefault("selection", mix(ground, accent, 0.25))
    for role, source in _SAME.items():
        values.setdefault(role, values[source])


_SHADES = {"surface": 0.04, "panel": 0.08, "code": 0.03, "border": 0.16, "gauge-free": 0.2}
"""How far from the background towards the text."""
_DARK_HUES = {
    "success": "#8fd19e", "warning": "#e8c57a", "error": "#f2928c", "corrected": "#f0b483", "rejected": "#a8787c",
    "source-lookup": "#6fcfc4", "source-model": "#a5a8ff", "source-head": "#e39bd0", "source-other": "#d3bd86",
}  # fmt: skip
_LIGHT_HUES = {
    "success": "#1c6b3c", "warning": "#7a5600", "error": "#b02a2a", "corrected": "#8f4700", "rejected": "#8f5b60",
    "source-lookup": "#0b6b66", "source-model": "#4a47b8", "source-head": "#94307a", "source-other": "#6b5a1c",
}  # fmt: skip
_SAME = {
    "secondary": "source-model", "user": "accent", "accepted": "source-lookup",
    "gauge-target": "accent", "gauge-target-cache": "source-lookup", "gauge-draft": "source-model",
    "gauge-draft-cache": "source-head", "gauge-work": "corrected", "gauge-other": "muted",
    "syntax-keyword": "source-model", "syntax-function": "accent", "syntax-type": "source-lookup",
    "syntax-string": "success", "syntax-number": "corrected", "syntax-comment": "muted",
}  # fmt: skip
"""What a colour is taken from that is not given; in the order in which they are settled."""


def folders() -> tuple[Path, ...]:
    """Where themes are looked for: the package, the source tree it runs from, the user's config folder."""
    package = Path(str(files("localchat")))
    return package / "_themes", package.parent / "themes", user_folder()


def user_folder() -> Path:
    """Where the user's own themes lie; it need not exist."""
    return paths.config_dir() / "themes"


def files_in(folder: Path) -> list[Path]:
    """A folder's theme files; none of one that is missing or cannot be read."""
    try:
        return sorted(folder.glob("*.toml"))
    except OSError:
        return []


def every() -> tuple[Palette, ...]:
    """All themes there are, by name; of two with one name the later folder's counts, if it is sound."""
    found: dict[str, Palette] = {}
    for folder in folders():
        for path in files_in(folder):
            theme = read(path)
            if theme.name not in found or not theme.problems:
                found[theme.name] = theme
    return tuple(found[name] for name in sorted(found))


def broken() -> tuple[Palette, ...]:
    """The user's themes that cannot be used."""
    themes = (read(path) for path in files_in(user_folder()))
    return tuple(theme for theme in themes if theme.problems)


def read(path: Path) -> Palette:
    """Read a theme; every problem is named at once."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        problem = f"it cannot be read: {error}"
        return Palette(path, path.stem, dark=False, ansi=False, about="", colours=None, problems=(problem,))
    name, about, ansi = table.get("name"), table.get("about", ""), table.get("ansi", False)
    problems = [] if isinstance(name, str) and name else ["name must be a text"]
    if not isinstance(table.get("dark"), bool):
        problems.append("dark must be true or false")
    if not isinstance(ansi, bool):
        problems.append("ansi must be true or false")
    if not isinstance(about, str):
        problems.append("about must be a text")
    problems += [f"{key} is not known" for key in table if key not in ("name", "dark", "ansi", "about", "colours")]
    colours = table.get("colours")
    problems += _wrong(colours, ansi=ansi is True)
    dark = table.get("dark") is True
    whole = complete(colours, dark=dark) if isinstance(colours, dict) and not problems else None
    return Palette(
        path,
        name if isinstance(name, str) and name else path.stem,
        dark=dark,
        ansi=ansi is True,
        about=about if isinstance(about, str) else "",
        colours=whole,
        problems=tuple(problems),
    )


def _wrong(colours: object, *, ansi: bool) -> list[str]:
    """What is wrong with a [colours] table."""
    if not isinstance(colours, dict):
        return ["there is no [colours] table"]
    needed = ROLES if ansi else REQUIRED
    problems = [f"colours.{role} is missing" for role in needed if role not in colours]
    for role, value in colours.items():
        if role not in ROLES:
            near = difflib.get_close_matches(role, ROLES, n=1)
            problems.append(f"colours.{role} is not known" + (f" (did you mean {near[0]}?)" if near else ""))
        elif not isinstance(value, str) or not (value in (*ANSI, "ansi_default") if ansi else _HEX.fullmatch(value)):
            like = f"be one of ansi_default, {', '.join(ANSI)}" if ansi else 'look like "#1a2b3c"'
            problems.append(f"colours.{role} must {like}, not {value!r}")
    return problems


def faint(theme: Palette) -> tuple[str, ...]:
    """Where a theme is hard to read: each pair of colours below the least contrast, with the figure."""
    if theme.colours is None or theme.ansi:
        return ()
    of = colour_of(theme.colours)
    pairs = [(role, ground, TEXT_RATIO) for role in TEXTS for ground in GROUNDS]
    pairs += [("text", "selection", TEXT_RATIO), ("muted", "selection", MARK_RATIO)]
    pairs += [(role, "code", TEXT_RATIO) for role in SYNTAX]
    pairs += [(role, ground, MARK_RATIO) for role in GAUGES for ground in ("background", "surface", "panel")]
    low = [(role, ground, least, contrast(of(role), of(ground))) for role, ground, least in pairs]
    return tuple(
        f"{role} on {ground} has contrast {ratio:.2f}, at least {least:g} is readable"
        for role, ground, least, ratio in low
        if ratio < least
    )


def colour_of(colours: Colours) -> Callable[[str], str]:
    """The look-up of a role by its name in files."""
    return lambda role: str(getattr(colours, role.replace("-", "_")))
