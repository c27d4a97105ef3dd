"""The prompt: what was typed, what was piped in, and files."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from localchat.cli.output import say
from localchat.errors import UsageError

MOST_BYTES = 16 * 2**20


def read(words: Sequence[str], files: Sequence[Path]) -> str:
    """Join the typed words, standard input and files into one prompt.

    Args:
        words: as typed; "-" asks for standard input, which is also read when it is a pipe or a file.
        files: each is added under a line that names it.

    Raises:
        UsageError: nothing to say, or an input that is not text.
    """
    typed = " ".join(word for word in words if word != "-")
    parts = [typed]
    if "-" in words or _is_fed():
        if typed and "-" not in words:
            _tell_if_slow()
        parts.append(_decode(_read_some(), "Standard input"))
    parts += [f"--- {path.name} ---\n{_from_file(path)}" for path in files]
    prompt = "\n\n".join(part.strip("\n") for part in parts if part.strip())
    if not prompt:
        raise UsageError("The prompt is empty.", 'Write it after the command: localchat ask "your question".')
    return prompt


def _is_fed() -> bool:
    """True if standard input is a pipe, a file or a socket: someone means it to be read."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return sys.stdin is not None and not sys.stdin.closed and not sys.stdin.isatty()
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _tell_if_slow() -> None:
    """A pipe that nobody writes to would wait for ever without a word."""
    try:
        ready, _, _ = select.select([sys.stdin], [], [], 1.0)
    except (OSError, ValueError):
        return
    if not ready:
        say("Waiting for standard input to end; start the command with </dev/null to leave it out.")


def _read_some() -> bytes:
    if sys.stdin is None or sys.stdin.closed:
        return b""
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UsageError(f"Standard input is longer than {MOST_BYTES // 2**20} MiB.", "Send less text.")
    return data


def _from_file(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} is longer than {MOST_BYTES // 2**20} MiB.", "Use a shorter file.")
        return _decode(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Check the path after -f.") from error


def _decode(data: bytes, name: str) -> str:
    if b"\0" in data:
        raise UsageError(f"{name} is not text: it holds a zero byte.", "Use a UTF-8 text file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text (byte {error.start}).", "Convert it to UTF-8 first.") from error
