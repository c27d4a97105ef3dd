"""What a backend says while it loads and writes. Frozen values, no torch: they cross a process border."""

from __future__ import annotations

from dataclasses import dataclass, field

from localchat.engine.types import GenerationStats, Round, Sampling, StopReason
from localchat.models.devices import Machine
from localchat.models.memory import MemoryPlan
from localchat.models.pairing import Finding
from localchat.models.plan import LoadPlan


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory in bytes as measured after loading or after a reply."""

    target: int = 0
    draft: int = 0
    target_cache: int = 0
    draft_cache: int = 0
    process: int = 0
    """Resident memory of the process on the CPU, or what torch reserved on the GPU."""
    device_free: int = 0
    device_total: int = 0


@dataclass(frozen=True, slots=True)
class Loading:
    """A step of loading; `total` is 0 where the length is not known."""

    stage: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """The engine is ready."""

    plan: LoadPlan
    """Every choice resolved: nothing is "auto" any more."""
    model_name: str
    draft_name: str
    """The draft model or head; empty when there is none."""
    exact: bool
    exact_cost: float
    """Measured slowdown of plain decoding by the fixed width (0.04 = 4 %)."""
    width: int
    """The fixed width of exact mode."""
    plain_tokens_per_second: float
    memory: MemoryPlan
    usage: Usage
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    machine: Machine = field(default_factory=Machine)
    """What it runs on."""
    draft_kind: str = ""
    """What drafts beside lookup: model, medusa, eagle or mtp; empty if nothing does."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What there is to load on, before anything is loaded."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class Prefilling:
    """Prompt tokens computed so far, of those that were not kept from an earlier turn."""

    done: int
    total: int
    cut: int = 0
    """Oldest messages that were left out because the context is full."""


@dataclass(frozen=True, slots=True)
class Wrote:
    """One round, and the text that became visible with it (held back: half characters, possible stop strings)."""

    text: str
    round: Round
    pieces: tuple[str, ...] = ()
    """Text of each of the round's tokens, taken alone: part of a character shows as U+FFFD."""
    rejected: tuple[str, ...] = ()
    """Text of each rejected token."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory as measured now."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished (or stopped) reply: enough to show, explain and replay it."""

    text: str
    token_ids: tuple[int, ...]
    origins: tuple[str, ...]
    finish_reason: StopReason
    sampling: Sampling
    model: str
    drafter: str
    """Drafting method that was in use: off, lookup, model, mixed, ..."""
    accelerated: bool
    exact: bool
    stats: GenerationStats
    first_token_seconds: float
    """From the call to the first visible token, prefill included."""
    plain_tokens_per_second: float
    """Measured speed of true plain decoding (width 1) on this machine at this context."""
    usage: Usage

    @property
    def speedup(self) -> float:
        """Decoding speed against plain decoding."""
        return self.stats.tokens_per_second / self.plain_tokens_per_second if self.plain_tokens_per_second else 1.0

    @property
    def saved_seconds(self) -> float:
        """How much sooner it was done than by plain decoding; negative if it was later, 0 without drafts."""
        plain = self.plain_tokens_per_second
        return self.stats.tokens / plain - self.stats.decode_seconds if plain > 0 and self.accelerated else 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply is complete."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Failed:
    """It went wrong; what was written before stands."""

    kind: str
    """The kind of LocalchatError: generation, usage, fit, model, engine (it died) or cancelled (loading was)."""
    title: str
    hint: str


SurveyEvent = Surveyed | Failed
LoadEvent = Loading | Loaded | Failed
ReplyEvent = Prefilling | Wrote | Memory | Finished | Failed
Event = Surveyed | Loading | Loaded | Prefilling | Wrote | Memory | Finished | Failed
