"""Measures a backend: each way of drafting beside plain decoding, prompt by prompt, in one run.

Speeds drift while a machine warms up or others use it, so a ratio is only ever taken between neighbours: every repeat
of a prompt runs plain and all drafters one after the other, in a rotated order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from localchat.bench.categories import Prompt
from localchat.bench.compare import Sameness, Verdict, sameness
from localchat.bench.hear import Run, reply
from localchat.chat.backend import Backend, ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Loaded
from localchat.engine.types import GenerationStats

OFF = "off"
WARM_UP_TOKENS = 16


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
class Result:
    """One drafter on one kind of prompts, all repeats together."""

    category: str
    drafter: str
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


@dataclass(frozen=True, slots=True)
class Pair:
    """A reply and the plain one that was written next to it."""

    plain: Run
    run: Run
    sameness: Sameness

    @property
    def speedup(self) -> float:
        """Decoding speed against the plain reply."""
        base = self.plain.reply.stats.tokens_per_second
        return self.run.reply.stats.tokens_per_second / base if base else 1.0


def using(options: ReplyOptions, method: str) -> ReplyOptions:
    """The options with a way of drafting, and with no help from earlier replies: the same text was just written."""
    return replace(options, method=method, accelerate=method != OFF, fresh=True)


def plain_factor(loaded: Loaded) -> float:
    """How much faster true plain decoding (width 1) is than plain decoding here; below 1 is noise, not a gain."""
    return 1.0 + max(0.0, loaded.exact_cost) if loaded.exact else 1.0


def warm_up(backend: Backend, conversation: Conversation, methods: Sequence[str], options: ReplyOptions) -> None:
    """A few tokens by each method, so that no measured reply pays for what is done only once."""
    for method in methods:
        reply(backend, conversation, replace(using(options, method), max_tokens=WARM_UP_TOKENS))


def race(
    backend: Backend,
    conversation: Conversation,
    method: str,
    options: ReplyOptions,
    repeats: int,
    within: float,
    show: Callable[[str], None],
) -> list[Pair]:
    """The same reply plain and by one method, as often as asked, after a warm-up.

    Raises:
        LocalchatError: the backend failed.
    """
    show("Warming up")
    warm_up(backend, conversation, (OFF, method), options)
    pairs = []
    for repeat in range(repeats):
        show(f"Run {repeat + 1} of {repeats}")
        runs = _side_by_side(backend, conversation, _rotated((OFF, method), repeat), options, within)
        pairs.append(runs[method])
    return pairs


def measure(
    backend: Backend,
    prompts: Sequence[Prompt],
    drafters: Sequence[str],
    options: ReplyOptions,
    repeats: int,
    within: float,
    factor: float,
    show: Callable[[str], None],
) -> Iterator[Result]:
    """Results kind by kind, plain first.

    Args:
        backend: loaded with everything that the drafters need.
        prompts: in the order of their kinds.
        drafters: what to measure beside plain.
        options: the same for every reply.
        repeats: of every prompt, at least 1.
        within: the gap between two logits that rounding can close (see compare.rounding).
        factor: see plain_factor.
        show: is told what runs.

    Raises:
        LocalchatError: the backend failed.
    """
    methods = (OFF, *drafters)
    show("Warming up")
    warm_up(backend, Conversation().user(prompts[0].text), methods, options)
    for kind in dict.fromkeys(prompt.kind for prompt in prompts):
        pairs: dict[str, list[Pair]] = {method: [] for method in methods}
        for repeat in range(repeats):
            for prompt in (prompt for prompt in prompts if prompt.kind == kind):
                conversation = Conversation().user(prompt.text)
                show(f"{kind}, {repeat + 1} of {repeats}")
                runs = _side_by_side(backend, conversation, _rotated(methods, repeat), options, within)
                for method, pair in runs.items():
                    pairs[method].append(pair)
        for method in methods:
            yield _result(kind, method, pairs[method], factor)


def _rotated(methods: Sequence[str], by: int) -> tuple[str, ...]:
    by %= len(methods)
    return (*methods[by:], *methods[:by])


def _side_by_side(
    backend: Backend,
    conversation: Conversation,
    methods: Sequence[str],
    options: ReplyOptions,
    within: float,
) -> dict[str, Pair]:
    runs: dict[str, Run] = {}
    for method in methods:
        runs[method] = reply(backend, conversation, using(options, method))
    plain = runs[OFF]
    return {method: Pair(plain, run, sameness(plain, run, within)) for method, run in runs.items()}


def _result(kind: str, method: str, pairs: Sequence[Pair], factor: float) -> Result:
    runs = [pair.run for pair in pairs]
    stats = [run.reply.stats for run in runs]
    total = GenerationStats()
    for round_ in (round_ for run in runs for round_ in run.rounds):
        total = total + round_
    seconds = total.decode_seconds or 1.0
    return Result(
        category=kind,
        drafter=method,
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
    )
