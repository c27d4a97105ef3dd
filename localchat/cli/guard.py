"""The outermost border: every failure becomes one sentence, what to do next, and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from localchat import paths
from localchat.cli import interrupt, log
from localchat.cli.output import say
from localchat.errors import LocalchatError

# Typer carries its own copy of click in newer versions; its usage errors are found by inheritance in old and new.
_TYPER: tuple[type[BaseException], ...] = (typer.Exit, typer.Abort, typer.BadParameter.__mro__[1])


def _reader_left() -> None:
    """The reader of a pipe is gone: send what Python still flushes at exit nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def explain(error: BaseException) -> int:
    """Say what went wrong on stderr and return the exit code."""
    if isinstance(error, LocalchatError):
        say(f"Error: {error.message}")
        if error.hint:
            say(error.hint)
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        say("Interrupted.")
        return interrupt.EXIT_CODE
    logged = log.failure(error)
    say(f"Error: localchat failed in a way it did not expect ({type(error).__name__}: {error}).")
    say(f"The details are in {paths.log_file()}." if logged else "The log could not be written; is the disk full?")
    return 1


class Commands(TyperGroup):
    """The group of all commands; a traceback never leaves it."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and exit with the code that its failure has."""
        _forgiving_streams()
        try:
            with interrupt.handled_by(interrupt.leave), log.collecting():
                return super().invoke(ctx)
        except _TYPER:
            raise
        except BrokenPipeError:
            _reader_left()
            raise typer.Exit(0) from None
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last one who can tell the user
            raise typer.Exit(explain(error)) from None


def _forgiving_streams() -> None:
    """A terminal that cannot show a character gets a question mark instead of a failure."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
