"""`localchat ask`: one question, one reply."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localchat.cli import answer, engine, interrupt, options, output, prompt
from localchat.errors import UsageError

if TYPE_CHECKING:
    from localchat.config import Settings
    from localchat.models.plan import LoadPlan

Words = Annotated[list[str] | None, typer.Argument(metavar="PROMPT", help="What to ask; - reads stdin.")]
Files = Annotated[list[Path] | None, typer.Option("-f", "--file", help="Add a file to the prompt.", show_default=False)]
JsonLines = Annotated[bool, typer.Option("--jsonl", help="Print one event a line as JSON.", show_default=False)]
Stats = Annotated[bool, typer.Option("--stats", help="Say on stderr how fast it was.", show_default=False)]


def ask(
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
    accelerate: options.Accelerate = None,
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
    profile: options.Profile = None,
    trust_remote_code: options.Trust = False,
    json: options.Json = False,
    jsonl: JsonLines = False,
    stats: Stats = False,
) -> None:
    """Ask one question. The answer goes to stdout, everything else to stderr."""
    if json and jsonl:
        raise UsageError("--json and --jsonl exclude each other.", "Choose one.")
    settings = options.resolve(ctx).settings
    plan = options.load_plan(settings, trust_remote_code=trust_remote_code)
    text = prompt.read(words or (), file or ())
    printer = answer.OneObject if json else answer.Lines if jsonl else answer.Text
    _answer(printer(), text, settings, plan, stats=stats)


def _answer(show: answer.Printer, text: str, settings: Settings, plan: LoadPlan, *, stats: bool) -> None:
    from localchat.bench import hear
    from localchat.chat.conversation import Conversation
    from localchat.engine.types import StopReason

    conversation = Conversation.begin(settings.system).user(text)
    with show, engine.opened(plan, show) as (backend, _), interrupt.cancelling(backend):
        reply = hear.reply(backend, conversation, options.reply_options(settings), show).reply
    if stats:
        output.say(answer.summary(reply))
    if reply.finish_reason is StopReason.CANCELLED:
        raise KeyboardInterrupt


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(ask)
