"""A terminal for tests: runs a command on a pseudo-terminal and keeps what it draws, raw and as a screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

_IMPORTS = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", ""))))
"""Tests run in a folder of their own, and their programs are modules of this tree."""


class Terminal:
    """One command on a terminal of its own. Leaving the context ends the command if it still runs."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], size: tuple[int, int] = (120, 40)
    ) -> None:
        self._command, self._environment, self._size = list(command), dict(environment), size
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.raw = bytearray()
        self.pid = -1
        self.status: int | None = None
        self._fd = -1

    def __enter__(self) -> Self:
        self.started = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            ours = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": _IMPORTS}
            environment = {**os.environ, **ours, **self._environment}
            os.execvpe(self._command[0], self._command, environment)
        self.resize(*self._size)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.ended(0.0):
            os.kill(self.pid, signal.SIGTERM)
            if not self.ended(5.0):
                os.kill(self.pid, signal.SIGKILL)
                self.ended(5.0)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the window."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._reader.join(timeout=2.0)
            os.close(fd)

    def _read(self) -> None:
        while self._fd >= 0:
            try:
                if not select.select([self._fd], [], [], 0.5)[0]:
                    if self.status is not None:
                        return
                    continue
                data = os.read(self._fd, 65536)
            except (OSError, ValueError):
                return
            if not data:
                return
            with self._lock:
                self.raw += data
                # pyte does not know the private modes that textual asks about.
                self._stream.feed(re.sub(rb"\x1b\[[<>=?][0-9;]*\$?[a-zA-Z]|\x1bP.*?\x1b\\", b"", data))

    def resize(self, width: int, height: int) -> None:
        """Change the size of the window."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        with self._lock:
            self._screen.resize(height, width)
        self._size = (width, height)

    def send(self, text: str | bytes) -> None:
        """Press keys; a paste is `paste`."""
        data = text.encode() if isinstance(text, str) else text
        while data:
            data = data[os.write(self._fd, data[:4096]) :]

    def paste(self, text: str) -> None:
        """Paste as terminals do it."""
        self.send(b"\x1b[200~" + text.encode() + b"\x1b[201~")

    def text(self) -> str:
        """What is on the screen."""
        with self._lock:
            return "\n".join(line.rstrip() for line in self._screen.display)

    def wait(self, predicate: Callable[[str], bool] | str, seconds: float = 20.0) -> float:
        """Wait for the screen to show something; seconds since the command was started.

        Raises:
            AssertionError: it does not, in time.
        """
        wanted = (lambda text: predicate in text) if isinstance(predicate, str) else predicate
        end = time.monotonic() + seconds
        while not wanted(self.text()):
            assert time.monotonic() < end, f"the screen does not show {predicate!r}:\n{self.text()}"
            time.sleep(0.003)
        return time.monotonic() - self.started

    def ended(self, seconds: float) -> bool:
        """Wait for the command to end."""
        end = time.monotonic() + seconds
        while self.status is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= end:
                return False
            else:
                time.sleep(0.01)
        return True

    @property
    def cooked(self) -> bool:
        """The terminal is as a shell wants it: it echoes, and hands over lines."""
        flags: int = termios.tcgetattr(self._fd)[3]
        return bool(flags & termios.ECHO and flags & termios.ICANON)

    def cpu_seconds(self) -> float:
        """Processor time of the command's own process so far."""
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def children(self) -> list[int]:
        """Process ids of the command's children, whichever of its threads started them."""
        lists = Path(f"/proc/{self.pid}/task").glob("*/children")
        return [int(pid) for children in lists for pid in children.read_text().split()]
