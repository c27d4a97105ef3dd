"""Measures a backend: each way of drafting beside plain decoding, task by task, in one run.

Speeds drift while a machine warms up or others use it, so a ratio is only ever taken between neighbours: every repeat
of a task runs plain and all drafters one after the other, in a rotated order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from localchat.bench.compare import Sameness, Verdict, rounding, sameness
from localchat.bench.hear import Run, replying
from localchat.chat.backend import Backend, ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Loaded, ReplyEvent
from localchat.engine.types import GenerationStats

OFF, LOOKUP = "off", "lookup"
WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to ask; tasks of one kind are summed up together."""

    kind: str
    conversation: Conversation


@dataclass(frozen=True, slots=True)
class Trial:
    """What is measured, and how."""

    tasks: tuple[Task, ...]
    """In the order of their kinds, at least one."""
    drafters: tuple[str, ...]
    """What to measure beside plain."""
    options: ReplyOptions
    """The same for every reply."""
    repeats: int = 1

    @property
    def methods(self) -> tuple[str, ...]:
        """All that is measured, plain first, nothing twice."""
        return tuple(dict.fromkeys((OFF, *self.drafters)))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its tasks, in order."""
        return tuple(dict.fromkeys(task.kind for task in self.tasks))

    @property
    def replies(self) -> int:
        """How many replies are measured, the warm-up left out."""
        return len(self.tasks) * len(self.methods) * self.repeats


@dataclass(frozen=True, slots=True)
class Step:
    """A reply begins. Before the first one, `kind` is empty: the warm-up."""

    kind: str
    method: str
    repeat: int
    """From 1."""
    done: int
    """Replies finished so far."""
    trial: Trial

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.kind}, {self.repeat} of {self.trial.repeats}" if self.kind else "Warming up"


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range of repeated measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Sum up at least one value."""
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Pair:
    """A reply and the plain one that was written next to it."""

    task: Task
    method: str
    plain: Run
    run: Run
    sameness: Sameness

    @property
    def speedup(self) -> float:
        """Decoding speed against the plain reply."""
        base = self.plain.reply.stats.tokens_per_second
        return self.run.reply.stats.tokens_per_second / base if base else 1.0


@dataclass(frozen=True, slots=True)
class Result:
    """One drafter on one kind of tasks, all repeats together."""

    category: str
    drafter: str
    runs: int
    """Replies measured."""
    tokens: int
    tokens_per_second: Spread
    speedup: Spread
    """Against true plain decoding next to it."""
    sameness: Sameness
    """The worst of all replies: different before tie before same."""
    tokens_per_round: float
    acceptance_rate: float
    acceptance_by_position: tuple[float, ...]
    ttft_seconds: Spread
    draft_share: float
    verify_share: float
    host_share: float
    predicted_speedup: float
    peak_memory_bytes: int
    part: str = ""
    """The draft model or head that was loaded beside the target; empty if none was."""

    @property
    def uses_part(self) -> bool:
        """Its drafts come from the draft model or head, or may."""
        return bool(self.part) and self.drafter not in (OFF, LOOKUP)


Measured = Step | ReplyEvent | Pair | Result


def using(options: ReplyOptions, method: str) -> ReplyOptions:
    """The options with a way of drafting, and with no help from earlier replies: the same text was just written."""
    return replace(options, method=method, accelerate=method != OFF, fresh=True)


def plain_factor(loaded: Loaded) -> float:
    """How much faster true plain decoding (width 1) is than plain decoding here; below 1 is noise, not a gain."""
    return 1.0 + max(0.0, loaded.exact_cost) if loaded.exact else 1.0


def _warm_up(backend: Backend, trial: Trial) -> Generator[Measured, None, bool]:
    """A few tokens by each method, so that no measured reply pays for what is done only once; False: cancelled."""
    yield Step("", OFF, 0, 0, trial)
    for method in trial.methods:
        options = replace(using(trial.options, method), max_tokens=WARM_UP_TOKENS)
        run = yield from replying(backend, trial.tasks[0].conversation, options)
        if run.cancelled:
            return False
    return True


def measure(backend: Backend, trial: Trial, loaded: Loaded) -> Iterator[Measured]:
    """All that happens, as it happens: steps, the events of each reply, pairs, and the results of a kind, plain first.

    Ends early, without the results of the kind it was at, when a reply is cancelled.

    Args:
        backend: loaded with everything that the drafters need.
        trial: what to measure.
        loaded: what the backend said when it had loaded.

    Raises:
        LocalchatError: the backend failed.
    """
    if not (yield from _warm_up(backend, trial)):
        return
    within, done = rounding(loaded.plan.precision.value), 0
    for kind in trial.kinds:
        pairs: list[Pair] = []
        for repeat in range(trial.repeats):
            for task in (task for task in trial.tasks if task.kind == kind):
                runs = yield from _side_by_side(backend, task, trial, repeat, done)
                if len(runs) < len(trial.methods):
                    return
                done += len(runs)
                plain = runs[OFF]
                new = [Pair(task, name, plain, run, sameness(plain, run, within)) for name, run in runs.items()]
                yield from new
                pairs += new
        for method in trial.methods:
            yield summary([pair for pair in pairs if pair.method == method], plain_factor(loaded), loaded.draft_name)


def _side_by_side(
    backend: Backend, task: Task, trial: Trial, repeat: int, done: int
) -> Generator[Measured, None, dict[str, Run]]:
    runs: dict[str, Run] = {}
    for method in _rotated(trial.methods, repeat):
        yield Step(task.kind, method, repeat + 1, done + len(runs), trial)
        run = yield from replying(backend, task.conversation, using(trial.options, method))
        if run.cancelled:
            break
        runs[method] = run
    return runs


def _rotated(methods: Sequence[str], by: int) -> tuple[str, ...]:
    by %= len(methods)
    return (*methods[by:], *methods[:by])


def summary(pairs: Sequence[Pair], factor: float, part: str = "") -> Result:
    """What the pairs of one kind and one method come to.

    Args:
        pairs: at least one.
        factor: see plain_factor.
        part: see Result.
    """
    runs = [pair.run for pair in pairs]
    stats = [run.reply.stats for run in runs]
    total = GenerationStats()
    for round_ in (round_ for run in runs for round_ in run.rounds):
        total = total + round_
    seconds = total.decode_seconds or 1.0
    return Result(
        category=pairs[0].task.kind,
        drafter=pairs[0].method,
        runs=len(pairs),
        tokens=total.tokens,
        tokens_per_second=Spread.of([item.tokens_per_second for item in stats]),
        speedup=Spread.of([pair.speedup / factor for pair in pairs]),
        sameness=max((pair.sameness for pair in pairs), key=lambda same: list(Verdict).index(same.verdict)),
        tokens_per_round=total.tokens_per_round,
        acceptance_rate=total.acceptance_rate,
        acceptance_by_position=total.acceptance_by_position,
        ttft_seconds=Spread.of([run.reply.first_token_seconds for run in runs]),
        draft_share=total.draft_seconds / seconds,
        verify_share=total.verify_seconds / seconds,
        host_share=total.host_seconds / seconds,
        predicted_speedup=Spread.of([item.predicted_speedup for item in stats]).median,
        peak_memory_bytes=max(run.reply.usage.process for run in runs),
        part=part,
    )
