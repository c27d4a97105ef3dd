"""Copying: to this machine's clipboard where there is a program for it, and always to the terminal's (OSC 52).

The programs are called directly, because only their exit status tells whether the text arrived, and because what they
print would land on the screen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from base64 import b64encode
from typing import Any

from textual.app import App

from localchat.sanitize import clean

LARGEST = 750_000
"""Bytes that are sent to the terminal; most drop longer sequences, or take them for text."""
_PATIENCE = 0.4
"""Seconds the screen may wait for a program."""


def copy(app: App[Any], text: str) -> str:
    """Copy, and say in one sentence what is certain about it."""
    content = clean(text)
    if not content:
        return "There is nothing to copy."
    data = content.encode()
    if _delivered(program(), data):
        sent = "Copied."
    elif len(data) > LARGEST:
        return f"{len(data) / 1e6:.1f} MB is too long for the terminal's clipboard: export the chat instead."
    else:
        sent = "Sent to the terminal's clipboard."
    if len(data) <= LARGEST:
        _send(app, content)
    return sent


def program() -> tuple[str, ...]:
    """The program that fills this machine's clipboard from its standard input, or nothing."""
    remote = "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
    choices: list[tuple[str, ...]] = []
    if sys.platform == "darwin" and not remote:
        choices.append(("pbcopy",))
    if os.environ.get("WAYLAND_DISPLAY"):
        choices.append(("wl-copy",))
    if os.environ.get("DISPLAY"):
        choices += [("xclip", "-selection", "clipboard", "-in"), ("xsel", "--clipboard", "--input")]
    if not remote and (sys.platform == "win32" or "WSL_DISTRO_NAME" in os.environ):
        choices.append(("clip.exe",))
    if "TERMUX_VERSION" in os.environ:
        choices.append(("termux-clipboard-set",))
    return next((choice for choice in choices if shutil.which(choice[0])), ())


def _delivered(command: tuple[str, ...], data: bytes) -> bool:
    """True if the program took the text in time; a slow one goes on by itself."""
    if not command:
        return False
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(_run(command, data)), name="clipboard", daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return done == [True]


def _run(command: tuple[str, ...], data: bytes) -> bool:
    if command[0] == "clip.exe":
        data = data.decode().encode("utf-16-le")
    quiet = subprocess.DEVNULL
    try:
        return subprocess.run(command, input=data, stdout=quiet, stderr=quiet, timeout=5).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _send(app: App[Any], text: str) -> None:
    app.copy_to_clipboard(text)
    if "TMUX" not in os.environ:
        return
    # tmux ignores the sequence of a program unless told otherwise, but takes its own command; the wrapped sequence
    # reaches the terminal where only passing through is allowed.
    _delivered(("tmux", "load-buffer", "-w", "-"), text.encode())
    if driver := app._driver:
        driver.write(f"\x1bPtmux;\x1b\x1b]52;c;{b64encode(text.encode()).decode()}\x07\x1b\\")
