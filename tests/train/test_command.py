"""`localchat train` as it is typed, and as it is interrupted."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from localchat.cli import app
from localchat.paths import data_dir
from tests.support.models import save_tiny
from tests.train.interrupt import start
from tests.train.support import after, run, text_file, tiny_plan


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own."""
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def arguments(folder: Path, minutes: float) -> list[str]:
    """The command line for a tiny target."""
    target = folder / "target"
    if not target.exists():
        save_tiny(target, layers=3)
    data = str(text_file(folder))
    plan = ["--kind", "medusa", "--target", str(target), "--data", data, "--minutes", str(minutes)]
    return [*plan, "--device", "cpu", "--name", "tiny"]


def test_one_object_on_stdout_and_the_rest_on_stderr(tmp_path: Path) -> None:
    """Guards scripts that read the result, and against progress that is lost."""
    result = CliRunner().invoke(app, ["train", "--json", *arguments(tmp_path, 0.01)])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["name"] == "tiny"
    assert Path(found["folder"]).is_dir()
    assert "Training tiny (medusa" in result.stderr
    assert "tokens per round" in result.stderr
    assert "--draft tiny" in result.stderr


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (["--data", "/nope"], "There is no file /nope."),
        (["--kind", "hydra"], "There is no kind 'hydra' to train."),
        (["--minutes", "0"], "0 minutes is no time to train."),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, extra: list[str], sentence: str) -> None:
    """Guards against tracebacks."""
    result = CliRunner().invoke(app, ["train", *arguments(tmp_path, 0.01), *extra])
    assert result.exit_code == 2
    assert f"Error: {sentence}" in result.stderr
    assert not result.stdout


def test_removing_what_is_unfinished(tmp_path: Path) -> None:
    """Guards against an unfinished training that bars its name for ever: what the error says to do must do it."""
    run(tiny_plan(tmp_path, minutes=10.0), after(8))
    line = arguments(tmp_path, 0.01)
    refused = CliRunner().invoke(app, ["train", *line, "--seed", "3"])
    assert refused.exit_code == 2
    assert "unfinished training of tiny" in refused.stderr
    remove = ["models", "rm", "tiny", "--yes"]
    assert CliRunner().invoke(app, remove).exit_code == 0
    assert CliRunner().invoke(app, remove).exit_code == 4
    assert CliRunner().invoke(app, ["train", *line, "--seed", "3"]).exit_code == 0
    assert "is already trained" in CliRunner().invoke(app, ["train", *line]).stderr
    assert CliRunner().invoke(app, remove).exit_code == 0
    assert not (data_dir() / "heads" / "tiny").exists()


def _until(process: subprocess.Popen[bytes], words: bytes) -> list[bytes]:
    """Lines on stderr up to the one with the words."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            break
    return lines


def test_interrupted_killed_and_gone_on_with(tmp_path: Path, home: Path) -> None:
    """Guards against training that is lost by Ctrl-C or a kill, a wrong exit code, and a command that must be looked
    up: the same one goes on, whatever the moment."""
    line, state = arguments(tmp_path, 0.08), home / "data" / "training" / "tiny" / "checkpoint.safetensors"
    process = start(home, line)
    _until(process, b"accepted")
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert errors.decode().splitlines()[-1] == "Interrupted. Run the same command again to go on."
    assert state.exists()
    process = start(home, line)
    _until(process, b"accepted")
    process.kill()
    process.communicate(timeout=60)
    process = start(home, line)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert re.search(rb"going on after \d\.\d minutes", errors)
    assert json.loads(out)["name"] == "tiny"
    assert not state.exists()
