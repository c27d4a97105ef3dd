"""Whatever ends, breaks or gets in the way: one sentence, a way on, and nothing left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localchat.chat.backend import ReplyOptions
from localchat.chat.events import Event, Failed, Finished, Loaded, Loading, Prefilling, Wrote
from localchat.models.plan import LoadPlan
from localchat.worker.client import Worker
from tests.support.backend import Scripted
from tests.support.child import Manners
from tests.worker.support import HELLO, LONG, Start, gone_or_zombie, loaded, said, text_of

IMPORTS = """
from localchat.chat.backend import ReplyOptions
from localchat.worker.client import Worker
from tests.support.backend import Scripted
from tests.support.child import command
from tests.worker.support import HELLO, LONG, loaded
"""


@pytest.mark.parametrize("stage", ["idle", "loading", "prefilling", "writing"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_killed_engine_is_explained(start: Start, stage: str, number: signal.Signals) -> None:
    """Guards the crash: one sentence that fits, at every stage, what was heard stands, and loading starts a new one."""
    worker = start(Scripted(LONG, delay=0.01, load_delay=0.3))
    worker.start()
    if stage != "loading":
        loaded(worker)
    jobs = {"loading": worker.load(LoadPlan()), "idle": worker.reply(HELLO, ReplyOptions())}
    events: Iterator[Event] = jobs.get(stage, jobs["idle"])
    wanted = {"loading": Loading, "prefilling": Prefilling, "writing": Wrote}
    if stage in wanted:
        assert any(isinstance(event, wanted[stage]) for event in events)
    os.kill(worker.pid, number)
    last = list(events)[-1]
    assert isinstance(last, Failed)
    assert last.kind == "engine"
    assert ("memory" if number is signal.SIGKILL else number.name) in last.title
    assert not worker.alive
    loaded(worker)
    assert text_of(said(worker)) == LONG


def test_killed_at_fifty_random_moments(start: Start) -> None:
    """Guards the ending of every job: what came stands, and a failure or the end always follows."""
    luck = random.Random(7)
    worker = start(Scripted("Words and more words. " * 8, delay=0.002))
    for _ in range(50):
        if not worker.pid:
            loaded(worker)
        timer = threading.Timer(luck.uniform(0.0, 0.06), os.kill, (worker.pid, signal.SIGKILL))
        timer.start()
        heard = said(worker)
        timer.cancel()
        timer.join()
        assert isinstance(heard[-1], Failed | Finished)
        assert scripted_prefix(text_of(heard))


def scripted_prefix(text: str) -> bool:
    """The text is the beginning of what the script says."""
    return ("Words and more words. " * 8).startswith(text)


def test_the_engine_ends_with_the_screen(tmp_path: Path) -> None:
    """Guards against orphans: the screen is killed in mid-reply, and the engine is gone soon after."""
    script = f"""
{IMPORTS}
worker = loaded(Worker(command(Scripted(LONG, delay=0.05))))
events = worker.reply(HELLO, ReplyOptions())
next(events)
print(worker.pid, flush=True)
list(events)
"""
    environment = {**os.environ, "LOCALCHAT_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as screen:
        assert screen.stdout is not None
        pid = int(screen.stdout.readline())
        screen.kill()
    assert gone_or_zombie(pid)


def test_a_screen_that_forgets_to_close(tmp_path: Path) -> None:
    """Guards the way out without `close`: leaving the program ends the engine."""
    script = f"""
{IMPORTS}
worker = loaded(Worker(command(Scripted())))
print(worker.pid)
"""
    environment = {**os.environ, "LOCALCHAT_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert gone_or_zombie(int(done.stdout))
    assert not done.stderr


def test_signals_of_the_terminal_do_not_reach_it(start: Start) -> None:
    """Guards ctrl+c, ctrl+z and a closed window: they go to the terminal's group, which the engine is not in."""
    worker = loaded(start(Scripted(LONG, delay=0.01)))
    assert os.getpgid(worker.pid) != os.getpgid(0)
    events = worker.reply(HELLO, ReplyOptions())
    next(events)
    os.kill(worker.pid, signal.SIGINT)
    assert isinstance(list(events)[-1], Finished)


class NoFile:
    """Textual's stand-in for sys.stderr."""

    def fileno(self) -> int:
        """No file."""
        return -1

    def write(self, _: str) -> None:
        """Swallow it."""

    def flush(self) -> None:
        """Nothing to do."""


def test_it_starts_under_the_screen(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the start under Textual (its sys.stderr has no file number), from a thread."""
    monkeypatch.setattr(sys, "stderr", NoFile())
    monkeypatch.setattr(sys, "stdout", NoFile())
    worker = start()
    heard: list[Event] = []
    thread = threading.Thread(target=lambda: heard.extend(worker.load(LoadPlan())))
    thread.start()
    thread.join(20)
    assert isinstance(heard[-1], Loaded)


def test_what_libraries_print_goes_to_the_log(start: Start, home: Path) -> None:
    """Guards the wire against prints on standard output, before and after it is taken over."""
    noise = b"Downloading \x00\xff\n\x00localch" * 10
    worker = loaded(start(Scripted(LONG), Manners(noise=noise)))
    assert text_of(said(worker)) == LONG
    log = home / "log" / "localchat.log"
    assert b"localch" in log.read_bytes()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_written(start: Start, home: Path) -> None:
    """Guards a log folder that is not writable: the engine works, and says so once loaded."""
    home.parent.mkdir(exist_ok=True)
    home.write_text("a file where the folder should be")
    last = list(start().load(LoadPlan()))[-1]
    assert isinstance(last, Loaded)
    assert "log cannot be written" in last.notes[-1]


def test_a_program_that_is_not_there() -> None:
    """Guards a broken installation: said, not raised."""
    worker = Worker(("/nowhere/python",))
    worker.start()
    last = list(worker.load(LoadPlan()))[-1]
    assert isinstance(last, Failed)
    assert last.kind == "engine"


def test_an_engine_that_ends_while_it_starts(start: Start) -> None:
    """Guards an installation whose imports fail: one sentence, and no endless waiting."""
    last = list(start(manners=Manners(broken=True)).load(LoadPlan()))[-1]
    assert isinstance(last, Failed)
    assert "exit code 3" in last.title


def test_an_error_nobody_foresaw(start: Start, home: Path) -> None:
    """Guards a fault of ours in the engine: it ends, is explained, and the log has the traceback."""
    worker = loaded(start(Scripted(crash=RuntimeError("a fault"))))
    last = said(worker)[-1]
    assert isinstance(last, Failed)
    assert "exit code 1" in last.title
    assert "a fault" in (home / "log" / "localchat.log").read_text()


def test_it_imports_nothing_from_the_folder_it_starts_in(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards a chat that is started in a project with a random.py of its own."""
    for name in ("random", "queue", "signal", "torch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the wrong place')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    loaded(start())
