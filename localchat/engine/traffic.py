"""The only ways between host and device: up without waiting, down once per round."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import torch
from torch import Tensor


def upload(values: Sequence[Any], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """A small tensor on the device; torch's own `tensor(..., device=...)` would wait for the device to be idle."""
    return torch.tensor(values, dtype=dtype).to(device, non_blocking=True)


def download(parts: Sequence[Tensor], device: torch.device) -> list[list[float]]:
    """Read one-dimensional tensors in a single transfer: the round's only synchronisation.

    Numbers pass through float64, which holds every token id and every float32 exactly.
    """
    flat = torch.cat([part.to(device, torch.float64, non_blocking=True) for part in parts]).tolist()
    found, at = [], 0
    for part in parts:
        found.append(flat[at : at + len(part)])
        at += len(part)
    return found


def settle(device: torch.device) -> None:
    """Wait for the device, so that what it still computes is not charged to what comes next."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Stopwatch:
    """Splits a round's time in two where the host does not wait for the device between the parts."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._begun = perf_counter()
        self._events = [self._event()] if self._cuda else []
        self._split = self._begun

    @staticmethod
    def _event() -> Any:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def split(self) -> None:
        """The first part is over (on a GPU: has been asked for)."""
        self._split = perf_counter()
        if self._cuda:
            self._events.append(self._event())

    def stop(self) -> tuple[float, float]:
        """Seconds of both parts, now that the device is idle."""
        total = perf_counter() - self._begun
        first = self._split - self._begun
        if self._cuda:
            first = min(total, max(first, self._events[0].elapsed_time(self._events[1]) / 1000.0))
        return first, total - first
