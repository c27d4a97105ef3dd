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


def pruned(parents: Sequence[int], keep: Sequence[int]) -> tuple[int, ...]:
    """Parents of the nodes that are kept (ascending, each with its ancestors), as places among these."""
    place = {node: at for at, node in enumerate((ROOT, *keep), start=ROOT)}
    return tuple(place[parents[node]] for node in keep)


def visible(parents: Sequence[int]) -> list[list[bool]]:
    """Which of these rows each row attends to: its ancestors and itself, [rows][rows] booleans."""
    seen: list[list[bool]] = []
    for row, parent in enumerate(parents):
        seen.append([False] * len(parents) if parent == ROOT else seen[parent].copy())
        seen[row][row] = True
    return seen
