"""Text files that become part of a message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from localchat.errors import UsageError
from localchat.sanitize import clean
from localchat.tui.folds import size

LARGEST = 1_000_000
"""Bytes; more would not fit into any context."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A file as the message has it."""

    title: str
    """Name and size, for the label."""
    text: str
    """Name and content, as the model reads it."""


def read(path: Path) -> Attached:
    """Read a text file: UTF-8, or UTF-16 with its mark.

    Raises:
        UsageError: missing, no file, too large, unreadable or binary.
    """
    name = " ".join(clean(path.name).split()) or "file"
    text = plain(_decoded(_bytes(path, name), name))
    if not text.strip():
        raise UsageError(f"{name} is empty.", "Choose a file with text in it.")
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    kind = re.sub(r"\W", "", path.suffix)
    text = text.removesuffix("\n")
    return Attached(f"{name} · {size(text)}", f"\n{name}:\n{fence}{kind}\n{text}\n{fence}\n")


def plain(text: str) -> str:
    """The text with one kind of line end and nothing that acts on a terminal."""
    return clean(text.replace("\r\n", "\n").replace("\r", "\n"))


def _bytes(path: Path, name: str) -> bytes:
    try:
        if path.is_dir():
            raise UsageError(f"{name} is a folder.", "Choose a text file in it.")
        if path.exists() and not path.is_file():  # a pipe or device may never end
            raise UsageError(f"{name} is not a regular file.", "Choose a text file.")
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{name} is larger than 1 MB.", "Attach a part of it.")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{name} does not exist.", "Check the path.") from error
    except (OSError, ValueError) as error:
        reason = clean(getattr(error, "strerror", "") or str(error))
        raise UsageError(f"{name} cannot be read: {reason}.", "Choose a file that you may read.") from error
    if len(content) > LARGEST:
        raise UsageError(f"{name} is larger than 1 MB.", "Attach a part of it.")
    return content


def _decoded(content: bytes, name: str) -> str:
    marked = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in content and not marked:
        raise UsageError(f"{name} is not a text file.", "Only text can be attached.")
    try:
        return content.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not a text file in UTF-8.", "Only text can be attached.") from error
