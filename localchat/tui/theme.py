"""Themes as textual has them: made from the data, registered with the app, and read again when their files change."""

from __future__ import annotations

import contextlib
import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localchat import config
from localchat.errors import LocalchatError
from localchat.tui import palette
from localchat.tui.palette import ROLES, Colours, Palette, colour_of, complete

if TYPE_CHECKING:
    from textual.app import App
    from textual.theme import Theme

DEFAULT = "dark"
"""The theme that is used where the wanted one cannot be."""


def register_all(app: App[Any], wanted: str = DEFAULT) -> list[str]:
    """Give the app our themes in place of textual's own, choose one, and return what the user is to be told.

    Call it in the app's `__init__`: styles name colours that textual's own themes do not have.
    """
    found = {theme.name: theme for theme in palette.every() if theme.colours is not None}
    found.setdefault(DEFAULT, _plain())
    for theme in found.values():
        app.register_theme(to_textual(theme))
    app.theme = DEFAULT
    for name in set(app.available_themes) - set(found):
        app.unregister_theme(name)
    problem = choose(app, wanted)
    broken = palette.broken()
    notices = [_unusable(theme) for theme in broken]
    return notices if not problem or wanted in [theme.name for theme in broken] else [*notices, problem]


def choose(app: App[Any], name: str) -> str:
    """Change the theme; where there is none of that name the default is used, and a sentence says so."""
    if name in app.available_themes:
        app.theme = name
        return ""
    app.theme = DEFAULT
    near = difflib.get_close_matches(name, app.available_themes, n=1)
    hint = f"did you mean {near[0]}?" if near else "`localchat themes list` shows them all."
    return f"There is no theme {name!r}, so {DEFAULT} is used; {hint}"


def keep(app: App[Any], name: str, config_file: Path) -> str:
    """Change the theme and write it into the config file; returns what went wrong with that, or nothing."""
    problem = choose(app, name)
    try:
        config.write(config_file, {"theme": app.theme})
    except (LocalchatError, OSError) as error:
        return f"The theme is {name} until you leave; it could not be kept in {config_file}: {error}"
    return problem


def watch(app: App[Any]) -> None:
    """Look at the user's theme files once a second, and show a change at once; call it when the app is mounted."""
    app.set_interval(1.0, Watcher(app).look, name="themes")


class Watcher:
    """Sees when a file in the user's theme folder is new, changed or gone."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._seen = _stamps()

    def look(self) -> None:
        """Read what has changed since the last look."""
        stamps = _stamps()
        changed = {path for path, _ in stamps ^ self._seen}
        self._seen = stamps
        for path in sorted(changed):
            if path.exists():
                self._renew(palette.read(path))

    def _renew(self, theme: Palette) -> None:
        if theme.colours is None:
            self._app.notify(_unusable(theme), severity="warning", markup=False)
            return
        self._app.register_theme(to_textual(theme))
        if self._app.theme == theme.name:
            self._app._watch_theme(theme.name)  # the name is the same, so textual would not look again


def _stamps() -> set[tuple[Path, int]]:
    """Each of the user's theme files with the time of its last change."""
    found = set()
    for path in palette.files_in(palette.user_folder()):
        with contextlib.suppress(OSError):  # gone since the folder was read
            found.add((path, path.stat().st_mtime_ns))
    return found


def to_textual(theme: Palette) -> Theme:
    """A sound theme as textual takes it."""
    from textual.theme import Theme

    colours = theme.colours
    assert colours is not None
    return Theme(
        theme.name,
        primary=colours.accent,
        secondary=colours.secondary,
        warning=colours.warning,
        error=colours.error,
        success=colours.success,
        accent=colours.accent,
        foreground=colours.text,
        background=colours.background,
        surface=colours.surface,
        panel=colours.panel,
        boost=colours.surface,
        dark=theme.dark,
        ansi=theme.ansi,
        variables={**variables(colours), **_overrides(theme, colours)},
    )


def variables(colours: Colours) -> dict[str, str]:
    """The CSS variables that our styles use beside textual's own: one for each role that textual has not."""
    of = colour_of(colours)
    ours = {role: of(role) for role in ROLES if role not in _TEXTUALS}
    return ours | {"rule": colours.border, "on-accent": _on_accent(colours)}


def _on_accent(colours: Colours) -> str:
    """Text on a ground of the accent's colour."""
    return "ansi_black" if colours.background.startswith("ansi") else colours.background


_TEXTUALS = ("background", "surface", "panel", "accent", "secondary", "success", "warning", "error", "text", "border")


def _overrides(theme: Palette, colours: Colours) -> dict[str, str]:
    """Textual's own variables where its guess is not what we want."""
    of = colour_of(colours)
    values = {name: of(role) for role, names in _OVERRIDES.items() for name in names}
    values |= dict.fromkeys(("input-cursor-foreground", "button-color-foreground"), _on_accent(colours))
    values |= {"block-cursor-text-style": "bold", "markdown-h2-text-style": "bold", "markdown-h4-text-style": "bold"}
    if theme.ansi:  # a line under the text is a mark that no terminal's colours can hide
        values |= {"block-cursor-background": "ansi_default", "block-cursor-text-style": "bold underline"}
        values |= {"ansi-background": "ansi_black", "ansi-foreground": "ansi_white"}  # asked for by textual's sheets
    return values


_OVERRIDES = {
    "text": (
        "block-cursor-foreground", "block-cursor-blurred-foreground", "input-selection-foreground",
        "screen-selection-foreground", "button-foreground", "markdown-h3-color", "markdown-h4-color",
    ),
    "muted": (
        "text-muted", "text-disabled", "foreground-muted", "foreground-disabled", "footer-foreground",
        "footer-description-foreground", "markdown-h6-color", "scrollbar-hover",
    ),
    "accent": (
        "text-primary", "text-accent", "border", "input-cursor-background", "footer-key-foreground", "link-color",
        "link-color-hover", "markdown-h1-color", "markdown-h2-color", "scrollbar-active",
    ),
    "secondary": ("text-secondary",),
    "success": ("text-success",),
    "warning": ("text-warning",),
    "error": ("text-error",),
    "border": ("border-blurred", "scrollbar"),
    "selection": ("block-cursor-background", "input-selection-background", "screen-selection-background"),
    "panel": ("block-cursor-blurred-background", "block-hover-background", "link-background-hover"),
    "surface": ("footer-background", "surface-active"),
    "background": (
        "scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active", "scrollbar-corner-color",
    ),
}  # fmt: skip
"""Our colour, and textual's variables that are to have it."""


def defaults() -> dict[str, str]:
    """Our CSS variables for an app in which no theme of ours is registered, for `App.get_theme_variable_defaults`."""
    colours = _plain().colours
    assert colours is not None
    return variables(colours)


def _plain() -> Palette:
    """What is used if the package's own themes are lost."""
    colours = complete({"background": "#111317", "text": "#dfe2e8", "accent": "#84aef5"}, dark=True)
    return Palette(Path(), DEFAULT, dark=True, ansi=False, about="", colours=colours, problems=())


def _unusable(theme: Palette) -> str:
    more = f" (and {len(theme.problems) - 1} more)" if len(theme.problems) > 1 else ""
    return f"The theme file {theme.path.name} is not used: {theme.problems[0]}{more}; see `localchat themes validate`."
