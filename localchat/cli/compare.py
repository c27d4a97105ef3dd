"""`localchat compare`: the same prompt and seed, plain and accelerated, one after the other on one device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localchat.cli import answer, engine, options, output, prompt, records

if TYPE_CHECKING:
    from localchat.bench.runner import Pair, Spread
    from localchat.chat.events import Loaded

Words = Annotated[list[str] | None, typer.Argument(metavar="PROMPT", help="What to ask; - reads stdin.")]
Files = Annotated[list[Path] | None, typer.Option("-f", "--file", help="Add a file to the prompt.", show_default=False)]
Repeats = Annotated[int, typer.Option("-n", "--repeats", min=1, help="Times both are run; the median counts.")]


def compare(
    ctx: typer.Context,
    words: Words = None,
    system: options.System = None,
    file: Files = None,
    model: options.Model = None,
    draft: options.Draft = None,
    draft_model: options.DraftModel = None,
    precision: options.Precision = None,
    draft_precision: options.DraftPrecision = None,
    context: options.Context = None,
    device: options.Device = None,
    exact: options.Exact = None,
    seed: options.Seed = None,
    temperature: options.Temperature = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    repetition_penalty: options.RepetitionPenalty = None,
    presence_penalty: options.PresencePenalty = None,
    frequency_penalty: options.FrequencyPenalty = None,
    max_tokens: options.MaxTokens = None,
    stop: options.Stop = None,
    repeats: Repeats = 1,
    profile: options.Profile = None,
    trust_remote_code: options.Trust = False,
    json: options.Json = False,
) -> None:
    """Write one reply plain and accelerated, and show the difference in speed (and that there is none in text)."""
    from localchat.bench import runner
    from localchat.chat.conversation import Conversation

    settings = options.resolve(ctx).settings
    plan = options.load_plan(settings, trust_remote_code=trust_remote_code)
    task = runner.Task("the prompt", Conversation.begin(settings.system).user(prompt.read(words or (), file or ())))
    show = answer.Quiet()
    with show, engine.opened(plan, show) as (backend, loaded):
        trial = runner.Trial((task,), (loaded.plan.draft,), options.reply_options(settings), repeats)
        pairs, results = answer.measured(runner.measure(backend, trial, loaded), show.progress)
    pairs = [pair for pair in pairs if pair.method == loaded.plan.draft]
    speedup = results[-1].speedup
    if json:
        output.emit(_record(loaded, pairs, speedup))
    else:
        _table(loaded, pairs, speedup)


def _table(loaded: Loaded, pairs: list[Pair], speedup: Spread) -> None:
    from localchat.bench.compare import sentence
    from localchat.bench.comparison import telling

    pair = telling(pairs)
    plain, fast = pair.plain.reply, pair.run.reply
    sides = (plain, fast)
    rows = [
        ("speed", *(f"{side.stats.tokens_per_second:.1f} tok/s" for side in sides)),
        ("first token", *(f"{1000 * side.first_token_seconds:.0f} ms" for side in sides)),
        ("decoding", *(f"{side.stats.decode_seconds:.2f} s" for side in sides)),
        ("tokens", *(str(side.stats.tokens) for side in sides)),
        ("tokens per round", *(f"{side.stats.tokens_per_round:.2f}" for side in sides)),
        ("accepted", "", f"{fast.stats.acceptance_rate:.0%} of {fast.stats.drafted} drafted"),
        ("by position", "", " ".join(f"{share:.0%}" for share in fast.stats.acceptance_by_position[:8])),
        ("memory", *(output.gib(side.usage.process) for side in sides)),
    ]
    output.line(fast.text)
    output.table(("", ">plain", f">{fast.drafter}"), rows, f"{loaded.model_name}, seed {fast.sampling.seed}")
    spread = f" ({speedup.low:.2f}-{speedup.high:.2f} in {len(pairs)} runs)" if len(pairs) > 1 else ""
    words = sentence(pair.sameness, plain.text, fast.text, fast.stats.tokens)
    output.line(f"{speedup.median:.2f}× the speed of plain decoding{spread}. {words}")


def _record(loaded: Loaded, pairs: list[Pair], speedup: Spread) -> dict[str, object]:
    from localchat.bench.comparison import telling

    pair = telling(pairs)
    return {
        "model": loaded.model_name,
        "drafter": pair.run.reply.drafter,
        "exact": loaded.exact,
        "seed": pair.run.reply.sampling.seed,
        "repeats": len(pairs),
        "speedup": speedup.median,
        "speedup_range": [speedup.low, speedup.high],
        "identical": pair.sameness.value,
        "first_difference": pair.sameness.position,
        "margin": pair.sameness.margin,
        "plain": records.reply_record(pair.plain.reply),
        "accelerated": records.reply_record(pair.run.reply),
    }


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)
