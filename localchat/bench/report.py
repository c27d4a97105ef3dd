"""Results for people: rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata

from localchat.bench.runner import OFF, Result, Spread

COLUMNS = (
    "kind",
    "drafter",
    ">tok/s",
    ">speedup",
    ">range",
    ">n",
    "same text",
    ">tok/round",
    ">accepted",
    "by position",
    ">first token",
    "draft/verify/host",
    ">predicted",
    ">memory",
)


def rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The table: kind by kind, plain once, though it was measured beside every draft model anew."""
    plain = {result.category: result for result in reversed(results) if result.drafter == OFF}
    shown = [result for result in results if result.drafter != OFF or plain[result.category] is result]
    return [_row(result, name(result, results)) for result in shown]


def name(result: Result, results: Sequence[Result]) -> str:
    """How it was drafted, with the draft model's name where there are several."""
    several = len({other.part for other in results}) > 1
    return f"{result.drafter} · {result.part}" if several and result.uses_part else result.drafter


def matrix(results: Sequence[Result]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows of a small table: speed against plain by kind (down) and by way of drafting (across)."""
    drafted = [result for result in results if result.drafter != OFF]
    ways = tuple(dict.fromkeys(name(result, results) for result in drafted))
    kinds = tuple(dict.fromkeys(result.category for result in drafted))
    speeds = {(result.category, name(result, results)): result.speedup.median for result in drafted}
    lines = [(kind, *(f"{speeds[kind, way]:.2f}×" for way in ways)) for kind in kinds]
    if len(kinds) > 1:
        medians = [Spread.of([speeds[kind, way] for kind in kinds]).median for way in ways]
        lines.append(("median", *(f"{value:.2f}×" for value in medians)))
    return ("kind", *(f">{way}" for way in ways)), lines


def _row(result: Result, way: str) -> tuple[str, ...]:
    """One line of the table."""
    shares = "/".join(f"{share:.0%}" for share in (result.draft_share, result.verify_share, result.host_share))
    by_position = " ".join(f"{share:.0%}" for share in result.acceptance_by_position[:5])
    same = result.sameness
    text = same.verdict.value + (f" at {same.position} (margin {same.margin:.2g})" if same.margin is not None else "")
    return (
        result.category,
        way,
        f"{result.tokens_per_second.median:.1f}",
        f"{result.speedup.median:.2f}×",
        f"{result.speedup.low:.2f}-{result.speedup.high:.2f}",
        str(result.runs),
        text,
        f"{result.tokens_per_round:.2f}",
        f"{result.acceptance_rate:.0%}",
        by_position,
        f"{1000 * result.ttft_seconds.median:.0f} ms",
        shares,
        f"{result.predicted_speedup:.2f}×",
        f"{result.peak_memory_bytes / 2**30:.2f} GiB",
    )


def versions() -> dict[str, str]:
    """Versions that a speed depends on."""
    packages = ("localchat", "torch", "transformers", "bitsandbytes")
    return {"python": sys.version.split()[0], **{name: version(name) for name in packages}}


def version(package: str) -> str:
    """A package's version; "missing" if it is not installed, localchat's own if it runs from its source tree."""
    from localchat import __version__

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return __version__ if package == "localchat" else "missing"
