"""One child process: started so that nothing of the terminal reaches it, ended so that nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from localchat import paths
from localchat.errors import EngineError
from localchat.worker.messages import Batch, Order, await_hello, receive, send

COMMAND = (sys.executable, "-P", "-m", "localchat.worker")

_GRACE = 2.0
"""Seconds a process has to end before it is killed."""
_KILLED = -9
_FROM_OUTSIDE = (1, 2, 15)
"""SIGHUP, SIGINT and SIGTERM."""


class Child:
    """A running engine process and the pipes to it."""

    def __init__(self, command: Sequence[str], log: int) -> None:
        """Start it; takes milliseconds.

        Args:
            command: program and arguments.
            log: file descriptor that its standard error goes to.

        Raises:
            OSError: there is no such program, or no room for another process.
        """
        # Explicit pipes and a log: the screen's sys.stderr has no file number. A session of its own: no signal that
        # the terminal sends to the screen (ctrl+c, ctrl+z, a closed window) reaches it.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=_environment(),
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._writing = threading.Lock()
        self._greeted = False
        self.used = False
        """It has been asked to load, so its memory is not what a new process has."""
        self.ended = False
        """It was ended on purpose."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """It has not ended yet."""
        return self._process.poll() is None

    @property
    def crashed(self) -> bool:
        """It has ended, and nobody asked it to."""
        return not self.ended and not self.running

    def send(self, order: Order) -> None:
        """Give an order; one that it can no longer hear is lost, and `receive` says that it is gone."""
        with self._writing, suppress(OSError, ValueError):
            send(self._to, order)

    def receive(self) -> Batch | None:
        """Wait for what it says next; None once it is gone."""
        with suppress(OSError, ValueError):  # the pipe may be closed by another thread
            self._greeted = self._greeted or await_hello(self._from)
            message = receive(self._from) if self._greeted else None
            return message if isinstance(message, Batch) else None
        return None

    def kill(self) -> None:
        """End it now, without waiting; `end` still has to be called."""
        if self.running:
            self.ended = True
            self._process.kill()

    def end(self) -> None:
        """End it and wait until its memory is given back."""
        if self.running:
            self.ended = True
            self._process.terminate()
        self._reap()
        for stream in (self._to, self._from):
            with suppress(OSError):
                stream.close()

    def _reap(self) -> int:
        """Wait for its end; one that does not end is killed."""
        try:
            return self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def obituary(self) -> EngineError:
        """Why it is gone, for people."""
        code = self._reap()
        if code == _KILLED:
            return EngineError(
                "The engine was killed, most likely because memory ran out.",
                "Load again; if it happens again, choose a shorter context or a smaller model.",
            )
        if -code in _FROM_OUTSIDE:
            return EngineError(f"The engine was ended from outside ({_signal_name(-code)}).", "Load again to go on.")
        how = f"crashed ({_signal_name(-code)})" if code < 0 else f"ended by itself (exit code {code})"
        return EngineError(f"The engine {how}.", "Load again to go on; the log has the details.")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _environment() -> dict[str, str]:
    """Ours, so that it imports what we import, and never a file of the folder that the program was started in."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(Path(folder or ".").absolute()) for folder in sys.path),
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def open_log() -> tuple[int, str]:
    """A file descriptor for what the engine prints, and one sentence if that is not the log."""
    try:
        paths.private_dir(paths.log_dir())
        return os.open(paths.log_file(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), ""
    except OSError as error:
        problem = f"The log cannot be written ({paths.log_dir()}: {error.strerror}), so the engine keeps none."
        return os.open(os.devnull, os.O_WRONLY), problem
