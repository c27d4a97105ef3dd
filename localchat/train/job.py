"""What is known of a training before anything heavy is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localchat.models.choice import Side
from localchat.models.plan import Precision
from localchat.train.plan import CHATS, SELF, TrainPlan, run_folder
from localchat.train.texts import Text

WRITING = 0.3
"""Part of the time in which the target may write; less if that is enough text."""

Stop = Callable[[], bool]
"""Asked again and again; True ends the training with its state saved."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is known before anything heavy is loaded."""

    plan: TrainPlan
    side: Side
    name: str
    device: str
    precision: Precision
    fingerprint: str
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
    def identity(self) -> dict[str, object]:
        """What a checkpoint must agree with to be gone on from."""
        plan = self.plan
        return {
            "format": 1,
            "kind": plan.kind,
            "data": list(plan.data),
            "seed": plan.seed,
            "fingerprint": self.fingerprint,
        }

    @property
    def beginning(self) -> int | None:
        """The id that the tokenizer puts before every text."""
        first = self.tokenizer("a")["input_ids"][0]
        return first if first == self.tokenizer.bos_token_id else None

    @property
    def target(self) -> str:
        """The target's name for the card: a hub id, or the last part of a path."""
        source = self.side.source
        return source.title if Path(source.name).expanduser().exists() else source.name

    @property
    def sources(self) -> tuple[str, ...]:
        """The data for the card: of files and folders the last part of the name alone."""
        return tuple(name if name in (SELF, CHATS) else Path(name).name for name in self.plan.data)
