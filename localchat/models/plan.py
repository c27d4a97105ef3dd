"""What to load: a value with no torch in it, so that the command line and the screen can build and show it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Precision(StrEnum):
    """How weights are stored."""

    AUTO = "auto"
    NF4 = "nf4"
    INT8 = "int8"
    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"


class Mode(StrEnum):
    """Exact runs every target forward at one fixed width; fast at any (design section 4.6)."""

    AUTO = "auto"
    EXACT = "exact"
    FAST = "fast"


STARTER = "starter"
"""Name of the built-in pair."""

METHODS = ("off", "lookup", "model", "mixed")
"""Drafting methods; any other value of `draft` names a draft model (hub id, folder) and means mixed with it."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A target, a way of drafting and what they may use.

    `draft`: "auto" takes the pair the catalog knows for the target (mixed), or lookup if it knows none.
    `draft_model` is needed when `draft` is "model" or "mixed" and the catalog knows no pair.
    """

    model: str = STARTER
    precision: Precision = Precision.AUTO
    draft: str = "auto"
    draft_model: str = ""
    draft_precision: Precision = Precision.AUTO
    draft_head: int = 0
    """Tokens the draft model scores: the first so many of the vocabulary, which a BPE tokenizer learnt first and so
    sees most. 0: all. A smaller head drafts faster and proposes rare tokens never."""
    context: int = 0
    """Tokens; 0 takes the largest that fits, up to the model's own maximum and 8192."""
    device: str = "auto"
    """"auto", "cpu", "cuda" or "cuda:N"."""
    mode: Mode = Mode.AUTO
    trust_remote_code: bool = False
    force: bool = False
    """Load although the memory plan says that it will not fit."""
