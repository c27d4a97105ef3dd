"""What can go wrong, said once: a sentence, what to do next, and the exit code of the command line.

A leaf: every layer raises these, only the outermost one prints them.
"""

from __future__ import annotations

from typing import ClassVar


class LocalchatError(Exception):
    """A failure the user can act on.

    Args:
        message: one sentence that says what is wrong.
        hint: one sentence that says what to do next.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "generation"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class GenerationError(LocalchatError):
    """The model ran, and failed while writing (NaN logits, a broken forward)."""


class UsageError(LocalchatError):
    """A wrong option, an unreadable input or a broken config file."""

    exit_code = 2
    kind = "usage"


class FitError(LocalchatError):
    """It does not fit in memory, or there is no device for it."""

    exit_code = 3
    kind = "fit"


class ModelError(LocalchatError):
    """A model is missing, broken or of a kind that cannot run here."""

    exit_code = 4
    kind = "model"


class EngineError(LocalchatError):
    """The engine's process ended by itself; the next load starts a new one."""

    kind = "engine"


class CancelledError(LocalchatError):
    """The user stopped it before there was anything to keep."""

    exit_code = 130
    kind = "cancelled"
