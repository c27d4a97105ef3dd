"""Ctrl-C. While a reply is written it asks the engine to stop; at any other time it ends the process at once.

At once means without an exception: libraries swallow a KeyboardInterrupt that hits them in the middle of an import, and
go on half-imported. Files are written so that nothing is lost by it (see paths.write_private).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localchat.chat.backend import Backend

EXIT_CODE = 130


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ctrl-C calls `handler` in this context; outside the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def leave(_signal: int, _frame: FrameType | None) -> None:
    """End the process at once. Everything printed so far is out already: every write is flushed."""
    os.write(2, b"\nInterrupted.\n" if sys.stderr.isatty() else b"Interrupted.\n")
    os._exit(EXIT_CODE)


@contextmanager
def cancelling(backend: Backend) -> Iterator[None]:
    """The first Ctrl-C asks the engine to stop, so that the reply so far is complete; the second does not ask."""

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        backend.cancel()

    with handled_by(ask_to_stop):
        yield
