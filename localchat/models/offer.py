"""What can be chosen before a load, and what each choice comes to: memory, speed, quality. Pure; nothing is read here.

A choice is a `LoadPlan` in which nothing is "auto"; every row lists the plans one step away from it, so a screen only
has to show them. Memory is `models.memory`'s, speed is `models.pace`'s and what drafting pays is `models.pairing`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from localchat.engine.sizes import MAX_WIDTH
from localchat.errors import LocalchatError
from localchat.models.choice import DEFAULT_CONTEXT, GOOD_CONTEXT, Side, settle
from localchat.models.devices import Machine
from localchat.models.folders import STARTER_DRAFT
from localchat.models.memory import LEAST_CONTEXT, Change, MemoryPlan, Request, cheaper, default_reserve, plan_memory
from localchat.models.pace import Pace, gain
from localchat.models.pairing import ROW_COST
from localchat.models.plan import ALONE, HEADS, METHODS, LoadPlan, Mode, Precision
from localchat.models.quantization import candidates, repacks
from localchat.models.stock import Partner

_STEP = 256
"""Contexts are offered in multiples of this."""

_LOOKUP_GAIN, _MIXED_GAIN = 1.05, 1.02
"""What lookup adds where nothing repeats much; copying makes it far more, so it is a matter of order, not a promise."""

QUALITY = {
    Precision.FP32: "as precise as it was stored",
    Precision.BF16: "full quality",
    Precision.FP16: "full quality",
    Precision.INT8: "hardly any loss",
    Precision.NF4: "a little less precise",
}
"""What a precision means for the replies."""

_RANK = {Precision.FP32: 3, Precision.BF16: 2, Precision.FP16: 2, Precision.INT8: 1, Precision.NF4: 0}


_planned = lru_cache(maxsize=4096)(plan_memory)
"""Each key press asks for the same plans again."""


class Key(StrEnum):
    """The rows."""

    FIT = "fit"
    MODEL = "model"
    PRECISION = "precision"
    DRAFT = "draft"
    DRAFT_PRECISION = "draft_precision"
    CONTEXT = "context"
    MODE = "mode"


@dataclass(frozen=True, slots=True)
class Stock:
    """What a choice is made from."""

    machine: Machine
    """Its free memory is what a load would find: free now, and held by what is loaded now."""
    sides: tuple[Side, ...]
    partners: tuple[Partner, ...]
    """Who can draft for the model of the plan in question."""
    pace: Pace

    def side(self, name: str) -> Side | None:
        """The model of that name."""
        return next((side for side in self.sides if side.source.name == name), None)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan comes to."""

    request: Request
    memory: MemoryPlan
    plain: float
    """Tokens per second without drafts."""
    drafted: float
    """The same with drafts, at a usual acceptance."""
    cost_ratio: float = 0.0
    """Time of a draft step as a share of a target step; 0 where nothing but lookup drafts."""

    @property
    def break_even(self) -> float:
        """Share of drafted tokens that must be accepted for the draft model or head to pay."""
        return self.cost_ratio + ROW_COST

    @property
    def weights(self) -> int:
        """Bytes of both models."""
        return self.memory.target + self.memory.draft


@dataclass(frozen=True, slots=True)
class Item:
    """One choice of a row."""

    label: str
    plan: LoadPlan
    estimate: Estimate

    @property
    def fits(self) -> bool:
        """It fits in memory."""
        return self.estimate.memory.fits


@dataclass(frozen=True, slots=True)
class Row:
    """The choices of one kind, and the one that stands."""

    key: Key
    title: str
    items: tuple[Item, ...]
    chosen: int
    """-1: none of them stands."""

    def step(self, by: int) -> Item | None:
        """The item so many places on, or None past an end."""
        at = self.chosen + by if self.chosen >= 0 else (0 if by > 0 else len(self.items) - 1)
        return self.items[at] if 0 <= at < len(self.items) and at != self.chosen else None


def budget(machine: Machine, held: int, free: int) -> Machine:
    """The machine as a new load finds it: `free` bytes now, and `held` ones that the loaded models give back."""
    return replace(machine, free=min(machine.total, free + held) if machine.total else free + held)


def concrete(stock: Stock, plan: LoadPlan) -> LoadPlan:
    """The plan with nothing left to the loader; where nothing fits, the smallest there is."""
    target = stock.side(plan.model)
    if target is None:
        return plan
    plan = replace(plan, force=False, device=stock.machine.device)
    method, partner = drafting(stock, plan)
    draft = partner.side if partner else None
    try:
        choice = settle(plan, target, draft, stock.machine, MAX_WIDTH)
        request, dropped = choice.request, choice.drops_draft
        precision, own, context = request.precision, request.draft_precision, request.context
    except LocalchatError:
        fallback = Precision.NF4
        precision = fallback if plan.precision is Precision.AUTO else plan.precision
        own = fallback if plan.draft_precision is Precision.AUTO else plan.draft_precision
        context, dropped = min(plan.context or LEAST_CONTEXT, _longest(target)), plan.draft == "auto"
    if dropped:
        method, draft = "lookup", None
    name = draft.source.name if draft else ""
    return replace(plan, precision=precision, draft=method, draft_model=name, draft_precision=own, context=context)


def drafting(stock: Stock, plan: LoadPlan) -> tuple[str, Partner | None]:
    """The method and the draft model or head of a plan that may still say "auto" or name one of them as its method."""
    if plan.draft in ALONE:
        return plan.draft, None
    kind = plan.draft if plan.draft in ("model", *HEADS) else ""
    name = plan.draft_model or (plan.draft if plan.draft not in ("auto", *METHODS) else "")
    suiting = (one for one in stock.partners if name in ("", one.side.source.name) and kind in ("", one.kind))
    partner = next(suiting, None)
    return (kind or "mixed", partner) if partner else ("lookup", None)


def estimate(stock: Stock, plan: LoadPlan) -> Estimate:
    """What a concrete plan comes to; its model must be in stock."""
    target = stock.side(plan.model)
    if target is None:
        raise KeyError(plan.model)
    _, partner = drafting(stock, plan)
    request = Request(
        target=target.shape,
        draft=partner.side.shape if partner else None,
        context=plan.context,
        precision=plan.precision,
        draft_precision=plan.draft_precision,
        available=stock.machine.free,
        reserve=default_reserve(stock.machine.total, cuda=stock.machine.cuda),
        rows=MAX_WIDTH,
        repacked=not stock.machine.cuda and repacks(),
    )
    memory, plain = _planned(request), stock.pace.speed(target.shape, plan.precision)
    if partner is None:
        return Estimate(request, memory, plain, plain * (1.0 if plan.draft == "off" else _LOOKUP_GAIN))
    ratio = stock.pace.seconds(partner.side.shape, plan.draft_precision) * plain
    pays = gain(partner.shares or partner.usual, ratio, at_once=partner.at_once)
    return Estimate(request, memory, plain, plain * pays * (_MIXED_GAIN if plan.draft == "mixed" else 1.0), ratio)


def rows(stock: Stock, plan: LoadPlan) -> tuple[Row, ...]:
    """Every row of the settings for a concrete plan."""
    found = [fit_for_me(stock, plan), _row(stock, plan, Key.MODEL, "Model", _models(stock, plan))]
    found.append(_row(stock, plan, Key.PRECISION, "Precision", _precisions(stock, plan)))
    found.append(_row(stock, plan, Key.DRAFT, "Drafting", _drafts(stock, plan)))
    if len(own := _own_sizes(stock, plan)) > 1:
        kept = [(size.value, replace(plan, draft_precision=size)) for size in own]
        found.append(_row(stock, plan, Key.DRAFT_PRECISION, "Draft in", kept))
    found.append(_row(stock, plan, Key.CONTEXT, "Context", _contexts(stock, plan)))
    found.append(_row(stock, plan, Key.MODE, "Mode", _modes(stock, plan)))
    return tuple(found)


def models_only(stock: Stock, plan: LoadPlan) -> tuple[Row, ...]:
    """The one row there is where the plan's own model is not on this machine (any more)."""
    return (_row(stock, plan, Key.MODEL, "Model", _models(stock, plan)),) if stock.sides else ()


def _row(stock: Stock, plan: LoadPlan, key: Key, title: str, choices: list[tuple[str, LoadPlan]]) -> Row:
    items = tuple(Item(label, chosen, estimate(_for(stock, plan, chosen), chosen)) for label, chosen in choices)
    return Row(key, title, items, _place(items, plan))


def _place(items: tuple[Item, ...], plan: LoadPlan) -> int:
    return next((index for index, item in enumerate(items) if same(item.plan, plan)), -1)


def same(one: LoadPlan, other: LoadPlan) -> bool:
    """True if both load the same; how a draft model would be stored matters only where there is one."""
    first, second = (replace(plan, force=False) for plan in (one, other))
    if not first.draft_model and not second.draft_model:
        second = replace(second, draft_precision=first.draft_precision)
    return first == second


def _for(stock: Stock, plan: LoadPlan, chosen: LoadPlan) -> Stock:
    """The stock as another model sees it: who can draft for that one is not known yet."""
    return stock if chosen.model == plan.model else replace(stock, partners=())


def _models(stock: Stock, plan: LoadPlan) -> list[tuple[str, LoadPlan]]:
    """Every model, small to large, as the loader would take it; "auto" drafting stays until its partners are known."""
    found = []
    for side in sorted(stock.sides, key=lambda side: side.shape.parameters):
        if side.source.name == plan.model:
            found.append((side.source.title, plan))
            continue
        if side.source.name == STARTER_DRAFT:  # of no use by itself
            continue
        alone = replace(stock, partners=())
        chosen = concrete(alone, LoadPlan(model=side.source.name, device=plan.device, mode=plan.mode))
        found.append((side.source.title, replace(chosen, draft="auto", draft_precision=Precision.AUTO)))
    return found


def _sizes(stock: Stock, plan: LoadPlan, name: str) -> tuple[Precision, ...]:
    """Precisions a model can be loaded in, best first; the plan's own is always among them."""
    side = stock.side(name)
    half = Precision.BF16 if stock.machine.bf16 else Precision.FP16
    stored = candidates(side.infos if side else (), cuda=False)[0]
    first = (Precision.FP32,) if stored is Precision.FP32 else ()
    eight = (Precision.INT8,) if stock.machine.cuda else ()
    chosen = plan.precision if name == plan.model else plan.draft_precision
    offered = {*first, half, *eight, Precision.NF4, chosen} - {Precision.AUTO}
    return tuple(size for size in (*QUALITY,) if size in offered)


def _own_sizes(stock: Stock, plan: LoadPlan) -> tuple[Precision, ...]:
    """Precisions its draft model can be loaded in; one where there is none, or a head, which has its target's."""
    _, partner = drafting(stock, plan)
    if partner is None:
        return (plan.draft_precision,)
    return (plan.precision,) if partner.side.shape.attached else _sizes(stock, plan, plan.draft_model)


def _precisions(stock: Stock, plan: LoadPlan) -> list[tuple[str, LoadPlan]]:
    found = [(size.value, replace(plan, precision=size)) for size in _sizes(stock, plan, plan.model)]
    return [(label, _possible(stock, chosen)) for label, chosen in found]


def _possible(stock: Stock, plan: LoadPlan) -> LoadPlan:
    """The plan, in a mode that it can keep, and its head as it is stored then."""
    modes, own = [chosen.mode for _, chosen in _modes(stock, plan)], _own_sizes(stock, plan)
    plan = plan if plan.draft_precision in own else replace(plan, draft_precision=own[0])
    return plan if plan.mode in modes else replace(plan, mode=Mode.AUTO)


def _modes(stock: Stock, plan: LoadPlan) -> list[tuple[str, LoadPlan]]:
    """Exact mode is left out where a row's result depends on the rows beside it."""
    side = stock.side(plan.model)
    mixture = side is not None and side.shape.mixture
    modes = [mode for mode in Mode if mode is not Mode.EXACT or not (mixture or plan.precision is Precision.INT8)]
    return [(mode.value, replace(plan, mode=mode)) for mode in modes]


def _drafts(stock: Stock, plan: LoadPlan) -> list[tuple[str, LoadPlan]]:
    own = plan.precision if plan.draft_precision is Precision.AUTO else plan.draft_precision
    bare = replace(plan, draft_model="")
    found = [("none", replace(bare, draft="off")), ("lookup", replace(bare, draft="lookup"))]
    for partner in stock.partners:
        size = plan.precision if partner.side.shape.attached else own
        with_it = replace(plan, draft_model=partner.side.source.name, draft_precision=size)
        found.append((f"{partner.title} + lookup", replace(with_it, draft="mixed")))
        found.append((partner.title, replace(with_it, draft=partner.kind)))
    return found


def _longest(side: Side) -> int:
    return side.shape.max_context or 2**17


def _contexts(stock: Stock, plan: LoadPlan) -> list[tuple[str, LoadPlan]]:
    """Powers of two up to the model's limit, the longest that fits, and the plan's own."""
    side = stock.side(plan.model)
    limit = _longest(side) if side else DEFAULT_CONTEXT
    sizes = {LEAST_CONTEXT << power for power in range(20) if LEAST_CONTEXT << power <= limit}
    reach = estimate(stock, plan).memory.longest_context
    if reach < limit:
        reach = reach // _STEP * _STEP
    sizes |= {limit, plan.context} | ({reach} if reach else set())
    return [(tokens(size), replace(plan, context=size)) for size in sorted(sizes)]


def tokens(count: int) -> str:
    """A context for people: "8k", "6.5k", "512"."""
    return f"{count / 1024:.4g}k" if count >= 1024 else str(count)


FITS = ("fastest", "longest", "most precise")
"""What "fit for me" can aim at."""


def fit_for_me(stock: Stock, plan: LoadPlan) -> Row:
    """The three plans for this model that a machine can be tuned to; fewer where nothing fits."""
    found = [(plan, estimate(stock, plan)) for plan in _combinations(stock, plan)]
    fitting = [(chosen, comes_to) for chosen, comes_to in found if comes_to.memory.fits]
    good = [pair for pair in fitting if pair[0].context >= min(GOOD_CONTEXT, _most(fitting))]

    def fastest(pair: tuple[LoadPlan, Estimate]) -> tuple[float, ...]:
        return (round(pair[1].drafted, 3), _RANK[pair[0].precision], min(pair[0].context, DEFAULT_CONTEXT))

    def longest(pair: tuple[LoadPlan, Estimate]) -> tuple[float, ...]:
        return (pair[0].context, _RANK[pair[0].precision], pair[1].drafted)

    def precise(pair: tuple[LoadPlan, Estimate]) -> tuple[float, ...]:
        own = _RANK.get(pair[0].draft_precision, 0)
        return (_RANK[pair[0].precision], pair[1].drafted, min(pair[0].context, DEFAULT_CONTEXT), own)

    if not good:
        return Row(Key.FIT, "Fit for me", (), -1)
    best = (max(good, key=fastest), max(fitting, key=longest), max(good, key=precise))
    items = tuple(Item(name, *pair) for name, pair in zip(FITS, best, strict=True))
    return Row(Key.FIT, "Fit for me", items, _place(items, plan))


def _most(pairs: list[tuple[LoadPlan, Estimate]]) -> int:
    return max((plan.context for plan, _ in pairs), default=0)


def _combinations(stock: Stock, plan: LoadPlan) -> Iterator[LoadPlan]:
    """Every precision, way of drafting and draft precision, at the usual context and at the longest that fits."""
    side = stock.side(plan.model)
    limit = _longest(side) if side else DEFAULT_CONTEXT
    for _, sized in _precisions(stock, plan):
        for _, way in _drafts(stock, sized):
            for size in _own_sizes(stock, way):
                chosen = replace(way, draft_precision=size, context=min(DEFAULT_CONTEXT, limit))
                reach = estimate(stock, chosen).memory.longest_context
                reach = reach if reach == limit else reach // _STEP * _STEP
                for context in {min(chosen.context, reach), reach}:
                    if context:
                        yield replace(chosen, context=context)


def smaller(stock: Stock, plan: LoadPlan) -> tuple[Item, ...]:
    """Changes that would make a plan fit, cheapest loss first (`memory.cheaper`), as plans."""
    found = []
    for change in cheaper(estimate(stock, plan).request):
        chosen = _changed(plan, change)
        found.append(Item(change.title, chosen, estimate(stock, chosen)))
    return tuple(found)


def _changed(plan: LoadPlan, change: Change) -> LoadPlan:
    request = change.request
    chosen = replace(plan, precision=request.precision, context=request.context, force=False)
    if request.draft is None:
        return replace(chosen, draft="off" if plan.draft == "off" else "lookup", draft_model="")
    return replace(chosen, draft_precision=request.draft_precision)
