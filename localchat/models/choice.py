"""What a plan comes to on this machine: device, precisions, context and draft model, or the reason it cannot be done.

Nothing is loaded here, so the command line and the screen can ask the same question before they commit to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from localchat.errors import FitError, LocalchatError, ModelError, UsageError
from localchat.models.catalog import local_draft, pairs_for
from localchat.models.devices import Machine, computes_bf16
from localchat.models.folders import Source, TensorInfo, check_folder, find_model, tensors
from localchat.models.heads import HeadSide, has_own_layers, is_head, registered
from localchat.models.memory import (
    LEAST_CONTEXT,
    MemoryPlan,
    Request,
    Shape,
    cheaper,
    default_reserve,
    gib,
    plan_memory,
)
from localchat.models.plan import ALONE, HEADS, METHODS, LoadPlan, Precision
from localchat.models.quantization import candidates, repacks

DEFAULT_CONTEXT = 8192
"""Most tokens an automatic context takes."""

GOOD_CONTEXT = 4096
"""An automatic context is cut to this before a lower precision is taken; below it only if nothing else fits."""


@dataclass(frozen=True, slots=True)
class Side:
    """A model that passed every check that needs no weights."""

    source: Source
    shape: Shape
    infos: tuple[TensorInfo, ...]

    @property
    def kind(self) -> str:
        """The drafting method it serves."""
        return "model"


AnySide = Side | HeadSide
"""What can draft: a model or a head."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Precisions, context and draft that were settled on."""

    request: Request
    memory: MemoryPlan
    drops_draft: bool = False


def inspect(source: Source, *, trust_remote_code: bool = False) -> Side:
    """Run every check of a model folder that needs no weights.

    Raises:
        ModelError: it cannot be used; see `folders.check_folder`.
    """
    check_folder(source.folder, trust_remote_code=trust_remote_code)
    return Side(source, Shape.from_folder(source.folder), tensors(source.folder))


def drafting(plan: LoadPlan, target: Side) -> tuple[str, Source | None]:
    """The drafting method, and the draft model or head it needs (see `drafts_by_head`).

    Raises:
        ModelError: what the plan names, or needs, is not on this machine.
    """
    if plan.draft in ALONE:
        return plan.draft, None
    method = plan.draft if plan.draft in METHODS else "mixed"
    name = plan.draft_model or (plan.draft if plan.draft not in (*METHODS, "auto") else "")
    source = find_model(name) if name else _known(plan, target)
    if source is None and plan.draft == "auto":
        return "lookup", None
    if source is None:
        what, hint = "draft model", "Name one (--draft ID or folder), or use --draft lookup."
        if method in HEADS:
            what, hint = f"{method} head", f"Train one: localchat train --kind {method} --target {plan.model}"
        raise ModelError(f"No {what} for {plan.model} is on this machine.", hint)
    return method, source


def _known(plan: LoadPlan, target: Side) -> Source | None:
    """What drafts for a target where the plan names nothing: the known pair, else a head that was made for it."""
    kinds = (plan.draft,) if plan.draft in HEADS else () if plan.draft == "model" else HEADS
    pair = None if plan.draft in HEADS else local_draft(plan.model)
    return pair or next((head.source for head in registered(target) if head.kind in kinds), None)


def drafts_by_head(source: Source, target: Side) -> bool:
    """True if what `drafting` found is a head: its own folder, or the target's with layers that look ahead."""
    return not source.gguf and (
        is_head(source.folder) or (source.folder == target.source.folder and has_own_layers(target))
    )


def check_method(method: str, draft: AnySide) -> None:
    """Refuse a draft model where a head was asked for, and the other way about.

    Raises:
        ModelError: the draft serves another method.
    """
    if method in ("mixed", draft.kind):
        return
    is_a = "a model" if draft.kind == "model" else f"a head of kind {draft.kind}"
    raise ModelError(f"{draft.source.title} is {is_a}, so it cannot draft as {method}.", "Use --draft mixed with it.")


def missing_pair(plan: LoadPlan) -> str:
    """A sentence about a draft model that would suit the target but is not here; empty if none is known."""
    known = pairs_for(plan.model)
    return f"A draft model would make this faster: localchat models pull {known[0].draft}" if known else ""


def choose(
    plan: LoadPlan, target: Side, draft: AnySide | None, device: str, rows: int, memory: tuple[int, int]
) -> Choice:
    """Settle precisions, context and draft on a device with so much memory (free and total bytes); see `settle`.

    Raises:
        UsageError: a context no model of this kind has.
        FitError: nothing fits; the hint lists what would.
    """
    machine = Machine(device, free=memory[0], total=memory[1], bf16=computes_bf16(device))
    return settle(plan, target, draft, machine, rows)


def settle(plan: LoadPlan, target: Side, draft: AnySide | None, machine: Machine, rows: int) -> Choice:
    """Settle precisions, context and draft; the first combination that fits, best precision first.

    A plan that is forced takes what it asks for, fit or no fit.

    Raises:
        UsageError: a context no model of this kind has.
        FitError: nothing fits; the hint lists what would.
    """
    longest = target.shape.max_context
    _check_context(plan.context, longest, target.source.title)
    wanted = plan.context or min(longest or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
    cuda, bf16 = machine.cuda, machine.bf16
    request = Request(
        target=target.shape,
        draft=draft.shape if draft else None,
        context=wanted,
        precision=Precision.BF16,
        draft_precision=Precision.BF16,
        available=machine.free,
        reserve=default_reserve(machine.total, cuda=cuda),
        rows=rows,
        repacked=not cuda and repacks(),
    )
    options = _precisions(plan.precision, target, cuda=cuda, bf16=bf16)
    tried = [
        replace(request, precision=precision, draft_precision=own)
        for precision in options
        for own in _draft_precisions(plan.draft_precision, draft, precision, cuda=cuda, bf16=bf16)
    ]
    if plan.force:
        return Choice(tried[0], plan_memory(tried[0]))
    alone = [replace(asked, draft=None) for asked in tried] if draft and plan.draft == "auto" else []
    for least in (wanted,) if plan.context else (min(GOOD_CONTEXT, wanted), min(LEAST_CONTEXT, wanted)):
        for requests in (tried, alone):
            if found := _best(requests, least):
                return Choice(found, plan_memory(found), drops_draft=requests is alone)
    raise _no_room(tried[-1], target.source.title)


def _check_context(context: int, longest: int, name: str) -> None:
    if context < 0 or 0 < context < 16:
        raise UsageError(f"A context of {context} tokens is too short.", "Use at least 16, or 0 for the largest.")
    if longest and context > longest:
        raise UsageError(
            f"{name} was made for {longest} tokens; a context of {context} is too long.",
            f"Use --context {longest} or less.",
        )


def _precisions(asked: Precision, side: AnySide, *, cuda: bool, bf16: bool) -> tuple[Precision, ...]:
    if asked is Precision.AUTO:
        return candidates(side.infos, cuda=cuda, bf16=bf16)
    return (Precision.FP16,) if asked is Precision.BF16 and not bf16 else (asked,)


def _draft_precisions(
    asked: Precision, draft: AnySide | None, target: Precision, *, cuda: bool, bf16: bool
) -> tuple[Precision, ...]:
    if draft is None or draft.shape.attached:
        return (target,)
    options = _precisions(asked, draft, cuda=cuda, bf16=bf16)
    if asked is Precision.AUTO and target is Precision.NF4 and cuda:
        return (Precision.NF4,)
    return options


def _best(requests: Sequence[Request], least: int) -> Request | None:
    """The first precision that fits: with its whole context if it can, else with the longest of at least `least`."""
    for precision in dict.fromkeys(request.precision for request in requests):
        plans = [(request, plan_memory(request)) for request in requests if request.precision is precision]
        if whole := next((request for request, plan in plans if plan.fits), None):
            return whole
        request, plan = max(plans, key=lambda pair: pair[1].longest_context)
        context = min(plan.longest_context // 256 * 256, request.context)
        if context >= least:
            return replace(request, context=context)
    return None


def _no_room(request: Request, name: str) -> LocalchatError:
    plan = plan_memory(request)
    parts = ", ".join(f"{part} {gib(size)}" for part, size in plan.parts())
    changes = [change.title for change in cheaper(request)]
    return FitError(
        f"{name} needs {gib(plan.total)} with a context of {plan.context} ({parts}); {gib(plan.available)} are free.",
        f"Would fit: {'; or '.join(changes)}." if changes else "Choose a smaller model.",
    )
