"""Events and replies as JSON. The names here are a promise to scripts: add to them, never rename."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localchat.chat.events import Event, Reply, Usage
    from localchat.engine.types import GenerationStats

Json = dict[str, object]


def plain(value: object) -> object:
    """Any of our values as JSON types: dataclasses by field, numbers that JSON does not have as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {spec.name: plain(getattr(value, spec.name)) for spec in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def record(value: object) -> Json:
    """A dataclass as a JSON object."""
    content = plain(value)
    if not isinstance(content, dict):
        raise TypeError(f"{type(value).__name__} is no record")
    return content


def usage_record(usage: Usage) -> Json:
    """Measured memory, in bytes."""
    return {f"{spec.name}_bytes": getattr(usage, spec.name) for spec in fields(usage)}


def stats_record(stats: GenerationStats) -> Json:
    """What the rounds of a reply add up to."""
    return {
        "tokens": stats.tokens,
        "rounds": stats.rounds,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "acceptance_rate": stats.acceptance_rate,
        "acceptance_by_position": list(stats.acceptance_by_position),
        "tokens_per_round": stats.tokens_per_round,
        "parked_rounds": stats.parked_rounds,
        "prompt_tokens": stats.prompt_tokens,
        "prefilled": stats.prefilled,
        "prefill_seconds": stats.prefill_seconds,
        "decode_seconds": stats.decode_seconds,
        "draft_seconds": stats.draft_seconds,
        "verify_seconds": stats.verify_seconds,
        "host_seconds": stats.host_seconds,
        "tokens_per_second": stats.tokens_per_second,
        "predicted_speedup": plain(stats.predicted_speedup),
        "min_margin": plain(stats.min_margin),
        "by_source": {name: plain(count) for name, count in stats.by_source},
    }


def reply_record(reply: Reply) -> Json:
    """The object of `ask --json`."""
    return {
        "text": reply.text,
        "token_ids": list(reply.token_ids),
        "finish_reason": reply.finish_reason.value,
        "seed": reply.sampling.seed,
        "model": reply.model,
        "drafter": reply.drafter,
        "accelerated": reply.accelerated,
        "exact": reply.exact,
        "stats": {
            **stats_record(reply.stats),
            "first_token_seconds": reply.first_token_seconds,
            "plain_tokens_per_second": reply.plain_tokens_per_second,
            "speedup": reply.speedup,
            "memory": usage_record(reply.usage),
        },
    }


def event_record(event: Event) -> Json:
    """One line of `ask --jsonl`."""
    from localchat.chat.events import Finished

    kind = type(event).__name__.lower()
    if isinstance(event, Finished):
        return {"type": kind, **reply_record(event.reply)}
    return {"type": kind, **record(event)}
