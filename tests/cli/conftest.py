"""A home of its own for every test, and a scripted engine in place of the real one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from localchat.cli import app, engine
from tests.support.backend import Scripted

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and no setting from outside."""
    for name in [name for name in os.environ if name.startswith("LOCALCHAT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """The engine that the commands get."""
    scripted = Scripted()
    monkeypatch.setattr(engine, "new_backend", lambda: scripted)
    return scripted


@pytest.fixture
def run() -> Run:
    """Runs a command line."""

    def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=stdin)

    return invoke


def write_config(home: Path, text: str) -> Path:
    """Write the config file."""
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file
