"""`localchat bench`: how much each way of drafting gives on this machine, by kind of work."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from localchat.cli import answer, engine, options, output
from localchat.errors import FitError, ModelError, UsageError

if TYPE_CHECKING:
    from localchat.bench.categories import Prompt
    from localchat.bench.comparison import Comparison
    from localchat.bench.runner import Trial
    from localchat.models.plan import LoadPlan
    from localchat.models.stock import Part

Drafters = Annotated[
    list[str] | None,
    typer.Option(
        "--draft",
        help="lookup, model, medusa, eagle, mtp, mixed, or a draft model or head by name; may be repeated. "
        "All there are if left out.",
        metavar="NAME",
    ),
]
Categories = Annotated[
    str, typer.Option(help='Kinds of work, separated by commas, such as "story,summary"; all if left out.')
]
Form = Annotated[str, typer.Option(help="Prompts for chat models, for base models (completion) or guide; or auto.")]
Repeats = Annotated[int, typer.Option("-n", "--repeats", min=1, help="Times every prompt is asked.")]


def bench(
    ctx: typer.Context,
    model: options.Model = None,
    drafters: Drafters = None,
    draft_model: options.DraftModel = None,
    categories: Categories = "",
    form: Form = "auto",
    repeats: Repeats = 3,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest reply in tokens.")] = 128,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The same for every reply.")] = 0,
    precision: options.Precision = None,
    draft_precision: options.DraftPrecision = None,
    context: options.Context = None,
    device: options.Device = None,
    exact: options.Exact = None,
    profile: options.Profile = None,
    trust_remote_code: options.Trust = False,
    json: options.Json = False,
) -> None:
    """Measure every way of drafting beside plain decoding. With --json, the last line is one JSON object."""
    from localchat.bench import compare, comparison, record, report
    from localchat.bench.runner import Trial
    from localchat.chat.backend import ReplyOptions
    from localchat.engine.types import Sampling

    settings = replace(options.resolve(ctx).settings, draft="auto")
    plan = options.load_plan(settings, trust_remote_code=trust_remote_code)
    tasks = tuple(prompt.task for prompt in _prompts(plan.model, form, categories))
    trial = Trial(tasks, (), ReplyOptions(Sampling(temperature=temperature, seed=seed), max_tokens), repeats)
    whole = comparison.together(_measured(_loads(plan, drafters or []), trial, strict=bool(drafters)))
    output.table(report.COLUMNS, report.rows(whole.results), whole.device)
    output.table(*report.matrix(whole.results), "Times the speed of plain decoding:")
    if json:
        output.emit(record.record(whole))
    if any(result.sameness.verdict is compare.Verdict.DIFFERENT for result in whole.results):
        output.say("Some replies differ by more than rounding can explain. That is a bug; please report it.")
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Load:
    """One load, and what is measured with it."""

    plan: LoadPlan
    drafters: tuple[str, ...]


def _loads(plan: LoadPlan, asked: list[str]) -> list[_Load]:
    """A load for each draft model and head; lookup is measured with the first of them.

    Raises:
        UsageError: something was asked for that is not there.
    """
    from localchat.models.plan import METHODS

    ways = {name for name in asked if name in METHODS}
    named = [name for name in asked if name not in METHODS]
    there = _parts(plan, named or list(filter(None, (plan.draft_model,))))
    known = ("lookup", *dict.fromkeys(part.kind for part in there), *(("mixed",) if there else ()))
    if unknown := [name for name in ways if name not in known]:
        raise UsageError(f"{unknown[0]!r} cannot be measured here.", f"There are: {', '.join(known)}.")
    kinds = ways - {"lookup"}
    loads = []
    for part in there if kinds or named or not asked else ():
        drafters = tuple(way for way in (part.kind, "mixed") if way in kinds or not kinds)
        loads += [_Load(replace(plan, draft="mixed", draft_model=part.name), drafters)] if drafters else []
    if "lookup" in ways or not asked:
        first = loads[0] if loads else _Load(replace(plan, draft="lookup", draft_model=""), ())
        loads[:1] = [replace(first, drafters=("lookup", *first.drafters))]
    return loads


def _parts(plan: LoadPlan, names: list[str]) -> tuple[Part, ...]:
    from localchat.models.stock import parts

    try:
        return parts(plan.model, names, trust=plan.trust_remote_code)
    except ModelError as error:
        if not names:
            raise
        raise UsageError(f"{names[0]!r} cannot be measured here: {error.message}", error.hint) from error


def _measured(loads: list[_Load], trial: Trial, *, strict: bool) -> list[Comparison]:
    """Load by load, each with plain decoding beside it; all in the precision and the mode of the first.

    A part that was not asked for and cannot be loaded is left out with a remark, unless it is the first.
    """
    from localchat.bench import comparison, runner

    wholes: list[Comparison] = []
    precision, mode = loads[0].plan.precision, loads[0].plan.mode
    for load in loads:
        show, own = answer.Quiet(), replace(trial, drafters=load.drafters)
        try:
            with show, engine.opened(replace(load.plan, precision=precision, mode=mode), show) as (backend, loaded):
                results = answer.measured(runner.measure(backend, own, loaded), show.progress)[1]
        except (FitError, ModelError) as error:
            if strict or not wholes:
                raise
            output.say(f"Note: {load.plan.draft_model} is left out: {error.message}")
            continue
        precision, mode = loaded.plan.precision, loaded.plan.mode
        wholes.append(comparison.comparison(loaded, own, results, (), time.time()))
    return wholes


def _prompts(model: str, form: str, categories: str) -> tuple[Prompt, ...]:
    from localchat.bench.categories import KINDS, Form, choose, form_of

    if form not in ("auto", *Form):
        raise UsageError(f"There is no form {form!r}.", f"Use auto, {', '.join(Form)}.")
    kinds = tuple(kind.strip() for kind in categories.split(",") if kind.strip()) or KINDS
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise UsageError(f"There is no kind of work {unknown[0]!r}.", f"There are: {', '.join(KINDS)}.")
    prompts = choose(form_of(model) if form == "auto" else Form(form), kinds)
    if not prompts:
        raise UsageError("The starter pair knows none of these kinds of work.", "Use --form chat, or other kinds.")
    return prompts


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bench)
