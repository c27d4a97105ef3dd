"""Batches of conversations of like length, so that little is spent on padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from localchat.models.starter.conversations import Encoded, encode, stream
from localchat.models.starter.tokenizer import PAD_ID

if TYPE_CHECKING:
    from torch import Tensor

POOL = 1024  # Conversations sorted by length at a time.


@dataclass(frozen=True, slots=True)
class Batch:
    """`ids` and `weights` are [rows, length]; weights[r, i] says how much predicting ids[r, i] counts."""

    ids: Tensor
    weights: Tensor


def pad(rows: list[Encoded]) -> Batch:
    """One batch, padded on the right with weight 0."""
    import torch

    length = max(len(row.ids) for row in rows)
    ids = torch.full((len(rows), length), PAD_ID)
    weights = torch.zeros(len(rows), length)
    for at, row in enumerate(rows):
        ids[at, : len(row.ids)] = torch.tensor(row.ids)
        weights[at, : len(row.ids)] = torch.tensor(row.weights)
    return Batch(ids, weights)


def pack(rows: list[Encoded], tokens: int, rng: Random) -> list[list[Encoded]]:
    """Groups of rows of like length with about `tokens` tokens each, in random order."""
    groups: list[list[Encoded]] = []
    current: list[Encoded] = []
    for row in sorted(rows, key=lambda row: len(row.ids)):
        if current and (len(current) + 1) * len(row.ids) > tokens:
            groups.append(current)
            current = []
        current.append(row)
    groups.append(current)
    rng.shuffle(groups)
    return groups


def batches(
    seed: int, start: int, tokens: int, tokenizer: Any, banned: frozenset[str], worker: int = 0, workers: int = 1
) -> Iterator[tuple[int, Batch]]:
    """Endless (number of the next unread conversation, batch) from conversation `start` on.

    Of the batches made from a pool, each worker takes every `workers`-th, and all take equally many.
    """
    talks = stream(seed, start, banned)
    while True:
        pool = [encode(next(talks), tokenizer) for _ in range(POOL)]
        start += POOL
        groups = pack(pool, tokens, Random(f"{seed}/{start}"))
        for group in groups[worker : len(groups) - len(groups) % workers : workers]:
            yield start, pad(group)
