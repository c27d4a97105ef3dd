"""How many rows forwards and caches have."""

from __future__ import annotations

SPARE_ROWS = 256
"""Cache rows beyond the context (or the window): room for a prefill chunk, a draft's rows and their rollback."""

PREFILL_CHUNK = 256
"""Tokens computed by one prefill forward."""

MAX_WIDTH = 32
"""Most rows of one verification."""

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Rows a small forward may have; others are padded. Kernels are chosen, built and kept per width, so few are better."""


def padded(rows: int) -> int:
    """The next width that `rows` rows fit into; beyond the small ones a multiple of the largest."""
    return next((width for width in WIDTHS if width >= rows), -(-rows // WIDTHS[-1]) * WIDTHS[-1])


def cache_rows(context: int, window: int | None) -> int:
    """Rows one layer's cache preallocates: the whole context, or a ring a sliding window turns in.

    Args:
        context: tokens the conversation may hold.
        window: the layer's sliding window in tokens, or None for full attention.
    """
    return min(context, window or context) + SPARE_ROWS
