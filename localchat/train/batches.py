"""Batches of rows of equal length, in an order that depends on a seed alone, so that a training can go on anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random

Row = tuple[int, ...]


class Batches:
    """An endless list of batches: each pass over the rows in another order.

    Args:
        rows: token ids.
        tokens: most tokens of a batch (a single row may have more).
        seed: another one gives another order.
    """

    def __init__(self, rows: Sequence[Row], tokens: int, seed: int) -> None:
        self._rows, self._tokens, self._seed = rows, tokens, seed
        self._pass = lru_cache(maxsize=2)(self._shuffled)
        self.count = len(self._shuffled(0))
        """Batches of a pass over all rows."""

    def __getitem__(self, number: int) -> list[Row]:
        """Batch number 0, 1, 2, ... without end."""
        return self._pass(number // self.count)[number % self.count]

    def _shuffled(self, number: int) -> list[list[Row]]:
        random = Random(f"{self._seed}/{number}")
        rows = list(self._rows)
        random.shuffle(rows)
        batches = grouped(rows, self._tokens)
        random.shuffle(batches)
        return batches


def grouped(rows: Sequence[Row], tokens: int) -> list[list[Row]]:
    """Rows of equal length together, in batches of about so many tokens."""
    found: list[list[Row]] = []
    for row in sorted(rows, key=len):
        last = found[-1] if found else []
        if last and len(last[0]) == len(row) and (len(last) + 1) * len(row) <= tokens:
            last.append(row)
        else:
            found.append([row])
    return found
