"""What a training reports: immutable values, for the command line and for a screen alike."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Stage(StrEnum):
    """What is being done, in words."""

    COLLECTING = "collecting text"
    LOADING = "loading the target"
    WRITING = "letting the target write"
    BEGINNING = "finding where to begin"
    TRAINING = "training"
    JUDGING = "judging"


@dataclass(frozen=True, slots=True)
class Began:
    """What will be trained, and on what."""

    name: str
    kind: str
    target: str
    parameters: int
    """That are trained."""
    texts: int
    tokens: int
    held_out: int
    """Tokens kept apart to judge on."""
    resumed_seconds: float
    """Of training done before an interruption; 0 for a new run."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far a stage has come."""

    stage: Stage
    tokens: int = 0
    """Written, or learnt from, so far."""
    seconds_left: float = 0.0
    """Of the whole training; 0: unknown."""
    loss: float = 0.0
    """Moving average; 0 outside of training."""
    share: float = 0.0
    """Of the stage, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Judged:
    """How it does on text it never saw."""

    seconds: float
    """Of training so far."""
    loss: float
    """Moving average of the training loss: what was learnt from, not the unseen text."""
    acceptance: tuple[tuple[float, ...], ...]
    """By depth and rank: the share of guesses that are the target's choice where all before were."""
    tokens_per_round: float
    speedup: float
    """Predicted on this machine against plain decoding; 1 where drafting would not pay."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user should know; training goes on."""

    text: str


@dataclass(frozen=True, slots=True)
class Paused:
    """Stopped by the user; the same command goes on from here."""

    seconds: float
    """Of training so far."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Trained, kept and offered from now on."""

    name: str
    model: str
    """The target, as the user calls it."""
    folder: Path
    reason: str
    """Why it ended, as a sentence."""
    seconds: float
    tokens: int
    judged: Judged


Event = Began | Step | Judged | Note | Paused | Finished
