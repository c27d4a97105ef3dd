"""`localchat fit`: will it run here? The same arithmetic that the loader uses, before anything is downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from localchat.cli import options, output
from localchat.errors import FitError, LocalchatError, ModelError

if TYPE_CHECKING:
    from localchat.models.choice import Side
    from localchat.models.footprint import Footprint
    from localchat.models.memory import MemoryPlan, Request, Shape
    from localchat.models.plan import Precision

Name = Annotated[str, typer.Argument(metavar="MODEL", help="starter, a hub id, a folder or a GGUF file.")]


@dataclass(frozen=True, slots=True)
class _Question:
    target: Shape
    draft: Footprint | None
    draft_name: str
    device: str
    context: int


def fit(
    ctx: typer.Context,
    model: Name,
    draft: options.Draft = None,
    draft_model: options.DraftModel = None,
    context: options.Context = None,
    precision: options.Precision = None,
    draft_precision: options.DraftPrecision = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Say whether MODEL fits in memory, at each precision, and what to change if not. Exit code 3 if it does not."""
    from localchat.models.memory import cheaper, plan_memory

    question = _question(ctx, model)
    requests = _requests(question, precision or "auto", draft_precision or "auto")
    plans = [plan_memory(request) for request in requests]
    changes = [] if any(plan.fits for plan in plans) else [change.title for change in cheaper(requests[-1])]
    if json:
        output.emit(_record(model, question, plans, changes))
    else:
        _table(model, question, plans, changes)
    if not any(plan.fits for plan in plans):
        raise typer.Exit(FitError.exit_code)


def _question(ctx: typer.Context, model: str) -> _Question:
    from localchat.models.choice import DEFAULT_CONTEXT
    from localchat.models.devices import resolve_device

    settings = options.resolve(ctx).settings
    target = shape_of(model)
    side = _here(model)
    name = _draft_name(model, side, settings.draft, settings.draft_model)
    limit = min(target.max_context or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
    draft = _draft_shape(name, side) if name else None
    return _Question(target, draft, name, resolve_device(settings.device), settings.context or limit)


def shape_of(model: str) -> Shape:
    """The shape of a model on this machine, or of one that the catalog knows.

    Raises:
        ModelError: neither.
    """
    from localchat.models.catalog import describe, spec_for
    from localchat.models.folders import find_model

    try:
        found = describe(find_model(model))
    except LocalchatError:
        spec = spec_for(model)
        if spec is None:
            raise
        return spec.shape
    if found.shape is not None:
        return found.shape
    spec = spec_for(model)
    if spec is None:
        problem = found.problem or f"The shape of {model} is only known once it is unpacked."
        raise ModelError(problem, "Name the model's folder or its hub id.")
    return spec.shape


def _draft_name(model: str, side: Side | None, draft: str, draft_model: str) -> str:
    """The draft model or head that a way of drafting means; of known pairs also one that is not here yet.

    Raises:
        ModelError: what was asked for is not here.
    """
    from localchat.models.catalog import pairs_for
    from localchat.models.choice import drafting
    from localchat.models.plan import ALONE, HEADS, METHODS, LoadPlan

    if draft in ALONE:
        return ""
    if name := draft_model or (draft if draft not in (*METHODS, "auto") else ""):
        return name
    known = [pair.draft for pair in pairs_for(model)] if draft not in HEADS else []
    try:
        source = drafting(LoadPlan(model=model, draft=draft), side)[1] if side else None
    except ModelError:
        if not known:
            raise
        source = None
    if source is None and draft in HEADS:
        raise ModelError(f"{model} is not here, nor is a head for it known.", "Name one: --draft-model ID or folder.")
    return source.name if source else next(iter(known), "")


def _here(model: str) -> Side | None:
    """A model with all its files, to find its heads by; None if it is not here, or a GGUF file."""
    from localchat.models.choice import inspect
    from localchat.models.folders import find_model

    try:
        source = find_model(model)
        return None if source.gguf else inspect(source)
    except LocalchatError:
        return None


def _draft_shape(name: str, target: Side | None) -> Footprint:
    """What a draft model takes, or a head beside its target."""
    from localchat.models.choice import drafts_by_head
    from localchat.models.folders import find_model
    from localchat.models.heads import is_head, read_head

    try:
        source = find_model(name)
    except LocalchatError:
        return shape_of(name)
    by_head = drafts_by_head(source, target) if target else not source.gguf and is_head(source.folder)
    return read_head(source, target).shape if by_head else shape_of(name)


def _requests(question: _Question, precision: str, draft_precision: str) -> list[Request]:
    from localchat.models.devices import available_memory
    from localchat.models.memory import Request, default_reserve
    from localchat.models.plan import Precision
    from localchat.models.quantization import repacks

    free, total = available_memory(question.device)
    cuda = question.device.startswith("cuda")
    names = ["fp32", "bf16", "nf4"] if precision == "auto" else [precision]

    def drafting(chosen: Precision) -> Precision:
        as_target = draft_precision == "auto" or (question.draft is not None and question.draft.attached)
        return chosen if as_target else Precision(draft_precision)

    return [
        Request(
            target=question.target,
            draft=question.draft,
            context=question.context,
            precision=chosen,
            draft_precision=drafting(chosen),
            available=free,
            reserve=default_reserve(total, cuda=cuda),
            repacked=not cuda and repacks(),
        )
        for chosen in map(Precision, names)
    ]


def _table(model: str, question: _Question, plans: list[MemoryPlan], changes: list[str]) -> None:
    names = dict.fromkeys(part for plan in plans for part, _ in plan.parts())
    rows = [(part, *(output.gib(dict(plan.parts()).get(part, 0)) for plan in plans)) for part in names]
    rows += [
        ("total", *(output.gib(plan.total) for plan in plans)),
        ("available", *(output.gib(plan.available) for plan in plans)),
        ("", *("fits" if plan.fits else f"{output.gib(plan.shortfall)} missing" for plan in plans)),
        ("longest context", *(str(plan.longest_context) for plan in plans)),
    ]
    draft = f", draft {question.draft_name}" if question.draft_name else ", no draft model"
    title = f"{model}{draft}, context {question.context}, {question.device}"
    output.table(("", *(f">{plan.precision}" for plan in plans)), rows, title)
    for change in changes:
        output.line(f"Would fit: {change}.")
    if not changes and not any(plan.fits for plan in plans):
        output.line("Nothing makes it fit; choose a smaller model.")


def _record(model: str, question: _Question, plans: list[MemoryPlan], changes: list[str]) -> dict[str, object]:
    return {
        "model": model,
        "draft": question.draft_name,
        "device": question.device,
        "context": question.context,
        "plans": [
            {
                "precision": plan.precision,
                "draft_precision": plan.draft_precision,
                "fits": plan.fits,
                "total_bytes": plan.total,
                "available_bytes": plan.available,
                "longest_context": plan.longest_context,
                **{f"{part.replace(' ', '_')}_bytes": size for part, size in plan.parts()},
            }
            for plan in plans
        ],
        "would_fit": changes,
    }


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fit)
