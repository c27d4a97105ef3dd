"""`localchat fit`: will it run here? The same arithmetic that the loader uses, before anything is downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from localchat.cli import options, output
from localchat.errors import FitError, LocalchatError, ModelError

if TYPE_CHECKING:
    from localchat.models.memory import MemoryPlan, Request, Shape
    from localchat.models.plan import Precision

Name = Annotated[str, typer.Argument(metavar="MODEL", help="starter, a hub id, a folder or a GGUF file.")]


@dataclass(frozen=True, slots=True)
class _Question:
    target: Shape
    draft: Shape | None
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
    name = _draft_name(model, settings.draft, settings.draft_model)
    limit = min(target.max_context or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
    draft = shape_of(name) if name else None
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


def _draft_name(model: str, draft: str, draft_model: str) -> str:
    from localchat.models.catalog import local_draft, pairs_for

    if draft in ("off", "lookup"):
        return ""
    if draft not in ("auto", "model", "mixed"):
        return draft
    here = local_draft(model)
    known = [pair.draft for pair in pairs_for(model)]
    return draft_model or (here.name if here else known[0] if known else "")


def _requests(question: _Question, precision: str, draft_precision: str) -> list[Request]:
    from localchat.models.devices import available_memory
    from localchat.models.memory import Request, default_reserve
    from localchat.models.plan import Precision
    from localchat.models.quantization import repacks

    free, total = available_memory(question.device)
    cuda = question.device.startswith("cuda")
    names = ["fp32", "bf16", "nf4"] if precision == "auto" else [precision]

    def drafting(chosen: Precision) -> Precision:
        return chosen if draft_precision == "auto" else Precision(draft_precision)

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
