"""The command line. One file per group; whatever is heavy is imported inside a command, never here."""

from __future__ import annotations

from typing import Annotated

import typer

from localchat import __version__
from localchat.cli import ask, bench, compare, config, doctor, fit, models, themes
from localchat.cli.guard import Commands
from localchat.cli.output import line

app = typer.Typer(
    name="localchat",
    cls=Commands,
    help="Chat with models on your own machine, sped up by speculative decoding that never changes the text.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        line(f"localchat {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.", show_default=False)
    ] = False,
) -> None:
    """Chat with models on your own machine, sped up by speculative decoding that never changes the text."""
    if ctx.invoked_subcommand is None:
        line("The chat screen is not part of this version yet. Ask one question at a time:")
        line('  localchat ask "What is speculative decoding?"')
        line("All commands: localchat --help")


for group in (ask, compare, bench, models, fit, config, themes, doctor):
    group.register(app)
