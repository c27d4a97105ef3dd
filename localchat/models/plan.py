"""What to load: a value with no torch in it, so that the command line and the screen can build and show it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from localchat.engine.drafters import DRAFTERS


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

HEADS = tuple(entry.needs_head for entry in DRAFTERS.values() if entry.needs_head)
"""Kinds of drafting heads: networks that read the target's own hidden states."""

METHODS = tuple(DRAFTERS)
"""Drafting methods; any other value of `draft` names a draft model or a head (hub id, folder, name of a trained one)
and means mixed with it."""

ALONE = tuple(name for name, entry in DRAFTERS.items() if entry.alone)
"""Those that need neither."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A target, a way of drafting and what they may use.

    `draft`: "auto" takes the pair the catalog knows for the target (mixed), else a head that was made for it (mixed),
    else lookup. `draft_model` names a model or a head; without it, "model" and "mixed" take the known pair (mixed also
    a head), and a kind of head takes the first of that kind made for the target. The target's own name stands for the
    layers in its own files that predict further tokens (mtp).
    """

    model: str = STARTER
    precision: Precision = Precision.AUTO
    draft: str = "auto"
    draft_model: str = ""
    draft_precision: Precision = Precision.AUTO
    """Of a draft model; a head is stored as its target is."""
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
