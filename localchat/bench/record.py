"""A comparison as JSON and back. The names are a promise to scripts: add to them, never rename."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from typing import Any

from localchat.bench.compare import Sameness, Verdict
from localchat.bench.comparison import Comparison, Moment, Race, Side
from localchat.bench.runner import Result, Spread
from localchat.engine.types import Sampling

Json = dict[str, Any]


def record(comparison: Comparison) -> Json:
    """The object of `bench --json`, and of an exported comparison; it has no "races" if there are none."""
    races = [_race(race) for race in comparison.races]
    return {
        "created": comparison.created,
        "device": comparison.device,
        "versions": dict(comparison.versions),
        "target": comparison.target,
        "draft_model": comparison.draft_model,
        "precision": comparison.precision,
        "exact": comparison.exact,
        "exact_cost": comparison.exact_cost,
        "settings": {
            **asdict(comparison.sampling),
            "max_tokens": comparison.max_tokens,
            "repeats": comparison.repeats,
        },
        "results": [_result(result) for result in comparison.results],
        **({"races": races} if races else {}),
    }


def read(text: str) -> Comparison:
    """What `record` made, from its JSON text.

    Raises:
        ValueError: it is no such record.
    """
    try:
        return _read(json.loads(text))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no record of a comparison: {error}") from error


def _read(raw: Json) -> Comparison:
    settings = raw["settings"]
    return Comparison(
        created=float(raw["created"]),
        device=raw["device"],
        versions=tuple(raw["versions"].items()),
        target=raw["target"],
        draft_model=raw["draft_model"],
        precision=raw["precision"],
        exact=raw["exact"],
        exact_cost=raw["exact_cost"],
        sampling=Sampling(**{key.name: settings[key.name] for key in fields(Sampling)}),
        max_tokens=settings["max_tokens"],
        repeats=settings["repeats"],
        results=tuple(_read_result(item, raw["draft_model"]) for item in raw["results"]),
        races=tuple(_read_race(item) for item in raw.get("races", ())),
    )


def _result(result: Result) -> Json:
    return {
        "category": result.category,
        "drafter": result.drafter,
        "runs": result.runs,
        "tokens": result.tokens,
        "tokens_per_second": result.tokens_per_second.median,
        "tokens_per_second_range": _range(result.tokens_per_second),
        "speedup": result.speedup.median,
        "speedup_range": _range(result.speedup),
        **_sameness(result.sameness),
        "tokens_per_round": result.tokens_per_round,
        "acceptance_rate": result.acceptance_rate,
        "acceptance_by_position": list(result.acceptance_by_position),
        "ttft_seconds": result.ttft_seconds.median,
        "ttft_seconds_range": _range(result.ttft_seconds),
        "draft_share": result.draft_share,
        "verify_share": result.verify_share,
        "host_share": result.host_share,
        "predicted_speedup": result.predicted_speedup,
        "peak_memory_bytes": result.peak_memory_bytes,
        "draft_model": result.part,
    }


def _read_result(raw: Json, before: str) -> Result:
    """A result; `before` is its draft model where results did not name theirs yet."""
    return Result(
        category=raw["category"],
        drafter=raw["drafter"],
        runs=raw["runs"],
        tokens=raw["tokens"],
        tokens_per_second=Spread(raw["tokens_per_second"], *raw["tokens_per_second_range"]),
        speedup=Spread(raw["speedup"], *raw["speedup_range"]),
        sameness=_read_sameness(raw),
        tokens_per_round=raw["tokens_per_round"],
        acceptance_rate=raw["acceptance_rate"],
        acceptance_by_position=tuple(raw["acceptance_by_position"]),
        ttft_seconds=Spread(raw["ttft_seconds"], *raw["ttft_seconds_range"]),
        draft_share=raw["draft_share"],
        verify_share=raw["verify_share"],
        host_share=raw["host_share"],
        predicted_speedup=raw["predicted_speedup"],
        peak_memory_bytes=raw["peak_memory_bytes"],
        part=raw.get("draft_model", before),
    )


def _range(spread: Spread) -> list[float]:
    return [spread.low, spread.high]


def _sameness(same: Sameness) -> Json:
    margin = same.margin if same.margin is not None and math.isfinite(same.margin) else None
    return {"identical": same.value, "first_difference": same.position, "margin": margin}


def _read_sameness(raw: Json) -> Sameness:
    identical = raw["identical"]
    verdict = Verdict.TIE if identical == "tie" else Verdict.SAME if identical is True else Verdict.DIFFERENT
    return Sameness(verdict, raw["first_difference"], raw["margin"])


def _race(race: Race) -> Json:
    return {
        "category": race.kind,
        "prompt": race.prompt,
        "speedup": race.speedup,
        **_sameness(race.sameness),
        "plain": _side(race.plain),
        "accelerated": _side(race.fast),
    }


def _read_race(raw: Json) -> Race:
    return Race(
        kind=raw["category"],
        prompt=raw["prompt"],
        speedup=raw["speedup"],
        sameness=_read_sameness(raw),
        plain=_read_side(raw["plain"]),
        fast=_read_side(raw["accelerated"]),
    )


def _side(side: Side) -> Json:
    return {
        "drafter": side.drafter,
        "text": side.text,
        "tokens": side.tokens,
        "tokens_per_second": side.tokens_per_second,
        "first_token_seconds": side.first_token_seconds,
        "seconds": side.seconds,
        "tokens_per_round": side.tokens_per_round,
        "drafted": side.drafted,
        "accepted": side.accepted,
        "acceptance_rate": side.acceptance_rate,
        "acceptance_by_position": list(side.acceptance_by_position),
        "memory_bytes": side.memory_bytes,
        "draft_bytes": side.draft_bytes,
        "moments": [[m.seconds, m.text, m.tokens, m.accepted] for m in side.moments],
    }


def _read_side(raw: Json) -> Side:
    return Side(
        drafter=raw["drafter"],
        moments=tuple(Moment(*moment) for moment in raw["moments"]),
        tokens=raw["tokens"],
        tokens_per_second=raw["tokens_per_second"],
        first_token_seconds=raw["first_token_seconds"],
        tokens_per_round=raw["tokens_per_round"],
        drafted=raw["drafted"],
        accepted=raw["accepted"],
        acceptance_by_position=tuple(raw["acceptance_by_position"]),
        memory_bytes=raw["memory_bytes"],
        draft_bytes=raw["draft_bytes"],
    )
