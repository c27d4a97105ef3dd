"""The only ways between host and device: up without waiting, down once per round."""

from __future__ import annotations

from collections.abc import Sequence
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
