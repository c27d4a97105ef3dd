"""`localchat themes`: colour schemes of the screen, TOML files in the package and in the user's config folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from localchat.cli import options, output
from localchat.errors import UsageError
from localchat.tui import palette

app = typer.Typer(help="Colour schemes of the screen.", no_args_is_help=True)


@app.command("list")
def list_(json: options.Json = False) -> None:
    """List the themes."""
    themes = palette.every()
    if json:
        output.emit(
            [
                {"name": t.name, "dark": t.dark, "about": t.about, "path": str(t.path), "valid": not t.problems}
                for t in themes
            ]
        )
        return
    rows = [(theme.name, "dark" if theme.dark else "light", theme.about, str(theme.path)) for theme in themes]
    output.table(("theme", "kind", "look", "file"), rows)


@app.command()
def validate(
    file: Annotated[list[Path] | None, typer.Argument(help="Theme files; all themes if left out.")] = None,
    json: options.Json = False,
) -> None:
    """Check theme files and the contrast of their colours. Exit code 2 if one is broken or hard to read."""
    themes = tuple(palette.read(path) for path in file) if file else (*palette.every(), *palette.broken())
    found = {theme.path: (theme.problems, palette.faint(theme)) for theme in themes}
    if json:
        output.emit(
            [
                {"path": str(path), "valid": not problems, "problems": list(problems), "faint": list(faint)}
                for path, (problems, faint) in found.items()
            ]
        )
    else:
        for path, (problems, faint) in found.items():
            output.line(f"{path}: {'; '.join((*problems, *faint)) or 'valid'}")
    if any(problems or faint for problems, faint in found.values()):
        raise typer.Exit(UsageError.exit_code)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="themes")
