"""What plans ask of anything that takes memory and time: a model, or a drafting head beside one. No torch."""

from __future__ import annotations

from typing import Protocol

from localchat.models.plan import Precision

NF4_BLOCK, NF4_NESTED = 64, 256
NF4_BYTES = 0.5 + 1 / NF4_BLOCK + 4 / (NF4_BLOCK * NF4_NESTED)
"""Per parameter: 4 bits, one 8-bit scale per 64, one fp32 scale of scales per 64 * 256 (double quantization)."""
NF4_BYTES_REPACKED = 0.5 + 2 / NF4_BLOCK
"""The same once bitsandbytes has repacked it for CPUs with bf16 instructions: one bf16 scale per 64."""

DRAW_BYTES = 24
"""Per logit of a verified row: its fp32 copy, processed values, noise and sorted indices."""


class Footprint(Protocol):
    """Sizes of a model (`memory.Shape`) or of a drafting head (`head_shape.HeadShape`)."""

    @property
    def attached(self) -> bool:
        """A head: it belongs to one target and is always stored in that target's precision."""
        ...

    @property
    def windows(self) -> tuple[int | None, ...]:
        """Per layer that keeps keys and values: its sliding window in tokens, or None for full attention."""
        ...

    @property
    def vocab(self) -> int:
        """Tokens it scores."""
        ...

    @property
    def max_context(self) -> int:
        """Tokens it can follow; 0: as many as there are."""
        ...

    @property
    def parameters(self) -> int:
        """Parameters that are stored for it."""
        ...

    def weight_bytes(self, precision: Precision, *, repacked: bool = False) -> int:
        """Bytes of the loaded weights; `repacked` as in `memory.Shape`."""
        ...

    def step_bytes(self, precision: Precision) -> float:
        """Bytes that one step reads."""
        ...

    def cache_bytes(self, context: int, precision: Precision) -> int:
        """Bytes of keys and values for `context` tokens."""
        ...

    def activation_bytes(self, context: int, precision: Precision, rows: int) -> int:
        """Peak bytes of scratch memory with `rows` rows of logits."""
        ...


def item_bytes(precision: Precision) -> int:
    """Bytes of an unquantized weight, an activation or a cache entry under a precision."""
    return 4 if precision is Precision.FP32 else 2


def stored_bytes(linear: int, rows: int, rest: int, precision: Precision, *, repacked: bool = False) -> int:
    """Bytes of so many parameters in linear layers with so many output rows, and of `rest` unquantized ones."""
    size = item_bytes(precision)
    if precision is Precision.NF4:
        return int(linear * (NF4_BYTES_REPACKED if repacked else NF4_BYTES)) + rest * size
    if precision is Precision.INT8:
        return linear + 4 * rows + rest * size
    return (linear + rest) * size
