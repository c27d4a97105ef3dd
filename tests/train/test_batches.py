"""The order of batches."""

from __future__ import annotations

from localchat.train.batches import Batches, grouped
from tests.train.support import rows


def test_batches_hold_rows_of_one_length() -> None:
    """Guards against ragged tensors, and against batches beyond the memory they were meant for."""
    many = [*rows(20, 16), *rows(9, 24), *rows(1, 200)]
    batches = grouped(many, 96)
    assert sorted(row for batch in batches for row in batch) == sorted(many)
    for batch in batches:
        assert len({len(row) for row in batch}) == 1
        assert len(batch) * len(batch[0]) <= 96 or len(batch) == 1


def test_each_pass_sees_every_row_once_in_an_order_of_its_own() -> None:
    """Guards against rows that are never learnt, and against the same order each time."""
    batches = Batches(rows(), 64, seed=3)
    passes = [[batches[number + start] for number in range(batches.count)] for start in (0, batches.count)]
    for one in passes:
        assert sorted(row for batch in one for row in batch) == sorted(rows())
    assert passes[0] != passes[1]


def test_any_place_can_be_gone_on_from() -> None:
    """Guards against another order after a resumption."""
    whole = [Batches(rows(), 64, seed=3)[number] for number in range(40)]
    fresh = Batches(rows(), 64, seed=3)
    assert [fresh[number] for number in range(17, 40)] == whole[17:]
    assert [Batches(rows(), 64, seed=4)[number] for number in range(40)] != whole
