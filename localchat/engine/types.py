"""The engine's vocabulary: small frozen values that every other file is written in. No torch at import time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

ROOT = -1
"""Parent of a draft node that follows the last emitted token."""


class StopReason(StrEnum):
    """Why a reply ended."""

    EOS = "eos"
    STOP_STRING = "stop_string"
    LENGTH = "length"
    CONTEXT = "context"
    CANCELLED = "cancelled"


class Origin(StrEnum):
    """Where an emitted token comes from; accepted draft tokens carry the name of their source instead."""

    PLAIN = "plain"
    BONUS = "bonus"
    CORRECTION = "correction"


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens as a tree in topological order; a chain is a tree without branches.

    `ids` may live on the device: the loop reads it back together with the target's picks, once per round.
    `classes[i]` names the situation node i was proposed in, of which the governor keeps the acceptance per source:
    below sureness.SURE they are the source's own, from there on they say how sure it was.
    """

    ids: Tensor | None = None
    """int64 [n], or None for the empty draft."""
    parents: tuple[int, ...] = ()
    """Index into the draft, or ROOT; each parent comes before its child."""
    source: str = ""
    classes: tuple[int, ...] = ()
    steps: int = 0
    """Forwards of the drafting network it took."""

    def __post_init__(self) -> None:
        if (0 if self.ids is None else len(self.ids)) != len(self.parents):
            raise ValueError("a draft needs one parent per token")
        if len(self.classes) != len(self.parents):
            raise ValueError("a draft needs one class per token")
        if any(not ROOT <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError("a draft lists each parent before its child")

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def is_chain(self) -> bool:
        """True if no node has a sibling."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    def trunk(self) -> Draft:
        """The leading chain, without branches."""
        count = next((node for node, parent in enumerate(self.parents) if parent != node - 1), len(self))
        if count == len(self) or self.ids is None:
            return self
        return Draft(self.ids[:count], self.parents[:count], self.source, self.classes[:count], self.steps)


NO_DRAFT = Draft()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the target made of a draft."""

    path: tuple[int, ...]
    """Accepted nodes, from the root down."""
    tokens: tuple[int, ...]
    """The accepted tokens and one of the target's own."""

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.path) + 1:
            raise ValueError("a verdict emits every accepted token and exactly one more")


@dataclass(frozen=True, slots=True)
class Decision:
    """What the governor allowed in a round, and why, in words for the screen."""

    parked: bool = False
    reason: str = ""
    expected_tokens: float = 1.0
    expected_cost: float = 1.0
    """Expected time of the round, draft included, in plain rounds of width 1."""


@dataclass(frozen=True, slots=True)
class Round:
    """One draft and one verification, cut at a stop if there was one."""

    index: int
    tokens: tuple[int, ...]
    """Emitted tokens (an end-of-reply token is not among them)."""
    origins: tuple[str, ...]
    """One per token: the draft's source if accepted, else an Origin."""
    rejected: tuple[int, ...]
    """Draft tokens that were verified and not accepted."""
    drafted: int
    """Draft tokens verified, counted up to the stop."""
    accepted: int
    depth_drafted: tuple[int, ...]
    """1 per depth at which the draft was put to the test in this round, else 0 (acceptance by position)."""
    depth_accepted: tuple[int, ...]
    source: str
    width: int
    """Rows of the target's forward, padding included."""
    decision: Decision
    draft_seconds: float
    verify_seconds: float
    host_seconds: float
    """All of the round that is neither drafting nor verifying, the consumer's time left out."""
    margin: float
    """Smallest gap between the best and second-best perturbed logit among the emitted tokens."""
    stop: StopReason | None = None

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.origins):
            raise ValueError("a round needs one origin per token")
        if not 0 <= self.accepted <= self.drafted:
            raise ValueError("a round cannot accept more than it drafted")


def _add(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))


@dataclass(frozen=True, slots=True)
class SourceCount:
    """Tokens of one draft source."""

    drafted: int = 0
    accepted: int = 0
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """A fold over rounds: `stats = stats + round`."""

    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    parked_rounds: int = 0
    depth_drafted: tuple[int, ...] = ()
    depth_accepted: tuple[int, ...] = ()
    by_source: tuple[tuple[str, SourceCount], ...] = ()
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    host_seconds: float = 0.0
    prefill_seconds: float = 0.0
    prefilled: int = 0
    """Prompt tokens that had to be computed; the rest were kept from an earlier turn."""
    prompt_tokens: int = 0
    min_margin: float = float("inf")
    expected_tokens: float = 0.0
    expected_cost: float = 0.0
    """What the governor's decisions promised, added up: tokens, and time in plain rounds of width 1."""

    def __add__(self, round_: Round) -> GenerationStats:
        sources = dict(self.by_source)
        if round_.source:
            old = sources.get(round_.source, SourceCount())
            sources[round_.source] = SourceCount(
                old.drafted + round_.drafted, old.accepted + round_.accepted, old.rounds + 1
            )
        return GenerationStats(
            tokens=self.tokens + len(round_.tokens),
            rounds=self.rounds + 1,
            drafted=self.drafted + round_.drafted,
            accepted=self.accepted + round_.accepted,
            parked_rounds=self.parked_rounds + round_.decision.parked,
            depth_drafted=_add(self.depth_drafted, round_.depth_drafted),
            depth_accepted=_add(self.depth_accepted, round_.depth_accepted),
            by_source=tuple(sources.items()),
            draft_seconds=self.draft_seconds + round_.draft_seconds,
            verify_seconds=self.verify_seconds + round_.verify_seconds,
            host_seconds=self.host_seconds + round_.host_seconds,
            prefill_seconds=self.prefill_seconds,
            prefilled=self.prefilled,
            prompt_tokens=self.prompt_tokens,
            min_margin=min(self.min_margin, round_.margin),
            expected_tokens=self.expected_tokens + round_.decision.expected_tokens,
            expected_cost=self.expected_cost + round_.decision.expected_cost,
        )

    @property
    def decode_seconds(self) -> float:
        """Time from the end of the prefill to the last token, the consumer's time left out."""
        return self.draft_seconds + self.verify_seconds + self.host_seconds

    @property
    def tokens_per_second(self) -> float:
        """Emitted tokens per second of decoding."""
        return self.tokens / self.decode_seconds if self.decode_seconds else 0.0

    @property
    def acceptance_rate(self) -> float:
        """Accepted / drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def tokens_per_round(self) -> float:
        """Emitted / rounds."""
        return self.tokens / self.rounds if self.rounds else 0.0

    @property
    def acceptance_by_position(self) -> tuple[float, ...]:
        """Conditional acceptance per depth: of the drafts still alive there, the share that was accepted."""
        pairs = zip(self.depth_drafted, self.depth_accepted, strict=True)
        return tuple(a / d if d else 0.0 for d, a in pairs)

    @property
    def predicted_speedup(self) -> float:
        """Speed against plain that the governor expected over the whole reply."""
        return self.expected_tokens / self.expected_cost if self.expected_cost else 1.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen from the target's logits. Temperature 0 is argmax; 0 or 1 switches a filter off."""

    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        checks = (
            (0.0 <= self.temperature < float("inf"), "temperature must be 0 or more"),
            (self.top_k >= 0, "top-k must be 0 (off) or more"),
            (0.0 < self.top_p <= 1.0, "top-p must be above 0 and at most 1"),
            (0.0 <= self.min_p < 1.0, "min-p must be at least 0 and below 1"),
            (0.0 < self.repetition_penalty < float("inf"), "repetition penalty must be above 0"),
            (-2.0 <= self.presence_penalty <= 2.0, "presence penalty must be within -2 and 2"),
            (-2.0 <= self.frequency_penalty <= 2.0, "frequency penalty must be within -2 and 2"),
            (0 <= self.seed < 2**63, "seed must be a whole number from 0 to 2^63 - 1"),
        )
        for good, problem in checks:
            if not good:
                raise ValueError(problem)

    @property
    def penalises(self) -> bool:
        """True if the choice depends on which tokens came before."""
        return self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0


class Needs(NamedTuple):
    """What a drafter asks of the target."""

    hidden_layers: tuple[int, ...] = ()
    """Decoder layers whose output hidden states are tapped; heads.FINAL is the state after the final norm."""
    shares_embeddings: bool = False
    rows: int = 0
    """Most of the prompt's last hidden states that are of use."""


@dataclass(frozen=True, slots=True)
class Tapped:
    """Hidden states of accepted rows: one tensor [rows, hidden] per asked layer."""

    layers: tuple[Tensor, ...] = ()


class Weighed(NamedTuple):
    """What is worth verifying of a draft."""

    keep: tuple[int, ...]
    """Its nodes, ascending, each with all its ancestors."""
    deeper: bool
    """One level more is likely to pay."""


class Room(Protocol):
    """The governor as a drafter sees it: how much to propose, given how good each token is likely to be."""

    limit: int
    """Most tokens that may be proposed in this round."""

    @property
    def branches(self) -> bool:
        """False if only chains can be verified."""
        ...

    def weigh(self, source: str, parents: Sequence[int], classes: Sequence[int], steps: int) -> Weighed:
        """Which part of a draft gives most tokens per second, and whether it should grow by a level.

        Args:
            parents, classes: as in Draft; none before the first level is there.
            steps: forwards of the drafting network in all; a source's first call in a round decides whether they are
                worth it, later ones take them as spent.
        """
        ...

    def value(self, source: str, parents: Sequence[int], classes: Sequence[int], steps: int | None) -> float:
        """Expected tokens per second of the best part; asking changes nothing. No `steps`: one per level."""
        ...

    def repays(self, source: str, pending: int) -> bool:
        """True if computing `pending` tokens to get a drafter going is likely to be won back in this reply."""
        ...

    def refuse(self, source: str, reason: str) -> None:
        """A drafter does not draft in this round; the reason is for the screen."""
        ...

    def prepared(self, source: str, count: int, seconds: float) -> None:
        """A drafter computed `count` prompt tokens to get going."""
        ...


class Choices(NamedTuple):
    """The likeliest tokens of some rows, the best first; both [rows, count]."""

    ids: Tensor
    """int64."""
    chances: Tensor
    """How likely each is to be the choice, going by these logits alone."""


class Pick(Protocol):
    """Chooses tokens at absolute positions with the request's own noise; the same one for target and drafter."""

    def best(self, logits: Tensor, depth: int, paths: Tensor, count: int, ids: Tensor | None = None) -> Choices:
        """The `count` best tokens that may follow the emitted tokens and `depth` hypothetical ones.

        Args:
            logits: [rows, n], over the vocabulary or over `ids`; all rows share their position's noise.
            paths: int64 [rows, depth], hypothetical tokens; only penalties look at them. [rows, 0] if not known.
            ids: token id of each logit, ascending, if a reduced head made them.
        """
        ...


class Drafter(Protocol):
    """Guesses what the target will say. It may be wrong; it can never change what is said."""

    needs: Needs
    priors: Mapping[str, tuple[float, ...]]
    """Per source the acceptance to expect of each class before anything was seen."""

    @property
    def cache_bytes(self) -> int:
        """Allocated by caches of its own (a draft model has its own account)."""
        ...

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """A reply begins; `tokens` is the prompt, `tapped` its hidden states if asked for."""
        ...

    def value(self, room: Room) -> float:
        """Expected tokens per second if this round drafts."""
        ...

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """Tokens that may follow `tokens`."""
        ...

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """The verdict on the last draft; `tokens` already ends with the emitted tokens."""
        ...

    def forget(self) -> None:
        """Drop what earlier replies taught, so that two measurements start alike."""
        ...


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading items two sequences share."""
    size = min(len(left), len(right))
    if list(left[:size]) == list(right[:size]):
        return size
    return next(index for index in range(size) if left[index] != right[index])
