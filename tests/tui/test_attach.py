"""Files that become part of a message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localchat.errors import UsageError
from localchat.tui import attach


def test_a_file_is_named_fenced_and_counted(tmp_path: Path) -> None:
    """Guards the form in which the model reads a file."""
    path = tmp_path / "main.py"
    path.write_text("a = 1\nb = 2\n")
    attached = attach.read(path)
    assert attached.title == "main.py · 2 lines"
    assert attached.text == "\nmain.py:\n```py\na = 1\nb = 2\n```\n"


def test_a_fence_in_the_file_does_not_end_the_block(tmp_path: Path) -> None:
    """Guards a Markdown file that would break out of its own block."""
    path = tmp_path / "notes.md"
    path.write_text("````\ncode\n````")
    assert attach.read(path).text.startswith("\nnotes.md:\n`````md\n````\n")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"one\r\ntwo\rthree", "one\ntwo\nthree"),
        (b"\xef\xbb\xbfmark", "mark"),
        ("größe".encode("utf-16"), "größe"),
        (b"red \x1b[31m\x07 \xe2\x80\xae evil", "red ␛[31m␇ � evil"),
    ],
)
def test_text_is_made_plain(tmp_path: Path, content: bytes, text: str) -> None:
    """Guards line ends, marks of Windows programs, and escape codes that would reach the terminal."""
    path = tmp_path / "x.txt"
    path.write_bytes(content)
    assert f"\n{text}\n" in attach.read(path).text


def _refused(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        attach.read(path)
    assert caught.value.hint
    assert "\x1b" not in caught.value.message
    return caught.value.message


def test_what_is_no_text_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """Guards against a frozen screen (pipes, devices), rubbish (binary) and tracebacks (everything else)."""
    binary, empty, large, latin = (tmp_path / name for name in ("a.bin", "empty", "large", "latin"))
    binary.write_bytes(b"MZ\0\0text")
    empty.write_text("\n\n")
    large.write_bytes(b"x" * (attach.LARGEST + 1))
    latin.write_bytes(b"gr\xf6\xdfe")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert _refused(binary) == "a.bin is not a text file."
    assert _refused(empty) == "empty is empty."
    assert _refused(large) == "large is larger than 1 MB."
    assert _refused(latin) == "latin is not a text file in UTF-8."
    assert _refused(pipe) == "pipe is not a regular file."
    assert _refused(tmp_path).endswith(" is a folder.")
    assert _refused(tmp_path / "none") == "none does not exist."
    assert _refused(Path("/dev/zero")) == "zero is not a regular file."
    assert "cannot be read" in _refused(tmp_path / ("x" * 300))
    assert "cannot be read" in _refused(Path("a\0b"))


def test_an_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the missing right to read; done by hand, because tests may run as root."""
    path = tmp_path / "secret\x1b[2J\n.txt"
    path.write_text("x")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert _refused(path) == "secret␛[2J .txt cannot be read: Permission denied."
