"""What is known of a training before anything heavy is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localchat.chat.codec import decode
from localchat.models.choice import Side
from localchat.models.plan import Precision
from localchat.train import checkpoint
from localchat.train.plan import CHATS, SELF, TrainPlan, run_folder
from localchat.train.texts import Text

WRITING = 0.3
"""Part of the time in which the target may write; less if that is enough text."""

Stop = Callable[[], bool]
"""Asked again and again; True ends the training with its state saved."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What an unfinished training must agree with to be gone on with."""

    kind: str
    sources: tuple[str, ...]
    """Those that are no files."""
    files: str
    """A digest of the texts of files. That of chats is left out: they grow from day to day."""
    seed: int
    precision: Precision
    """Of the target while it teaches."""
    fingerprint: str
    """Of its weights."""


def state_file(name: str) -> Path:
    """The state of an unfinished training."""
    return run_folder(name) / "checkpoint.safetensors"


def unfinished(name: str) -> Identity | None:
    """What the unfinished training of that name is; None if there is none that can be read."""
    try:
        return decode(Identity, (checkpoint.notes(state_file(name)) or {}).get("identity"))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Job:
    """What is known before anything heavy is loaded."""

    plan: TrainPlan
    side: Side
    name: str
    device: str
    identity: Identity
    room: int
    """Bytes of memory that the target's states may take."""
    tokenizer: Any
    given: tuple[Text, ...]
    """Texts from files and chats."""

    @property
    def folder(self) -> Path:
        """Of the unfinished state."""
        return run_folder(self.name)

    @property
    def beginning(self) -> int | None:
        """The id that the tokenizer puts before every text."""
        first = self.tokenizer("a")["input_ids"][0]
        return first if first == self.tokenizer.bos_token_id else None

    @property
    def target(self) -> str:
        """The target's name for the card: a hub id, or the last part of a path."""
        source = self.side.source
        return _printable(source.title if Path(source.name).expanduser().exists() else source.name)

    @property
    def sources(self) -> tuple[str, ...]:
        """The data for the card: of files and folders the last part of the name alone."""
        return tuple(name if name in (SELF, CHATS) else _printable(Path(name).name) for name in self.plan.data)


def _printable(name: str) -> str:
    """A file's name need not be UTF-8; what is written must."""
    return name.encode(errors="replace").decode()
