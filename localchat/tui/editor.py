"""Writing a message in the user's own editor."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from localchat.errors import UsageError
from localchat.sanitize import clean
from localchat.tui.attach import plain

_FALLBACKS = ("nano", "vim", "vi", "notepad")


def command() -> list[str]:
    """The editor's command line: $VISUAL, $EDITOR or one that is usually there.

    Raises:
        UsageError: there is none, or it is not installed.
    """
    named = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    try:
        words = shlex.split(named, posix=sys.platform != "win32")
    except ValueError as error:
        raise UsageError(f"The editor {clean(named)!r} cannot be read: {error}.", "Set VISUAL again.") from error
    if words and shutil.which(words[0]):
        return words
    if words:
        raise UsageError(f"The editor {clean(words[0])} is not installed.", "Set VISUAL to one that is.")
    for name in _FALLBACKS:
        if shutil.which(name):
            return [name]
    raise UsageError("There is no editor.", "Set VISUAL to the one you like.")


def edit(app: App[Any], text: str) -> str:
    """The text as the user leaves it in the editor; the screen steps aside meanwhile.

    Raises:
        UsageError: no editor, or it failed; the text stays as it was.
    """
    words = command()
    name = clean(words[0])
    try:
        with tempfile.TemporaryDirectory(prefix="localchat-") as folder:  # 0700
            path = Path(folder) / "message.md"
            path.write_text(text, encoding="utf-8")
            with app.suspend(), _no_interrupts():
                problem = _run([*words, str(path)])
            if problem:
                raise UsageError(f"{name} {problem}.", "The message is as it was.")
            return plain(path.read_bytes().decode("utf-8", errors="replace")).removesuffix("\n")
    except SuspendNotSupported as error:
        raise UsageError("This terminal cannot be lent to an editor.", "Write the message here.") from error
    except OSError as error:
        reason = clean(error.strerror or str(error))
        raise UsageError(f"{name} could not be used: {reason}.", "The message is as it was.") from error


def _run(words: list[str]) -> str:
    """What went wrong, or nothing. Never raises: the screen would not come back."""
    try:
        status = subprocess.run(words, check=False).returncode
    except (OSError, ValueError) as error:
        return f"could not be started: {clean(str(error))}"
    return f"ended with status {status}" if status else ""


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ctrl+C belongs to the editor while it runs. A handler, not SIG_IGN, which the editor would inherit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
