"""The governor's starting figures, kept per machine, model pair and library version."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from localchat.engine.governor import Timings
from localchat.paths import cache_dir, write_private

_MEANING = "2"
"""What figures mean: draft is seconds per forward of the drafting network."""


def timings_file(parts: Sequence[str]) -> Path:
    """Where the figures of this machine and these parts (device, models, precisions, versions) are kept."""
    machine = (_MEANING, platform.machine(), platform.processor(), str(os.cpu_count()), *parts)
    digest = hashlib.sha256("\n".join(machine).encode()).hexdigest()[:16]
    return cache_dir() / "timings" / f"{digest}.json"


def read_timings(file: Path) -> Timings | None:
    """The kept figures, or None if there are none that can be read."""
    try:
        raw = json.loads(file.read_text())
        verify = tuple((int(width), float(seconds)) for width, seconds in raw["verify"])
        draft, prepare = (tuple((str(name), float(s)) for name, s in raw[part]) for part in ("draft", "prepare"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Timings(verify, draft, prepare) if verify and all(s > 0 for _, s in verify) else None


def keep_timings(file: Path, timings: Timings) -> None:
    """Keep the figures; a full or read-only disk only means measuring again."""
    try:
        write_private(file, json.dumps(asdict(timings)))
    except OSError:
        return


def best(kept: Timings | None, measured: Timings) -> Timings:
    """The faster of both for each figure: another program can only make a measurement slower."""
    if kept is None:
        return measured
    verify, draft, prepare = dict(kept.verify), dict(kept.draft), dict(kept.prepare)
    return Timings(
        tuple((width, min(seconds, verify.get(width, seconds))) for width, seconds in measured.verify),
        tuple((name, min(seconds, draft.get(name, seconds))) for name, seconds in measured.draft),
        tuple((name, min(seconds, prepare.get(name, seconds))) for name, seconds in measured.prepare),
    )
