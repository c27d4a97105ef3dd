"""The log file: tracebacks, and what libraries have to say. Nothing of it reaches the screen."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from localchat import paths


def write(text: str) -> bool:
    """Add a dated entry; False if the file cannot be written."""
    try:
        paths.append_private(paths.log_file(), f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
    except OSError:
        return False
    return True


def failure(error: BaseException) -> bool:
    """Add a traceback; False if the file cannot be written."""
    return write("".join(traceback.format_exception(error)))


class _ToFile(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        write(self.format(record))


@contextmanager
def collecting() -> Iterator[None]:
    """Warnings and log records go to the file in this context; without a handler Python prints them on stderr."""
    handler = _ToFile(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)
