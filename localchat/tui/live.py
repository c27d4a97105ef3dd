"""What the live panel knows: the engine's events, folded into one value. No textual and no clock of its own.

Speeds come from the rounds' own seconds, so a slow screen can never make the engine look slow.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from localchat.chat.events import (
    Event,
    Failed,
    Finished,
    Loaded,
    Loading,
    Memory,
    Prefilling,
    Reply,
    Surveyed,
    Usage,
    Wrote,
)
from localchat.engine.types import GenerationStats, Round

RECENT_TOKENS = 400
"""Rounds are kept until they are worth this many tokens."""
_WINDOW = 2.0
"""Seconds of decoding that the speed of now is taken over."""
_ENOUGH = 4
"""Rounds before a comparison with plain decoding means anything."""
_PAYS, _COSTS = 1.05, 0.97
"""From here on drafting is called a gain, and below here a loss: single rounds differ by some per cent."""


class Phase(StrEnum):
    """What the engine is doing."""

    EMPTY = "empty"
    LOADING = "loading"
    READY = "ready"
    PREFILLING = "prefilling"
    WRITING = "writing"
    STOPPING = "stopping"
    DEAD = "dead"


class Standing(StrEnum):
    """Whether drafting pays."""

    NONE = "none"
    """Nothing was written yet."""
    OFF = "off"
    MEASURING = "measuring"
    PARKED = "parked"
    PAYS = "pays"
    EVEN = "even"
    COSTS = "costs"


def round_seconds(round_: Round) -> float:
    """All the time a round took."""
    return round_.draft_seconds + round_.verify_seconds + round_.host_seconds


@dataclass(frozen=True, slots=True)
class Live:
    """The engine as far as the screen has heard of it; every method gives the next value."""

    phase: Phase = Phase.EMPTY
    accelerate: bool = True
    """Drafting is allowed, from the next round on."""
    loading: Loading | None = None
    loaded: Loaded | None = None
    problem: Failed | None = None
    """What went wrong last, until the next load or reply."""
    prefill: Prefilling | None = None
    stats: GenerationStats = field(default_factory=GenerationStats)
    """Of the reply that is being written, or of the last one."""
    rounds: tuple[Wrote, ...] = ()
    """The last rounds of that reply."""
    reply: Reply | None = None
    """That reply, once it is finished."""
    replies: int = 0
    """How many were begun: tells two replies apart."""
    drafted: bool = False
    """Drafting was allowed at some time in this reply."""
    usage: Usage | None = None
    first_usage: Usage | None = None
    """When this chat was opened."""
    saved_before: float = 0.0
    """Seconds saved by this chat's earlier replies."""
    tokens_before: int = 0
    """Tokens of this chat's earlier replies."""
    plain_known: float = 0.0
    """Plain tokens per second as last measured; 0 where nothing was."""
    began: float = 0.0
    now: float = 0.0
    first_seconds: float | None = None
    """To the first visible token: as seen from here, then as the engine measured it."""

    def begin(self, *, accelerate: bool, now: float) -> Live:
        """A reply is asked for."""
        return replace(
            self._cleared(),
            phase=Phase.PREFILLING,
            accelerate=accelerate,
            drafted=accelerate,
            problem=None,
            began=now,
            now=now,
        )

    def switched(self, *, on: bool) -> Live:
        """Drafting is switched on or off."""
        return replace(self, accelerate=on, drafted=self.drafted or (on and self.busy))

    def stopping(self) -> Live:
        """The user has asked for the reply to stop."""
        return replace(self, phase=Phase.STOPPING) if self.busy else self

    def over(self) -> Live:
        """The reply is over, whether or not the engine had anything to say about it."""
        return replace(self, phase=Phase.READY if self.loaded else Phase.EMPTY) if self.busy else self

    def tick(self, now: float) -> Live:
        """Time has passed without an event."""
        return replace(self, now=now) if self.busy else self

    def chat(self, *, saved_seconds: float, tokens: int) -> Live:
        """A chat is opened whose earlier replies come to this; the last reply's figures go with the chat before."""
        problem = self.problem if self.phase is Phase.DEAD else None
        cleared = replace(self._cleared(), problem=problem, first_usage=self.usage)
        return replace(cleared, saved_before=saved_seconds, tokens_before=tokens)

    def _cleared(self) -> Live:
        """Without the last reply, but for what it adds to the chat's sums."""
        return replace(
            self,
            prefill=None,
            stats=GenerationStats(),
            rounds=(),
            reply=None,
            replies=self.replies + 1,
            saved_before=self.saved,
            tokens_before=self.tokens,
            first_seconds=None,
        )

    def hear(self, event: Event, now: float) -> Live:
        """The next event, heard at a time in seconds of any steady clock."""
        match event:
            case Loading():
                return replace(self._unloaded(Phase.LOADING)._cleared(), loading=event, problem=None, now=now)
            case Loaded():
                return replace(
                    self._unloaded(Phase.READY),
                    loaded=event,
                    problem=None,
                    usage=event.usage,
                    first_usage=event.usage,
                    plain_known=event.plain_tokens_per_second,
                    now=now,
                )
            case Prefilling():
                return replace(self, prefill=event, now=now)
            case Wrote():
                return self._wrote(event, now)
            case Memory():
                return self._measured(event.usage, now)
            case Finished():
                return self._finished(event.reply, now)
            case Failed():
                return self._failed(event, now)
            case Surveyed():
                return self

    def _unloaded(self, phase: Phase) -> Live:
        return replace(self, phase=phase, loading=None, loaded=None, usage=None, first_usage=None)

    def _wrote(self, event: Wrote, now: float) -> Live:
        seen = self.first_seconds is not None or not event.text
        return replace(
            self,
            phase=self.phase if self.phase is Phase.STOPPING else Phase.WRITING,
            stats=self.stats + event.round,
            rounds=_recent((*self.rounds, event)),
            first_seconds=self.first_seconds if seen else now - self.began,
            now=now,
        )

    def _measured(self, usage: Usage, now: float) -> Live:
        return replace(self, usage=usage, first_usage=self.first_usage or usage, now=now)

    def _finished(self, reply: Reply, now: float) -> Live:
        heard = self._measured(reply.usage, now)
        return replace(
            heard,
            phase=Phase.READY,
            reply=reply,
            stats=reply.stats,
            plain_known=reply.plain_tokens_per_second or self.plain_known,
            first_seconds=reply.first_token_seconds if reply.stats.tokens else None,
        )

    def _failed(self, event: Failed, now: float) -> Live:
        if event.kind == "engine":
            return replace(self._unloaded(Phase.DEAD), problem=event, now=now)
        phase = Phase.EMPTY if self.loaded is None else Phase.READY
        return replace(self, phase=phase, loading=None, problem=event, now=now)

    @property
    def busy(self) -> bool:
        """A reply is being written."""
        return self.phase in (Phase.PREFILLING, Phase.WRITING, Phase.STOPPING)

    @property
    def last(self) -> Round | None:
        """The last round."""
        return self.rounds[-1].round if self.rounds else None

    @property
    def speed(self) -> float:
        """Tokens per second: over the last seconds while a reply is written, over all of it afterwards; 0 if none."""
        if not self.busy:
            return self.stats.tokens_per_second
        tokens, seconds = 0, 0.0
        for wrote in reversed(self.rounds):
            tokens += len(wrote.round.tokens)
            seconds += round_seconds(wrote.round)
            if seconds >= _WINDOW:
                break
        return tokens / seconds if seconds else 0.0

    @property
    def plain_speed(self) -> float:
        """Tokens per second of plain decoding; 0 where nothing was measured.

        While a reply is written it follows the machine: the seconds of its rounds over what they come to in plain
        rounds. A finished reply brings its own measurement.
        """
        if self.reply is None and self.stats.rounds >= _ENOUGH and self.stats.decode_seconds:
            return self.stats.expected_cost / self.stats.decode_seconds
        return self.plain_known

    @property
    def speedup(self) -> float:
        """`speed` against plain decoding; 0 while it is not known."""
        return self.speed / self.plain_speed if self.plain_speed else 0.0

    @property
    def round_cost(self) -> float:
        """What a round took, in plain tokens: drafting pays above as many tokens per round. 0 while not known."""
        return self.stats.decode_seconds * self.plain_speed / self.stats.rounds if self.stats.rounds else 0.0

    @property
    def saved_now(self) -> float:
        """Seconds saved by the reply that is being written, or by the last one."""
        if self.reply is not None:
            return self.reply.saved_seconds
        plain = self.plain_speed
        return self.stats.tokens / plain - self.stats.decode_seconds if plain and self.drafted else 0.0

    @property
    def context_used(self) -> int:
        """Tokens of the context that this chat takes, as of the last reply; 0 where there was none."""
        return self.stats.prompt_tokens + self.stats.tokens if self.reply else 0

    @property
    def saved(self) -> float:
        """Seconds saved in this chat."""
        return self.saved_before + self.saved_now

    @property
    def tokens(self) -> int:
        """Tokens written in this chat."""
        return self.tokens_before + self.stats.tokens

    @property
    def total_seconds(self) -> float:
        """From the call to the last token so far."""
        if self.reply is not None:
            return self.stats.prefill_seconds + self.stats.decode_seconds
        return max(0.0, self.now - self.began) if self.busy or self.stats.rounds else 0.0

    @property
    def growth(self) -> int:
        """Bytes by which the engine has grown since this chat was opened."""
        if self.usage is None or self.first_usage is None:
            return 0
        return self.usage.process - self.first_usage.process

    @property
    def standing(self) -> Standing:
        """Whether drafting pays, in one word."""
        if not (self.accelerate if self.busy or not self.stats.rounds else self.drafted):
            return Standing.OFF
        if not self.stats.rounds:
            return Standing.NONE
        if self.stats.rounds < _ENOUGH or not self.plain_speed:
            return Standing.MEASURING
        gain = self.speedup
        if self._parked(gain):
            return Standing.PARKED
        return Standing.PAYS if gain >= _PAYS else Standing.COSTS if gain < _COSTS else Standing.EVEN

    def _parked(self, gain: float) -> bool:
        if not self.busy:
            return gain < _PAYS and 2 * self.stats.parked_rounds > self.stats.rounds
        return all(wrote.round.decision.parked for wrote in self.rounds[-_ENOUGH:])


def _recent(rounds: tuple[Wrote, ...]) -> tuple[Wrote, ...]:
    """Without the first ones that the newest 400 tokens do not need."""
    tokens = sum(len(wrote.round.tokens) for wrote in rounds)
    drop = 0
    while tokens - len(rounds[drop].round.tokens) >= RECENT_TOKENS:
        tokens -= len(rounds[drop].round.tokens)
        drop += 1
    return rounds[drop:] if drop else rounds
