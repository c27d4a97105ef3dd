"""State of a training on disk: one safetensors file, complete before it takes the place of the one before."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    ending: float = 0.0
    """Seconds at which the learning rate began to fall; 0: not yet."""
    judged: list[tuple[float, float]] = field(default_factory=list)
    """(seconds, tokens per round) of each judgement."""


def save(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, object]) -> None:
    """Write tensors and notes (anything JSON can hold).

    Raises:
        NotSavedError: the disk is full or the folder not writable.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        private_dir(path.parent)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, fresh, {"notes": json.dumps(notes)})
        fresh.chmod(0o600)
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.replace(path)
    except (OSError, SafetensorError) as error:
        raise NotSavedError(str(error)) from error
    finally:
        fresh.unlink(missing_ok=True)


def load(path: Path, device: str = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """What was saved, or None if there is nothing that can be read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt", device=device) as file:
            notes = json.loads((file.metadata() or {})["notes"])
            return {name: file.get_tensor(name) for name in file.keys()}, notes  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, KeyError):
        return None
