"""Results for people: rows of a table."""

from __future__ import annotations

import sys
from importlib import metadata

from localchat.bench.runner import Result

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


def row(result: Result) -> tuple[str, ...]:
    """One line of the table."""
    shares = "/".join(f"{share:.0%}" for share in (result.draft_share, result.verify_share, result.host_share))
    by_position = " ".join(f"{share:.0%}" for share in result.acceptance_by_position[:5])
    same = result.sameness
    text = same.verdict.value + (f" at {same.position} (margin {same.margin:.2g})" if same.margin is not None else "")
    return (
        result.category,
        result.drafter,
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
