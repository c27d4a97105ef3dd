"""`localchat bench`: how much each way of drafting gives on this machine, by kind of work."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from localchat.cli import answer, engine, options, output
from localchat.errors import UsageError

if TYPE_CHECKING:
    from localchat.bench.categories import Prompt
    from localchat.chat.events import Loaded

Drafters = Annotated[
    list[str] | None,
    typer.Option("--draft", help="lookup, model or mixed; may be repeated. All there are if left out.", metavar="NAME"),
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
    from localchat.bench import compare, comparison, record, report, runner
    from localchat.chat.backend import ReplyOptions
    from localchat.engine.types import Sampling

    settings = replace(options.resolve(ctx).settings, draft="auto")
    plan = options.load_plan(settings, trust_remote_code=trust_remote_code)
    chosen = ReplyOptions(Sampling(temperature=temperature, seed=seed), max_tokens)
    show = answer.Quiet()
    with show, engine.opened(plan, show) as (backend, loaded):
        tasks = tuple(prompt.task for prompt in _prompts(loaded, form, categories))
        trial = runner.Trial(tasks, _methods(loaded, drafters or []), chosen, repeats)
        results = answer.measured(runner.measure(backend, trial, loaded), show.progress)[1]
    whole = comparison.comparison(loaded, trial, results, (), time.time())
    output.table(report.COLUMNS, [report.row(result) for result in results], whole.device)
    if json:
        output.emit(record.record(whole))
    if any(result.sameness.verdict is compare.Verdict.DIFFERENT for result in results):
        output.say("Some replies differ by more than rounding can explain. That is a bug; please report it.")
        raise typer.Exit(1)


def _prompts(loaded: Loaded, form: str, categories: str) -> tuple[Prompt, ...]:
    from localchat.bench.categories import KINDS, Form, choose, form_of

    if form not in ("auto", *Form):
        raise UsageError(f"There is no form {form!r}.", f"Use auto, {', '.join(Form)}.")
    kinds = tuple(kind.strip() for kind in categories.split(",") if kind.strip()) or KINDS
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise UsageError(f"There is no kind of work {unknown[0]!r}.", f"There are: {', '.join(KINDS)}.")
    prompts = choose(form_of(loaded.plan.model) if form == "auto" else Form(form), kinds)
    if not prompts:
        raise UsageError("The starter pair knows none of these kinds of work.", "Use --form chat, or other kinds.")
    return prompts


def _methods(loaded: Loaded, asked: list[str]) -> tuple[str, ...]:
    there = ("lookup", "model", "mixed") if loaded.draft_name else ("lookup",)
    for name in asked:
        if name not in there:
            raise UsageError(f"{name!r} cannot be measured here.", f"There are: {', '.join(there)}.")
    return tuple(asked) or there


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bench)
