"""The command line. One file per group; whatever is heavy is imported inside a command, never here."""

from __future__ import annotations

from typing import Annotated

import typer

from localchat import __version__
from localchat.cli import ask, bench, chat, chats, compare, config, doctor, fit, models, options, themes, train
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
    last: Annotated[bool, typer.Option("-c", "--continue", help="Open the last chat.", show_default=False)] = False,
    resume: Annotated[
        int | None, typer.Option("--resume", help="Open a chat by its number.", show_default=False)
    ] = None,
    model: options.Model = None,
    draft: options.Draft = None,
    draft_model: options.DraftModel = None,
    precision: options.Precision = None,
    draft_precision: options.DraftPrecision = None,
    context: options.Context = None,
    device: options.Device = None,
    exact: options.Exact = None,
    accelerate: options.Accelerate = None,
    system: options.System = None,
    theme: options.Theme = None,
    mouse: options.Mouse = None,
    profile: options.Profile = None,
    trust_remote_code: options.Trust = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.", show_default=False)
    ] = False,
) -> None:
    """Chat with models on your own machine, sped up by speculative decoding that never changes the text.

    Without a command the chat screen opens.
    """
    if ctx.invoked_subcommand is None:
        chat.chat(ctx, last=last, resume=resume, trust_remote_code=trust_remote_code)


for group in (ask, compare, bench, train, models, fit, chats, config, themes, doctor):
    group.register(app)
