"""What the store keeps, as immutable values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from localchat.chat.conversation import Role
from localchat.chat.events import Reply, Wrote
from localchat.engine.types import Sampling, StopReason
from localchat.errors import LocalchatError


class StoreError(LocalchatError):
    """Something was not read or not saved; what is in memory stands."""

    kind: ClassVar[str] = "store"


class MissingError(StoreError):
    """There is no such chat or message (any more)."""

    exit_code: ClassVar[int] = 2


class State(StrEnum):
    """How far a message got."""

    COMPLETE = "complete"
    WRITING = "writing"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation with what belongs to it."""

    id: int
    title: str
    created: float
    """Seconds since 1970, as all times here."""
    updated: float
    system: str
    sampling: Sampling | None
    """None: as in the settings. The seed inside counts for nothing; `seed` does."""
    preset: str
    """Name of the preset that `sampling` came from, if any."""
    seed: int | None
    """None: a new one for each reply."""
    accelerate: bool
    draft: str
    """What was typed and not sent."""
    leaf: int | None
    """Last message of the branch that is shown."""
    deleted: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """How a reply came about, in a few figures."""

    model: str
    drafter: str
    accelerated: bool
    exact: bool
    seed: int
    tokens: int
    tokens_per_second: float
    speedup: float
    acceptance_rate: float
    tokens_per_round: float
    first_token_seconds: float
    total_seconds: float
    saved_seconds: float
    """Against plain decoding at its measured speed; below 0 if drafting made it slower, 0 if there was none."""
    finish_reason: StopReason
    sampling: Sampling

    @staticmethod
    def of(reply: Reply) -> Summary:
        """The figures of a reply."""
        stats = reply.stats
        return Summary(
            model=reply.model,
            drafter=reply.drafter,
            accelerated=reply.accelerated,
            exact=reply.exact,
            seed=reply.sampling.seed,
            tokens=stats.tokens,
            tokens_per_second=stats.tokens_per_second,
            speedup=reply.speedup,
            acceptance_rate=stats.acceptance_rate,
            tokens_per_round=stats.tokens_per_round,
            first_token_seconds=reply.first_token_seconds,
            total_seconds=stats.prefill_seconds + stats.decode_seconds,
            saved_seconds=reply.saved_seconds,
            finish_reason=reply.finish_reason,
            sampling=reply.sampling,
        )


@dataclass(frozen=True, slots=True)
class Node:
    """A message in the tree of a chat; messages with one parent are versions of each other."""

    id: int
    chat: int
    parent: int | None
    role: Role
    text: str
    state: State
    created: float
    updated: float
    summary: Summary | None


@dataclass(frozen=True, slots=True)
class Written:
    """A reply with all its rounds: enough to open it as tokens again."""

    reply: Reply
    rounds: tuple[Wrote, ...]
    start: int
    """Characters of the message that stood before (a continued reply)."""
    system: str | None = None
    """The system message it was written under; None: not known."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a search found something."""

    chat: int
    title: str
    node: int | None
    """None: the title itself."""
    snippet: str
    updated: float


@dataclass(frozen=True, slots=True)
class Totals:
    """What the replies of a chat add up to, all branches together."""

    messages: int
    tokens: int
    saved_seconds: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison that was kept."""

    id: int
    created: float
    title: str
    record: str
    """JSON."""
