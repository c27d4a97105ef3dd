"""`localchat config`: where the settings are, what they are, and where each comes from."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from localchat import config, paths
from localchat.cli import interrupt, options, output
from localchat.errors import UsageError
from localchat.tui import keymap

app = typer.Typer(help="The settings: where they are and what they are.", no_args_is_help=True)


@app.command()
def path(json: options.Json = False) -> None:
    """Print where the config file is (it need not exist)."""
    file = paths.config_file()
    output.emit({"path": str(file), "exists": file.is_file()}) if json else output.line(str(file))


@app.command()
def show(ctx: typer.Context, profile: options.Profile = None, json: options.Json = False) -> None:
    """Print every setting with its value and where the value comes from."""
    resolved = options.resolve(ctx)
    rows = [(key, getattr(resolved.settings, key), source) for key, source in resolved.sources]
    if json:
        output.emit({key: {"value": value, "source": source} for key, value, source in rows})
        return
    output.table(("key", "value", "source"), [(key, config.toml(value), source) for key, value, source in rows])


@app.command()
def validate(
    file: Annotated[Path | None, typer.Argument(help="A config file; yours if left out.")] = None,
    json: options.Json = False,
) -> None:
    """Check a config file, the keys of the screen too. Exit code 2 if it is broken."""
    if file is not None and not file.is_file():
        raise UsageError(f"There is no file {file}.", "Check the path.")
    found = config.read(file or paths.config_file())
    if problems := keymap.warnings(found.keys):
        raise UsageError(
            f"{found.path}: {' '.join(problems)}",
            "The screen starts all the same; F1 lists the actions and their keys.",
        )
    if json:
        profiles = [name for name, _ in found.profiles]
        output.emit({"path": str(found.path), "valid": True, "keys": len(found.values), "profiles": profiles})
        return
    count = f"{len(found.values)} keys, {len(found.profiles)} profiles" if found.text else "no file, so all defaults"
    output.line(f"{found.path} is valid ({count}).")


@app.command()
def edit() -> None:
    """Open the config file in $VISUAL or $EDITOR; a new one lists every key with its default."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    file = paths.config_file()
    if not editor:
        raise UsageError("No editor is set.", f"Set EDITOR, or open {file} yourself.")
    if not file.exists():
        paths.write_private(file, config.template())
    try:
        with interrupt.handled_by(lambda _signal, _frame: None):  # Ctrl-C is the editor's
            code = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode
    except OSError as error:
        raise UsageError(f"{editor} cannot be started: {error.strerror}.", "Set EDITOR to another program.") from error
    if code:
        raise UsageError(f"{editor} ended with code {code}.", f"The file is {file}.")
    config.read(file)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="config")
