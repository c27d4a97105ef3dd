"""Results for people (rows of a table) and for scripts (one JSON object; its names are a promise)."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from localchat.bench.runner import Result, Spread
from localchat.chat.events import Loaded

COLUMNS = (
    "kind",
    "drafter",
    ">tok/s",
    ">speedup",
    ">range",
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
        text,
        f"{result.tokens_per_round:.2f}",
        f"{result.acceptance_rate:.0%}",
        by_position,
        f"{1000 * result.ttft_seconds.median:.0f} ms",
        shares,
        f"{result.predicted_speedup:.2f}×",
        f"{result.peak_memory_bytes / 2**30:.2f} GiB",
    )


def record(results: Sequence[Result], loaded: Loaded, settings: dict[str, object]) -> dict[str, object]:
    """The object of `bench --json`.

    Args:
        results: in the order they were measured.
        loaded: what they were measured on.
        settings: how: temperature, seed, repeats and the like.
    """
    plan = loaded.plan
    return {
        "device": device(plan.device),
        "versions": versions(),
        "target": loaded.model_name,
        "draft_model": loaded.draft_name,
        "precision": plan.precision.value,
        "exact": loaded.exact,
        "exact_cost": loaded.exact_cost,
        "settings": settings,
        "results": [_result(result) for result in results],
    }


def _result(result: Result) -> dict[str, object]:
    return {
        "category": result.category,
        "drafter": result.drafter,
        "tokens": result.tokens,
        "tokens_per_second": result.tokens_per_second.median,
        "tokens_per_second_range": _range(result.tokens_per_second),
        "speedup": result.speedup.median,
        "speedup_range": _range(result.speedup),
        "identical": result.sameness.value,
        "first_difference": result.sameness.position,
        "margin": result.sameness.margin,
        "tokens_per_round": result.tokens_per_round,
        "acceptance_rate": result.acceptance_rate,
        "acceptance_by_position": list(result.acceptance_by_position),
        "ttft_seconds": result.ttft_seconds.median,
        "draft_share": result.draft_share,
        "verify_share": result.verify_share,
        "host_share": result.host_share,
        "predicted_speedup": result.predicted_speedup,
        "peak_memory_bytes": result.peak_memory_bytes,
    }


def _range(spread: Spread) -> list[float]:
    return [spread.low, spread.high]


def device(name: str) -> str:
    """A device's name and make, such as "cpu (Xeon ..., 2 threads)"."""
    import torch

    if name.startswith("cuda"):
        return f"{name} ({torch.cuda.get_device_name(name)})"
    return f"{name} ({_processor()}, {torch.get_num_threads()} threads)"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


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
