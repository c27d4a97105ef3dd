"""State of a training on disk: one safetensors file, complete before it takes the place of the one before."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localchat.errors import GenerationError, UsageError
from localchat.paths import private_dir

if TYPE_CHECKING:
    from torch import Tensor


class NotSavedError(Exception):
    """The file could not be written; the one before is still there."""


@dataclass(slots=True)
class Progress:
    """How far a training has come."""

    step: int = 0
    seconds: float = 0.0
    """Spent on it, over all resumptions."""
    pace: float = 0.0
    """Seconds a token of a step takes, a moving average."""
    tokens: int = 0
    loss: float = 0.0
    """Moving average."""
    parts: int = 1
    """Slices a batch is computed in, since memory ran out; more are slower and give the same."""
    stalled: float = 0.0
    """Seconds at which judgements had not risen for too long, so that the learning rate began to fall; 0: they rise."""
    judged: list[tuple[float, float]] = field(default_factory=list)
    """(seconds, tokens per round) of each judgement."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the state of a training, so that no other process goes on with it meanwhile.

    Raises:
        UsageError: another one does.
        GenerationError: the state cannot be kept at all.
    """
    with closing(_lock(folder)):
        yield


def _lock(folder: Path) -> sqlite3.Connection:
    """SQLite's locks work on every system, and go with the process that holds them."""
    file = folder.with_name(f".{folder.name}.lock")
    try:
        private_dir(folder.parent)
        lock = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
        lock.execute("BEGIN EXCLUSIVE")
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            hint = "Wait until it is done, or choose another --name."
            raise UsageError(f"{folder.name} is being trained by another process.", hint) from error
        raise GenerationError(f"{folder.parent} cannot be written: {error}.", "Check its permissions.") from error
    return lock


def save(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, object]) -> None:
    """Write tensors and notes (anything JSON can hold).

    Raises:
        NotSavedError: the disk is full or the folder not writable.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    fresh = path.with_name(f".{path.name}.new")
    try:
        private_dir(path.parent)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, fresh, {"notes": json.dumps(notes)})
        settle(fresh)
        fresh.replace(path)
    except (OSError, SafetensorError) as error:
        raise NotSavedError(str(error)) from error
    finally:
        fresh.unlink(missing_ok=True)


def settle(file: Path) -> None:
    """Make a file private, and wait until the disk has it.

    Raises:
        OSError: the disk is full.
    """
    file.chmod(0o600)
    with file.open("r+b") as opened:
        os.fsync(opened.fileno())


def notes(path: Path) -> dict[str, Any] | None:
    """The notes of what was saved, or None if there is nothing that can be read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            found = json.loads((file.metadata() or {})["notes"])
    except (OSError, SafetensorError, ValueError, KeyError):
        return None
    return found if isinstance(found, dict) else None


def load(path: Path, device: str = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """What was saved, or None if there is nothing that can be read."""
    from safetensors import SafetensorError, safe_open

    found = notes(path)
    if found is None:
        return None
    try:
        with safe_open(path, "pt", device=device) as file:
            return {name: file.get_tensor(name) for name in file.keys()}, found  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
