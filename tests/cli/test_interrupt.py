"""Ctrl-C and broken pipes, in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTED = """
import sys
from localchat.cli import app, engine
from tests.support.backend import Scripted
engine.new_backend = lambda: Scripted(text="ab" * 4000, delay=0.02, notes=("ready",))
sys.argv = ["localchat", *sys.argv[1:]]
app()
"""


def start(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A Python process in a home of its own."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "LOCALCHAT_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def interrupt(process: subprocess.Popen[bytes]) -> tuple[int, bytes, str]:
    """Press Ctrl-C: exit code, the rest of stdout, stderr."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err.decode()


def test_ctrl_c_keeps_the_text_so_far(tmp_path: Path) -> None:
    """Guards against text that is lost or left without a newline, and against a traceback."""
    process = start(tmp_path, "-c", SCRIPTED, "ask", "Hi")
    assert process.stdout is not None
    first = process.stdout.read(6)
    code, rest, errors = interrupt(process)
    text = first + rest
    assert code == 130
    assert text.startswith(b"ababab")
    assert text.endswith(b"\n")
    assert len(text) < 8001
    assert errors == "Note: ready\nInterrupted.\n"


def test_ctrl_c_completes_the_json(tmp_path: Path) -> None:
    """Guards against half an object, or none, for a reply that was stopped."""
    process = start(tmp_path, "-c", SCRIPTED, "ask", "Hi", "--json")
    assert process.stderr is not None
    assert process.stderr.readline() == b"Note: ready\n"
    time.sleep(0.3)
    code, out, errors = interrupt(process)
    record = json.loads(out)
    assert (code, errors) == (130, "Interrupted.\n")
    assert record["finish_reason"] == "cancelled"
    assert record["text"].startswith("ab")


@pytest.mark.parametrize("module", ["numpy.linalg", "torch.autograd", "transformers.utils"])
def test_ctrl_c_while_importing(tmp_path: Path, module: str) -> None:
    """Guards against a traceback, a wrong exit code or a hang: libraries swallow a KeyboardInterrupt."""
    process = start(tmp_path, "-X", "importtime", "-m", "localchat", "ask", "Hi", "--device", "cpu")
    assert process.stderr is not None
    assert any(line.split(b"|")[-1].strip() == module.encode() for line in process.stderr), f"{module} is not imported"
    code, out, errors = interrupt(process)
    assert (code, out) == (130, b"")
    # The loading thread may still report an import after the sentence, until the process is gone.
    said = [line for line in errors.splitlines() if not line.startswith("import time:")]
    assert said == ["Interrupted."]


def test_a_reader_that_leaves(tmp_path: Path) -> None:
    """Guards against a traceback after `localchat ask ... | head -c 4`."""
    process = start(tmp_path, "-c", SCRIPTED, "ask", "Hi")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(4)
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(timeout=60) == 0
    assert errors == b"Note: ready\n"
