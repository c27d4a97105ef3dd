"""How much to draft: the part of a draft that maximises expected tokens per measured second, none included.

Acceptance is estimated per source and class (how sure a network was, a match length in a lookup), cost per width and
per forward of the drafting network. A path's chance is the product of its nodes'; siblings exclude each other. Nothing
is decided on acceptance alone and nothing is parked for good: a parked source is tried again, ever less often. The
choice can change the speed and never the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from localchat.engine.acceptance import Acceptance
from localchat.engine.sureness import SURE
from localchat.engine.tree import depths
from localchat.engine.types import ROOT, Decision, Draft, Verdict, Weighed

_READING, _READING_PARKED = 0.15, 0.03
"""Share of a reply's time so far that may go into getting a drafter started."""
_ENTER = 1.04
"""How much better than plain a parked source must look to be let in again."""
_BRANCH = 1.02
"""How much better than a chain a draft with branches must look: masks and copied rows have a price too."""
_FORLORN = 0.003
"""What is this unlikely is not looked at."""
_FIRST_PROBE, _LAST_PROBE = 8, 512
_CLAMP = 1.5
"""A sample further off than this factor (a page fault, another program) counts as this far off."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Measured seconds that a governor starts from; kept per machine and model."""

    verify: tuple[tuple[int, float], ...] = ((1, 1.0), (64, 1.0))
    """(width, seconds) in ascending width."""
    draft: tuple[tuple[str, float], ...] = ()
    """(source, seconds per forward of the drafting network)."""
    prepare: tuple[tuple[str, float], ...] = ()
    """(source, seconds per prompt token a drafter must compute before it can start)."""

    def seconds(self, width: int) -> float:
        """Of one verification of `width` rows: the next measured width, which the rows are padded to."""
        return next((seconds for measured, seconds in self.verify if measured >= width), self.verify[-1][1])


@dataclass(slots=True)
class _Parking:
    """When a source that does not pay is tried again."""

    parked: bool = False
    wait: int = 0
    backoff: int = _FIRST_PROBE


@dataclass(frozen=True, slots=True)
class _Part:
    """Nodes of a draft to verify, and what they promise."""

    nodes: list[int]
    tokens: float
    value: float
    """Expected tokens per second."""


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
    _acceptance: Acceptance = field(default_factory=Acceptance)
    _parking: dict[str, _Parking] = field(default_factory=dict)
    _draft: dict[str, float] = field(default_factory=dict)
    _prepare: dict[str, float] = field(default_factory=dict)
    _verify: list[float] = field(default_factory=list)
    """Seconds by rows, at the scale of the table."""
    _scale: float = 1.0
    _samples: int = 0
    _spent: float = 0.0
    _tabled: float = 0.0
    _refused: dict[str, str] = field(default_factory=dict)
    _probing: dict[str, bool] = field(default_factory=dict)
    """Sources let in this round; True: only to see how they do."""

    def __post_init__(self) -> None:
        self._draft.update(self.timings.draft)
        self._prepare.update(self.timings.prepare)
        rows = range(self.max_width + 1)
        self._verify = [self.timings.seconds(max(width, self.fixed_width)) for width in rows]

    def trust(self, priors: Mapping[str, tuple[float, ...]]) -> None:
        """Acceptance to expect of each class of a source before anything was seen."""
        self._acceptance.trust(priors)

    def open(self, room: int) -> None:
        """A round begins in which at most `room` tokens can be of use."""
        self.limit = max(0, min(room, self.max_width - 1)) if self.allowed else 0
        self._refused = {}
        self._probing = {}

    @property
    def branches(self) -> bool:
        """A branch's rows stand elsewhere in the cache than plain decoding's, so exact mode verifies chains only."""
        return not self.fixed_width

    def begin_reply(self) -> None:
        """Nothing of the next reply is written yet."""
        self._emitted = 0
        self._reading = 0.0
        for parking in self._parking.values():
            parking.wait, parking.backoff = min(parking.wait, _FIRST_PROBE // 2), _FIRST_PROBE
        self._spent = self._tabled = 0.0
        self._acceptance.begin_reply()

    def _verify_seconds(self, rows: int) -> float:
        return self._scale * self._verify[min(rows, self.max_width)]

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

    def _alive(self, source: str, parents: Sequence[int], classes: Sequence[int]) -> list[float]:
        """Per node the chance that it is accepted."""
        rates = [self._acceptance.rate(source, kind) for kind in classes]
        sums: dict[int, float] = {}
        for parent, rate in zip(parents, rates, strict=True):
            sums[parent] = sums.get(parent, 0.0) + rate
        alive: list[float] = []
        for parent, rate in zip(parents, rates, strict=True):
            alive.append(rate / max(1.0, sums[parent]) * (1.0 if parent == ROOT else alive[parent]))
        return alive

    def _step(self, source: str) -> float:
        """Seconds of one forward of a drafting network."""
        return self._draft.get(source, 0.0) * self._scale

    def _part(self, source: str, order: Sequence[int], alive: Sequence[float], steps: Sequence[int]) -> _Part:
        """As many nodes of this order as give most tokens per second.

        Args:
            alive: per node the chance that it is accepted.
            steps: forwards of the drafting network, by how many nodes are verified.
        """
        step, tokens = self._step(source), 1.0
        count, most, best = 0, tokens, tokens / (self._verify_seconds(1) + steps[0] * step)
        for rows, node in enumerate(order[: self.limit], start=2):
            if alive[node] < _FORLORN:
                break
            tokens += alive[node]
            value = tokens / (self._verify_seconds(rows) + steps[rows - 1] * step)
            if value > best:
                count, most, best = rows - 1, tokens, value
        return _Part(list(order[:count]), most, best)

    def _best(self, source: str, parents: Sequence[int], alive: Sequence[float], steps: int | None) -> _Part:
        """The part of a draft that gives most tokens per second; a chain unless branches make a difference."""

        def forwards(order: Sequence[int]) -> Sequence[int]:
            if steps is not None:
                return [steps] * (len(order) + 1)
            depth = depths(parents)
            return [0, *accumulate((depth[node] for node in order), max)]

        order = sorted(range(len(alive)), key=lambda node: -alive[node])
        trunk: list[int] = []
        for node in order:
            if parents[node] == (trunk[-1] if trunk else ROOT):
                trunk.append(node)
        chain = self._part(source, trunk, alive, forwards(trunk))
        if len(trunk) == len(order):
            return chain
        wide = self._part(source, order, alive, forwards(order))
        return wide if wide.value > _BRANCH * chain.value else chain

    def value(self, source: str, parents: Sequence[int], classes: Sequence[int], steps: int | None) -> float:
        """Expected tokens per second of the best part of such a draft; asking changes nothing."""
        return self._best(source, parents, self._alive(source, parents, classes), steps).value

    def weigh(self, source: str, parents: Sequence[int], classes: Sequence[int], steps: int) -> Weighed:
        """See `Room.weigh`."""
        if not self.limit:
            return Weighed((), False)
        alive, depth = self._alive(source, parents, classes), depths(parents)
        part = self._best(source, parents, alive, steps)
        growing = steps == max(depth, default=0)
        end = sum(alive[node] for node in part.nodes if depth[node] == steps) if parents else 1.0
        ahead = self._ahead(source, end, part, steps) if growing else 0.0
        if source not in self._probing:
            rate = self._acceptance.rate(source, classes[0] if parents else 0)
            if not self._enters(source, part.value if parents else ahead, rate, max(steps, growing)):
                return Weighed((), False)
        if self._probing[source]:
            return Weighed((alive.index(max(alive)),) if alive else (), not parents)
        if parents and not part.nodes:
            self.refuse(source, f"{source} unsure: nothing it found is worth a row")
            if growing:
                self._acceptance.observe(source, 0, False)
        return Weighed(tuple(sorted(part.nodes)), ahead > part.value)

    def _ahead(self, source: str, alive: float, part: _Part, level: int) -> float:
        """Best expected tokens per second if one or more levels of one node each were added.

        Args:
            alive: the chance that the text goes as far as some node of the last level.
            part: what is verified in any case.
            level: levels there are.
        """
        best, step, rows, tokens = 0.0, self._step(source), len(part.nodes), part.tokens
        for more in range(1, self.limit - rows + 1):
            alive *= self._acceptance.rate(source, level + more - 1)
            if alive < _FORLORN:
                break
            tokens += alive
            best = max(best, tokens / (self._verify_seconds(1 + rows + more) + (level + more) * step))
        return best

    def _enters(self, source: str, value: float, rate: float, steps: int) -> bool:
        """Decide once a round whether a source may draft, and whether only as a probe."""
        parking = self._parking.setdefault(source, _Parking())
        if value > self.plain_rate * (_ENTER if parking.parked else 1.0):
            parking.parked, parking.backoff = False, _FIRST_PROBE
            self._probing[source] = False
            return True
        if not parking.parked:
            parking.parked, parking.wait = True, parking.backoff
        parking.wait -= 1
        if parking.wait <= 0:
            parking.backoff = min(2 * parking.backoff, _LAST_PROBE)
            parking.wait = parking.backoff
            self._probing[source] = True
            return True
        need = (self._verify_seconds(2) + steps * self._step(source)) * self.plain_rate - 1.0
        self.refuse(source, f"{source} parked: accepted {rate:.0%}, pays above {min(need, 1.0):.0%}")
        return False

    def repays(self, source: str, pending: int) -> bool:
        """True if computing `pending` tokens to get a drafter going is likely to be won back in this reply.

        A reply that has run for n tokens is assumed to run for n more (the ski-rental rule), and no more than a share
        of the time it took so far is spent, so that a reply which ends early is hardly slower. A source that does not
        look as if it paid gets a small share, when it is to be tried again: it is parked, not dropped.
        """
        plain = 1.0 / self.plain_rate
        cost = pending * self._prepare.get(source, 0.0) * self._scale
        best = self.value(source, range(ROOT, self.limit - 1), range(self.limit), None)
        saved = self._emitted * (plain - 1.0 / best)
        share = _READING if saved >= cost else _READING_PARKED
        parking = self._parking.setdefault(source, _Parking())
        parking.wait -= parking.parked
        due = not parking.parked or parking.wait <= 0
        if due and self._emitted and self._reading + cost <= share * self._emitted * plain:
            return True
        self.refuse(source, f"{source} waits: reading {pending} tokens first must pay")
        return False

    def refuse(self, source: str, reason: str) -> None:
        """A source does not draft in this round; the reason is for the screen."""
        self._refused[source] = reason

    def decide(self, draft: Draft) -> Decision:
        """Put this round's choice into words, once the draft is known."""
        true_plain = self._scale * self.timings.seconds(1)
        if not draft:
            reason = "; ".join(self._refused.values()) or ("nothing to draft" if self.allowed else "switched off")
            return Decision(bool(self._refused), reason, 1.0, self._verify_seconds(1) / true_plain)
        source, deep = draft.source, max(depths(draft.parents))
        tokens = 1.0 + sum(self._alive(source, draft.parents, draft.classes))
        seconds = self._verify_seconds(1 + len(draft)) + draft.steps * self._step(source)
        reason = f"{source}, {deep} deep" if draft.is_chain else f"{source}, {len(draft)} tokens {deep} deep"
        reason += ", trying again" if self._probing.get(source) else ""
        return Decision(False, reason, tokens, seconds / true_plain)

    def learn(self, draft: Draft, verdict: Verdict, draft_seconds: float, verify_seconds: float) -> None:
        """What came of the round: which nodes were tested, and what it took."""
        self._emitted += len(verdict.tokens)
        depth, levels = depths(draft.parents), set()
        for node, hit in tested(draft.parents, verdict.path):
            self._acceptance.observe(draft.source, draft.classes[node], hit)
            levels |= {depth[node]} if draft.classes[node] >= SURE else set()
        for level in levels:
            self._acceptance.observe(draft.source, level - 1, level <= len(verdict.path))
        if verdict.path and draft.source in self._parking:
            self._parking[draft.source].backoff = _FIRST_PROBE
        self._pace(max(len(draft) + 1, self.fixed_width), verify_seconds)
        if draft.steps:
            old = self._draft.get(draft.source)
            sample = draft_seconds / draft.steps / self._scale
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
    """The nodes that were put to the test, because what they follow was accepted, and whether they were it."""
    reached = {ROOT, *path}
    return [(node, node in reached) for node, parent in enumerate(parents) if parent in reached]
