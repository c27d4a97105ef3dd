"""A home of its own for every test, and workers that are closed after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localchat.worker.client import Worker
from tests.support.backend import Scripted
from tests.support.child import Manners, command
from tests.worker.support import Start


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of this test alone."""
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def start() -> Iterator[Start]:
    """Makes workers over scripted engines, and ends them."""
    workers: list[Worker] = []

    def make(scripted: Scripted | None = None, manners: Manners | None = None) -> Worker:
        workers.append(Worker(command(scripted or Scripted(), manners)))
        return workers[-1]

    yield make
    for worker in workers:
        worker.close()
