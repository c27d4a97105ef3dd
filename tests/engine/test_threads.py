"""How many threads the engine takes on a CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import cast

import pytest
import torch

from localchat.engine.calibrate import choose_threads
from localchat.engine.target import Target
from localchat.engine.types import Draft


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """As many afterwards as before."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Slow:
    """Takes as long as it is told to with one thread and with more."""

    def __init__(self, one: float, more: float) -> None:
        self.device = torch.device("cpu")
        self.seconds = {True: one, False: more}
        self.calls = 0

    def forward(self, token: int, draft: Draft) -> None:
        """Wait."""
        self.calls += 1
        time.sleep(self.seconds[torch.get_num_threads() == 1])

    def truncate(self, length: int) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize(("one", "more", "chosen"), [(0.004, 0.002, 3), (0.002, 0.004, 1), (0.004, 0.0038, 1)])
def test_more_threads_are_taken_where_they_are_worth_it(one: float, more: float, chosen: int) -> None:
    """Guards small models: their threads wait for each other, and for the screen's core."""
    target = Slow(one, more)
    choose_threads(cast(Target, target), 3)
    assert torch.get_num_threads() == chosen
    assert target.calls


def test_a_gpu_is_not_asked() -> None:
    """Guards against forwards that tell nothing."""
    target = Slow(0.0, 0.0)
    target.device = torch.device("meta")
    choose_threads(cast(Target, target), 3)
    assert not target.calls
