"""How much to draft: the width that maximises expected tokens per measured second, zero included.

Acceptance is estimated per source and class (a position in a model's draft, a match length in a lookup), cost per
width. Nothing is decided on acceptance alone and nothing is parked for good: a parked source is tried again, ever less
often. The choice can change the speed and never the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from localchat.engine.types import Decision, Draft, Verdict

_MEMORY = 0.97
"""Weight an acceptance observation keeps after each later one."""
_FIRST_WEIGHT = 3.0
"""Observations that an expectation counts as before anything was seen."""
_CARRIED = 3.0
"""Observations that all earlier replies count as."""
_READING, _READING_PARKED = 0.15, 0.03
"""Share of a reply's time so far that may go into getting a drafter started."""
_ENTER = 1.04
"""How much better than plain a parked source must look to be let in again."""
_FIRST_PROBE, _LAST_PROBE = 8, 512
_CLAMP = 1.5
"""A sample further off than this factor (a page fault, another program) counts as this far off."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Measured seconds that a governor starts from; kept per machine and model."""

    verify: tuple[tuple[int, float], ...] = ((1, 1.0), (64, 1.0))
    """(width, seconds) in ascending width."""
    draft: tuple[tuple[str, float], ...] = ()
    """(source, seconds per proposed token)."""
    prepare: tuple[tuple[str, float], ...] = ()
    """(source, seconds per prompt token a drafter must compute before it can start)."""

    def seconds(self, width: int) -> float:
        """Of one verification of `width` rows: the next measured width, which the rows are padded to."""
        return next((seconds for measured, seconds in self.verify if measured >= width), self.verify[-1][1])


@dataclass(slots=True)
class _Estimate:
    """Acceptance of one class: a prior that observations outweigh and later ones outweigh again."""

    accepted: float
    seen: float

    @property
    def rate(self) -> float:
        return self.accepted / self.seen

    def observe(self, hit: bool) -> None:  # noqa: FBT001
        self.accepted = self.accepted * _MEMORY + hit
        self.seen = self.seen * _MEMORY + 1.0


@dataclass(slots=True)
class _Parking:
    """When a source that does not pay is tried again."""

    parked: bool = False
    wait: int = 0
    backoff: int = _FIRST_PROBE
    probing: bool = False


@dataclass(slots=True)
class Governor:
    """Decides round by round; implements `Room` for the drafters. One per model pair, for many replies.

    Args:
        timings: what forwards and drafts cost.
        max_width: most rows of a verification.
        fixed_width: exact mode: every verification costs what this width costs. 0: any width.
        allowed: the user's switch, read when a round begins: False leaves no room to draft.
    """

    timings: Timings
    max_width: int
    fixed_width: int = 0
    allowed: bool = True
    limit: int = 0
    _emitted: int = 0
    _reading: float = 0.0
    _rates: dict[tuple[str, int], _Estimate] = field(default_factory=dict)
    _priors: dict[str, tuple[float, ...]] = field(default_factory=dict)
    _parking: dict[str, _Parking] = field(default_factory=dict)
    _draft: dict[str, float] = field(default_factory=dict)
    _prepare: dict[str, float] = field(default_factory=dict)
    _scale: float = 1.0
    _samples: int = 0
    _spent: float = 0.0
    _tabled: float = 0.0
    _refused: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._draft.update(self.timings.draft)
        self._prepare.update(self.timings.prepare)

    def trust(self, priors: Mapping[str, tuple[float, ...]]) -> None:
        """Acceptance to expect of each class of a source before anything was seen."""
        self._priors.update(priors)

    def open(self, room: int) -> None:
        """A round begins in which at most `room` tokens can be of use."""
        self.limit = max(0, min(room, self.max_width - 1)) if self.allowed else 0
        self._refused = {}

    def begin_reply(self) -> None:
        """Nothing of the next reply is written yet.

        Texts differ more than rounds of one text do: what was seen before counts as a few observations, and a rate
        better than expected at first is drawn back a little.
        """
        self._emitted = 0
        self._reading = 0.0
        for parking in self._parking.values():
            parking.wait, parking.backoff = min(parking.wait, _FIRST_PROBE // 2), _FIRST_PROBE
        self._spent = self._tabled = 0.0
        for (source, kind), estimate in self._rates.items():
            rate = min(estimate.rate, (3 * estimate.rate + self._prior(source, kind)) / 4)
            estimate.seen = min(estimate.seen, _CARRIED)
            estimate.accepted = rate * estimate.seen

    def _listed(self, source: str) -> tuple[float, ...]:
        return self._priors.get(source) or (0.7,)

    def _prior(self, source: str, kind: int) -> float:
        priors = self._listed(source)
        return priors[min(kind, len(priors) - 1)]

    def _rate(self, source: str, kind: int) -> float:
        """Acceptance to expect; a class past the listed ones is as good as the last one known before it."""
        last = len(self._listed(source)) - 1
        while (source, kind) not in self._rates and kind > last:
            kind -= 1
        found = self._rates.get((source, kind))
        return found.rate if found else self._prior(source, kind)

    def _observe(self, source: str, kind: int, hit: bool) -> None:  # noqa: FBT001
        if (source, kind) not in self._rates:
            self._rates[(source, kind)] = _Estimate(_FIRST_WEIGHT * self._rate(source, kind), _FIRST_WEIGHT)
        self._rates[(source, kind)].observe(hit)

    def _verify_seconds(self, width: int) -> float:
        return self._scale * self.timings.seconds(max(width, self.fixed_width))

    @property
    def plain_rate(self) -> float:
        """Tokens per second of a round without a draft, in this mode."""
        return 1.0 / self._verify_seconds(1)

    @property
    def plain_seconds(self) -> float:
        """Of one forward at width 1 under the conditions of this reply: what every speedup is measured against.

        The machine's speed now is the time this reply's verifications took over what the table says of their widths.
        """
        return self.timings.seconds(1) * (self._spent / self._tabled if self._tabled else self._scale)

    def _expectations(self, source: str, classes: Sequence[int]) -> list[float]:
        """Expected tokens of a round that drafts 0, 1, 2, ... of a chain."""
        alive, total, found = 1.0, 1.0, [1.0]
        for kind in classes:
            alive *= self._rate(source, kind)
            total += alive
            found.append(total)
        return found

    def _seconds(self, source: str, depth: int, rows: int = 0) -> float:
        return self._verify_seconds(1 + depth + rows) + depth * self._draft.get(source, 0.0) * self._scale

    def _values(self, source: str, classes: Sequence[int]) -> list[float]:
        """Expected tokens per second of drafting 0, 1, 2, ... of a chain, as far as there is room."""
        expected = self._expectations(source, classes[: self.limit])
        return [tokens / self._seconds(source, depth) for depth, tokens in enumerate(expected)]

    def value(self, source: str, classes: Sequence[int]) -> float:
        """Expected tokens per second of the best depth of such a chain; asking changes nothing."""
        return max(self._values(source, classes))

    def depth(self, source: str, classes: Sequence[int]) -> int:
        """How many leading tokens of a chain are worth verifying (0: none)."""
        values = self._values(source, classes)
        if len(values) == 1:
            return 0
        best = max(range(len(values)), key=values.__getitem__)
        parking = self._parking.setdefault(source, _Parking())
        parking.probing = False
        if best and values[best] < values[0] * (_ENTER if parking.parked else 1.0):
            best = 0
        if best:
            parking.parked = False
            parking.backoff = _FIRST_PROBE
            return best
        if not parking.parked:
            parking.parked, parking.wait = True, parking.backoff
        parking.wait -= 1
        if parking.wait <= 0:
            parking.backoff = min(2 * parking.backoff, _LAST_PROBE)
            parking.wait = parking.backoff
            parking.probing = True
            return 1
        rate = self._rate(source, classes[0])
        need = self._seconds(source, 1) / self._seconds(source, 0) - 1.0
        self._refused[source] = f"{source} parked: accepted {rate:.0%}, pays above {min(need, 1.0):.0%}"
        return 0

    def branch(self, source: str, main: Sequence[int], side: Sequence[int]) -> int:
        """How many tokens of a second chain are worth adding as a branch at the root beside `main`."""
        room = min(len(side), self.limit - len(main))
        if room <= 0 or not main or self.fixed_width:
            return 0
        expected = self._expectations(source, main)[-1]
        missed = 1.0 - self._rate(source, main[0])
        gains = [missed * (tokens - 1.0) for tokens in self._expectations(source, side[:room])]
        values = [(expected + gain) / self._seconds(source, len(main), n) for n, gain in enumerate(gains)]
        best = max(range(room + 1), key=values.__getitem__)
        return best if values[best] >= _ENTER * values[0] else 0

    def repays(self, source: str, pending: int) -> bool:
        """True if computing `pending` tokens to get a drafter going is likely to be won back in this reply.

        A reply that has run for n tokens is assumed to run for n more (the ski-rental rule), and no more than a share
        of the time it took so far is spent, so that a reply which ends early is hardly slower. A source that does not
        look as if it paid gets a small share, when it is to be tried again: it is parked, not dropped.
        """
        plain = 1.0 / self.plain_rate
        cost = pending * self._prepare.get(source, 0.0) * self._scale
        saved = self._emitted * (plain - 1.0 / self.value(source, range(self.limit)))
        share = _READING if saved >= cost else _READING_PARKED
        parking = self._parking.setdefault(source, _Parking())
        parking.wait -= parking.parked
        due = not parking.parked or parking.wait <= 0
        if due and self._emitted and self._reading + cost <= share * self._emitted * plain:
            return True
        self._refused[source] = f"{source} waits: reading {pending} tokens first must pay"
        return False

    def decide(self, draft: Draft) -> Decision:
        """Put this round's choice into words, once the draft is known."""
        true_plain = self._scale * self.timings.seconds(1)
        if not draft:
            reason = "; ".join(self._refused.values()) or ("nothing to draft" if self.allowed else "switched off")
            return Decision(bool(self._refused), reason, 1.0, self._verify_seconds(1) / true_plain)
        trunk = len(draft.trunk())
        main, side = draft.classes[:trunk], draft.classes[trunk:]
        tokens = self._expectations(draft.source, main)[-1]
        tokens += (1.0 - self._rate(draft.source, main[0])) * (self._expectations(draft.source, side)[-1] - 1.0)
        seconds = self._seconds(draft.source, trunk, len(side))
        parking = self._parking.get(draft.source)
        reason = f"{draft.source}, {trunk} deep" + (f" and {len(side)} beside" if side else "")
        reason += ", trying again" if parking and parking.probing else ""
        return Decision(False, reason, tokens, seconds / true_plain)

    def learn(self, draft: Draft, verdict: Verdict, draft_seconds: float, verify_seconds: float) -> None:
        """What came of the round: which nodes were tested, and what it took."""
        self._emitted += len(verdict.tokens)
        for node, hit in tested(draft.parents, verdict.path):
            self._observe(draft.source, draft.classes[node], hit)
        if verdict.path and draft.source in self._parking:
            self._parking[draft.source].backoff = _FIRST_PROBE
        self._pace(max(len(draft) + 1, self.fixed_width), verify_seconds)
        if draft:
            old = self._draft.get(draft.source)
            sample = draft_seconds / len(draft) / self._scale
            sample = sample if old is None else min(max(sample, old / _CLAMP), old * _CLAMP)
            self._draft[draft.source] = sample if old is None else 0.9 * old + 0.1 * sample

    def _pace(self, width: int, seconds: float) -> None:
        """Follow the machine: quickly at first, then by small clamped steps."""
        table = self.timings.seconds(width)
        self._spent += seconds
        self._tabled += table
        self._samples += 1
        ratio = min(max(seconds / (table * self._scale), 1 / _CLAMP), _CLAMP)
        self._scale *= ratio ** max(0.1, 1.0 / self._samples)

    def prepared(self, source: str, count: int, seconds: float) -> None:
        """A drafter computed `count` prompt tokens to get going."""
        self._reading += seconds
        if count:
            # The least is kept: a short stretch pays the price of a whole forward.
            sample = seconds / count / self._scale
            self._prepare[source] = min(sample, self._prepare.get(source, sample))


def tested(parents: Sequence[int], path: Sequence[int]) -> list[tuple[int, bool]]:
    """The nodes that were put to the test, and how each fared.

    Siblings are tested in order: those before the accepted one failed, those after it were never asked.
    """
    found: list[tuple[int, bool]] = []
    for depth in range(len(path) + 1):
        at = path[depth - 1] if depth else -1
        accepted = path[depth] if depth < len(path) else None
        for node, parent in enumerate(parents):
            if parent == at and (accepted is None or node <= accepted):
                found.append((node, node == accepted))
    return found
