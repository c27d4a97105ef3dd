"""Shapes of a draft: depths, ancestors and paths. Host arithmetic on parents; no token is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from localchat.engine.types import ROOT


def depths(parents: Sequence[int]) -> list[int]:
    """Depth of each node; a child of the root has depth 1."""
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent == ROOT else found[parent] + 1)
    return found


def ancestors(parents: Sequence[int], node: int) -> list[int]:
    """The node and all its ancestors, from the root down."""
    path = []
    while node != ROOT:
        path.append(node)
        node = parents[node]
    return path[::-1]


def visible(parents: Sequence[int], width: int) -> list[list[bool]]:
    """Which rows of a verification each row attends to.

    Row 0 is the last emitted token, row i + 1 is node i; rows past the draft are padding, each in a chain of its own
    after the row before it.

    Returns:
        [width][width] booleans.
    """
    seen = [[False] * width for _ in range(width)]
    for row in range(width):
        above = 0 if row == 0 else row - 1 if row > len(parents) else parents[row - 1] + 1
        if row:
            seen[row] = seen[above].copy()
        seen[row][row] = True
    return seen
