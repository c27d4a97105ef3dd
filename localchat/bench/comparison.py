"""A finished comparison as a value: what was measured, under which conditions, and one race of each kind to replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from localchat.bench.compare import Sameness, Verdict
from localchat.bench.hear import Run
from localchat.bench.runner import OFF, Pair, Result, Spread, Trial, plain_factor
from localchat.chat.conversation import Role
from localchat.chat.events import Loaded, Wrote
from localchat.engine.types import Sampling


@dataclass(frozen=True, slots=True)
class Moment:
    """One round, at the time when it was finished."""

    seconds: float
    """Since the reply was asked for."""
    text: str
    tokens: int
    accepted: int = 0
    """Leading characters of the text that stood in the draft; 0 also where text and tokens do not line up."""


@dataclass(frozen=True, slots=True)
class Side:
    """One reply of a race, as it went."""

    drafter: str
    moments: tuple[Moment, ...]
    tokens: int
    tokens_per_second: float
    first_token_seconds: float
    tokens_per_round: float
    drafted: int
    accepted: int
    acceptance_by_position: tuple[float, ...]
    memory_bytes: int
    """Of the whole engine."""
    draft_bytes: int
    """The draft model and its cache: what acceleration takes."""

    @property
    def text(self) -> str:
        """The reply."""
        return "".join(moment.text for moment in self.moments)

    @property
    def seconds(self) -> float:
        """From the question to the last token."""
        return self.moments[-1].seconds if self.moments else self.first_token_seconds

    @property
    def acceptance_rate(self) -> float:
        """Accepted / drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @classmethod
    def of(cls, run: Run) -> Side:
        """A run that was heard out."""
        reply, stats = run.reply, run.reply.stats
        return cls(
            drafter=reply.drafter,
            moments=_moments(run),
            tokens=stats.tokens,
            tokens_per_second=stats.tokens_per_second,
            first_token_seconds=reply.first_token_seconds,
            tokens_per_round=stats.tokens_per_round,
            drafted=stats.drafted,
            accepted=stats.accepted,
            acceptance_by_position=stats.acceptance_by_position,
            memory_bytes=reply.usage.process,
            draft_bytes=reply.usage.draft + reply.usage.draft_cache,
        )


@dataclass(frozen=True, slots=True)
class Race:
    """The same reply plain and drafted; which of all repeats it is says `telling`."""

    kind: str
    prompt: str
    speedup: float
    """Against true plain decoding."""
    sameness: Sameness
    plain: Side
    fast: Side


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything there is to show, export and keep."""

    created: float
    """Seconds since 1970."""
    device: str
    versions: tuple[tuple[str, str], ...]
    target: str
    draft_model: str
    precision: str
    exact: bool
    exact_cost: float
    sampling: Sampling
    max_tokens: int
    repeats: int
    results: tuple[Result, ...]
    races: tuple[Race, ...] = ()

    @property
    def drafted(self) -> tuple[Result, ...]:
        """The results that are not plain."""
        return tuple(result for result in self.results if result.drafter != OFF)

    @property
    def speedup(self) -> Spread | None:
        """Over the kinds: the median of their medians, and the range of those; None if nothing was measured."""
        medians = [result.speedup.median for result in self.drafted]
        return (medians and Spread.of(medians)) or None

    @property
    def title(self) -> str:
        """One line that tells it from others."""
        what = self.races[0].prompt.strip().split("\n")[0][:60] if len(self.races) == 1 else f"{len(self.races)} kinds"
        speed = f"{self.speedup.median:.2f}×" if self.speedup else "nothing measured"
        return f"{speed} · {what} · {self.target} {self.precision}"

    def result(self, kind: str, *, plain: bool = False) -> Result | None:
        """The result of a kind."""
        return next((item for item in self.results if item.category == kind and (item.drafter == OFF) is plain), None)


def _moments(run: Run) -> tuple[Moment, ...]:
    """When each round was done, by the engine's own clock: what the reader of the events did meanwhile is left out."""
    waited = 0.0
    for wrote in run.wrote:
        waited += _seconds(wrote)
        if wrote.text:
            break
    now = max(0.0, run.reply.first_token_seconds - waited)
    moments = []
    for wrote in run.wrote:
        now += _seconds(wrote)
        moments.append(Moment(now, wrote.text, len(wrote.round.tokens), _accepted(wrote)))
    held = run.reply.text[sum(len(moment.text) for moment in moments) :]
    return (*moments, Moment(now, held, 0)) if held else tuple(moments)


def _seconds(wrote: Wrote) -> float:
    return wrote.round.draft_seconds + wrote.round.verify_seconds + wrote.round.host_seconds


def _accepted(wrote: Wrote) -> int:
    if "".join(wrote.pieces) != wrote.text:
        return 0
    return len("".join(wrote.pieces[: wrote.round.accepted]))


def telling(pairs: Sequence[Pair]) -> Pair:
    """The pair to show of all repeats: one whose text differs if there is one, else the median one by speed.

    Of two in the middle it is the slower one.

    Args:
        pairs: of one kind and one method, at least one.
    """
    worst = max((pair.sameness.verdict for pair in pairs), key=list(Verdict).index)
    shown = sorted((pair for pair in pairs if pair.sameness.verdict is worst), key=lambda pair: pair.speedup)
    return shown[(len(shown) - 1) // 2]


def race(pair: Pair, factor: float) -> Race:
    """A pair to replay.

    Args:
        pair: see `telling`.
        factor: see runner.plain_factor.
    """
    asked = [message.text for message in pair.task.conversation.messages if message.role is Role.USER]
    plain, fast = Side.of(pair.plain), Side.of(pair.run)
    return Race(pair.task.kind, asked[-1] if asked else "", pair.speedup / factor, pair.sameness, plain, fast)


def together(wholes: Sequence[Comparison]) -> Comparison:
    """Comparisons of one target with different draft models as one, kind by kind; its conditions are the first one's.

    Args:
        wholes: at least one.
    """
    results = [result for whole in wholes for result in whole.results]
    kinds = list(dict.fromkeys(result.category for result in results))
    return replace(
        wholes[0],
        draft_model=", ".join(dict.fromkeys(whole.draft_model for whole in wholes if whole.draft_model)),
        results=tuple(sorted(results, key=lambda result: kinds.index(result.category))),
        races=tuple(race for whole in wholes for race in whole.races),
    )


def comparison(
    loaded: Loaded, trial: Trial, results: Sequence[Result], pairs: Sequence[Pair], created: float
) -> Comparison:
    """Sum up what `runner.measure` said.

    Args:
        loaded: what it was measured on.
        trial: what was measured.
        results: in the order they came.
        pairs: of kinds that have results, for races; may be empty.
        created: seconds since 1970.
    """
    from localchat.bench.report import versions

    races = []
    for result in (result for result in results if result.drafter != OFF):
        own = [pair for pair in pairs if (pair.task.kind, pair.method) == (result.category, result.drafter)]
        races += [race(telling(own), plain_factor(loaded))] if own else []
    return Comparison(
        created=created,
        device=loaded.machine.title or loaded.plan.device,
        versions=tuple(versions().items()),
        target=loaded.model_name,
        draft_model=loaded.draft_name,
        precision=loaded.plan.precision.value,
        exact=loaded.exact,
        exact_cost=loaded.exact_cost,
        sampling=trial.options.sampling,
        max_tokens=trial.options.max_tokens,
        repeats=trial.repeats,
        results=tuple(results),
        races=tuple(races),
    )
