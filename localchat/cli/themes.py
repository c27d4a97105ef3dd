"""`localchat themes`: colour schemes of the screen, TOML files in the package and in the user's config folder."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from localchat import paths
from localchat.cli import options, output
from localchat.errors import UsageError

app = typer.Typer(help="Colour schemes of the screen.", no_args_is_help=True)

REQUIRED = ("background", "surface", "text", "muted", "accent", "accepted", "corrected", "success", "warning", "error")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True, slots=True)
class Theme:
    """A file that was read, with everything that is wrong with it."""

    path: Path
    name: str
    dark: bool
    problems: tuple[str, ...]


def folders() -> tuple[Path, ...]:
    """Where themes are looked for: the package, the source tree it runs from, the user's config folder."""
    package = Path(str(files("localchat")))
    return package / "_themes", package.parent / "themes", paths.config_dir() / "themes"


def read(path: Path) -> Theme:
    """Read a theme; every problem is named at once."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Theme(path, path.stem, dark=False, problems=(f"it cannot be read: {error}",))
    problems = []
    if not isinstance(table.get("name"), str):
        problems.append("name must be a text")
    if not isinstance(table.get("dark"), bool):
        problems.append("dark must be true or false")
    colours = table.get("colours")
    if not isinstance(colours, dict):
        problems.append("there is no [colours] table")
        colours = {}
    problems += [f"colours.{key} is missing" for key in REQUIRED if key not in colours]
    for key, value in colours.items():
        if key not in REQUIRED:
            problems.append(f"colours.{key} is not known")
        elif not (isinstance(value, str) and _COLOUR.fullmatch(value)):
            problems.append(f'colours.{key} must look like "#1a2b3c", not {value!r}')
    return Theme(path, str(table.get("name", path.stem)), table.get("dark") is True, tuple(problems))


def every() -> tuple[Theme, ...]:
    """All themes there are; of two with one name the later folder's counts."""
    found = [read(path) for folder in folders() if folder.is_dir() for path in sorted(folder.glob("*.toml"))]
    return tuple({theme.name: theme for theme in found}.values())


@app.command("list")
def list_(json: options.Json = False) -> None:
    """List the themes."""
    themes = every()
    if json:
        output.emit([{"name": t.name, "dark": t.dark, "path": str(t.path), "valid": not t.problems} for t in themes])
        return
    rows = [(theme.name, "dark" if theme.dark else "light", str(theme.path)) for theme in themes]
    output.table(("theme", "kind", "file"), rows)


@app.command()
def validate(
    file: Annotated[list[Path] | None, typer.Argument(help="Theme files; all themes if left out.")] = None,
    json: options.Json = False,
) -> None:
    """Check theme files. Exit code 2 if one is broken."""
    themes = tuple(read(path) for path in file) if file else every()
    if json:
        output.emit([{"path": str(t.path), "valid": not t.problems, "problems": list(t.problems)} for t in themes])
    else:
        for theme in themes:
            output.line(f"{theme.path}: {'; '.join(theme.problems) or 'valid'}")
    if any(theme.problems for theme in themes):
        raise typer.Exit(UsageError.exit_code)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="themes")
