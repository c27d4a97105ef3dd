"""Devices and their memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localchat.errors import FitError, UsageError
from localchat.models import devices
from localchat.models.devices import available_memory, computes_bf16, resolve_device


def test_names() -> None:
    """Guards against a device name that reaches torch unchecked."""
    assert resolve_device("cpu") == "cpu"
    for name in ("gpu", "cuda:x", "cuda:-1", ""):
        with pytest.raises(UsageError):
            resolve_device(name)


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards a machine without a GPU: auto takes the CPU, cuda is refused with exit code 3."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert resolve_device("auto") == "cpu"
    with pytest.raises(FitError) as caught:
        resolve_device("cuda")
    assert caught.value.exit_code == 3


def test_gpu_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a GPU number the machine does not have."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert resolve_device("auto") == "cuda:0"
    assert resolve_device("cuda:1") == "cuda:1"
    with pytest.raises(FitError):
        resolve_device("cuda:2")


def test_host_memory() -> None:
    """Guards against bytes and kilobytes mixed up: a machine that runs this has some memory free, not all."""
    free, total = available_memory("cpu")
    assert 2**26 < free < total < 2**46
    assert computes_bf16("cpu")


def test_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards systems that have no /proc: there must be an answer, not an exception."""

    def missing(*_: Any, **__: Any) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    free, total = available_memory("cpu")
    assert 0 < free <= total


def test_container_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards containers: their limit counts, not the host's memory."""
    monkeypatch.setattr(devices, "_host_memory", lambda: (50, 100))
    monkeypatch.setattr(devices, "_container", lambda: (40, 30))
    assert available_memory("cpu") == (10, 40)
    monkeypatch.setattr(devices, "_container", lambda: (0, 0))
    assert available_memory("cpu") == (50, 100)
