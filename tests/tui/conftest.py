"""A home of its own for every test of the screen, no animation, and an app over a scripted engine."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localchat import config
from localchat.chat.backend import Backend
from localchat.chat.store import Store, open_store
from localchat.models.plan import LoadPlan
from localchat.tui.app import LocalChat, Start
from localchat.tui.desk import Desk
from localchat.tui.host import Host
from tests.support.shelf import stock_hub
from tests.tui.stage import BIG, SMALL
from tests.tui.support import started

MakeApp = Callable[..., LocalChat]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, no setting from outside, no moving pictures, no clipboard of the machine."""
    for name in [name for name in os.environ if name.startswith("LOCALCHAT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def garbage() -> Iterator[None]:
    """The application sets aside what its start left; a hundred of them in one process would never be collected."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    """The store of that home."""
    opened = open_store(home / "data" / "chats.db")
    yield opened.store
    opened.store.close()


@pytest.fixture
def make_app(home: Path) -> MakeApp:
    """Makes the application over a backend; it has its own way to the store, which it closes."""

    def make(backend: Backend, *, chat: int | None = None, first_start: bool = False, **keys: object) -> LocalChat:
        file = config.File(Path("config.toml"))
        resolved = config.resolve(file, {}, {"seed": 7, **keys})
        desk = Desk(Host(backend), open_store(home / "data" / "chats.db").store, file, resolved, LoadPlan())
        return started(Start(desk, chat, first_start))

    return make


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two models that pair."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    stock_hub(tmp_path / "hub", BIG, SMALL)
    return tmp_path / "hub"
