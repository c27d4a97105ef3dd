"""Classes that say how sure a drafter was of a token: what it was sure of is a better guide than where it stands."""

from __future__ import annotations

from bisect import bisect

SURE = 256
"""The first of these classes; those below belong to the sources."""
_EDGES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 1.0)


def sureness(chance: float) -> int:
    """Class of a token that its drafter gave this chance; what is not a number is no chance at all."""
    return SURE - 1 + bisect(_EDGES, chance, hi=len(_EDGES) - 1) if chance > 0.0 else SURE


def middle(kind: int) -> float:
    """The middle of the chances that share a class."""
    return (_EDGES[kind - SURE] + _EDGES[kind - SURE + 1]) / 2
