"""The options that commands share. Each is named after a key of the settings, so one look-up finds what was typed."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localchat import config, paths
from localchat.config import File, Resolved, Settings

if TYPE_CHECKING:
    from localchat.chat.backend import ReplyOptions
    from localchat.models.plan import LoadPlan


def _option(key: str, *names: str) -> Any:
    limits = config.RULES[key]
    allowed = ", ".join(limits.choices) or limits.bounds()
    flags = names or (f"--{key.replace('_', '-')}",)
    return typer.Option(*flags, help=limits.meaning + (f" [{allowed}]" if allowed else ""), show_default=False)


Profile = Annotated[str | None, typer.Option("--profile", help="A profile of the config file.", show_default=False)]
Model = Annotated[str | None, _option("model", "-m", "--model")]
Draft = Annotated[str | None, _option("draft")]
DraftModel = Annotated[str | None, _option("draft_model")]
Precision = Annotated[str | None, _option("precision")]
DraftPrecision = Annotated[str | None, _option("draft_precision")]
Context = Annotated[int | None, _option("context")]
Device = Annotated[str | None, _option("device")]
Exact = Annotated[bool | None, _option("mode", "--exact/--fast")]
Trust = Annotated[
    bool, typer.Option("--trust-remote-code", help="Let this model run the code it comes with.", show_default=False)
]
Accelerate = Annotated[bool | None, _option("accelerate", "--accel/--no-accel")]
System = Annotated[str | None, _option("system", "-s", "--system")]
Temperature = Annotated[float | None, _option("temperature")]
TopK = Annotated[int | None, _option("top_k")]
TopP = Annotated[float | None, _option("top_p")]
MinP = Annotated[float | None, _option("min_p")]
RepetitionPenalty = Annotated[float | None, _option("repetition_penalty")]
PresencePenalty = Annotated[float | None, _option("presence_penalty")]
FrequencyPenalty = Annotated[float | None, _option("frequency_penalty")]
Seed = Annotated[int | None, _option("seed")]
MaxTokens = Annotated[int | None, _option("max_tokens")]
Stop = Annotated[list[str] | None, _option("stop")]
Theme = Annotated[str | None, _option("theme")]
Mouse = Annotated[bool | None, _option("mouse", "--mouse/--no-mouse")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)]


def typed(ctx: typer.Context) -> dict[str, object]:
    """What was typed, by key."""
    values = {key: value for key, value in ctx.params.items() if key in config.RULES and value not in (None, [], ())}
    exact = ctx.params.get("exact")
    return values if exact is None else {**values, "mode": "exact" if exact else "fast"}


def resolve(ctx: typer.Context) -> Resolved:
    """The settings of this run.

    Raises:
        UsageError: the config file, the environment or an option has a value that is not allowed.
    """
    return resolve_with(ctx, config.read(paths.config_file()))


def resolve_with(ctx: typer.Context, file: File) -> Resolved:
    """The settings of this run by a config file that was read.

    Raises:
        UsageError: the environment or an option has a value that is not allowed.
    """
    return config.resolve(file, os.environ, typed(ctx), ctx.params.get("profile") or "")


def load_plan(settings: Settings, *, trust_remote_code: bool = False) -> LoadPlan:
    """What to load.

    Raises:
        UsageError: a device that does not exist.
    """
    from localchat.chat import setup
    from localchat.models.devices import check_device

    check_device(settings.device)
    return setup.load_plan(settings, trust_remote_code=trust_remote_code)


def reply_options(settings: Settings) -> ReplyOptions:
    """How to reply; a seed is drawn if none was given, and reported with the reply."""
    from localchat.chat import setup
    from localchat.chat.backend import ReplyOptions

    seed = settings.seed if settings.seed >= 0 else secrets.randbelow(2**31)
    return ReplyOptions(setup.sampling(settings, seed), settings.max_tokens, settings.stop, settings.accelerate)
