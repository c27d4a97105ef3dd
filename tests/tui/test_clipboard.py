"""Copying."""

from __future__ import annotations

import os
import time
from base64 import b64decode
from pathlib import Path

import pytest
from textual.app import App

from localchat.tui import clipboard


class Driver:
    """Keeps what would be written to the terminal."""

    def __init__(self) -> None:
        self.written = ""

    def write(self, data: str) -> None:
        """Keep it."""
        self.written += data


class Sending(App[None]):
    """An app whose terminal can be read."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self._driver = self.driver  # type: ignore[assignment]

    def sent(self) -> str:
        """The text that went to the terminal by the plain sequence."""
        start, _, rest = self.driver.written.partition("\x1b]52;c;")
        assert start == ""
        return b64decode(rest.partition("\a")[0]).decode()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any clipboard; programs put into this folder are found."""
    for name in (
        "SSH_CONNECTION",
        "SSH_TTY",
        "WAYLAND_DISPLAY",
        "DISPLAY",
        "TMUX",
        "WSL_DISTRO_NAME",
        "TERMUX_VERSION",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def install(folder: Path, name: str, body: str) -> Path:
    """A program that runs `body`; returns the file that it may keep its input in."""
    path, kept = folder / name, folder / f"{name}.kept"
    path.write_text(f"#!/bin/sh\nKEPT='{kept}'\n{body}\n")
    path.chmod(0o700)
    return kept


def test_without_a_program_only_the_terminal_is_asked(programs: Path) -> None:
    """Guards the word "copied" where nobody knows."""
    app = Sending()
    assert clipboard.copy(app, "größe 🦊") == "Sent to the terminal's clipboard."
    assert app.sent() == "größe 🦊"


def test_a_program_that_took_it_is_certain(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against losing text on the way to the program; the terminal gets it as well."""
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    kept = install(programs, "wl-copy", 'cat > "$KEPT"')
    app = Sending()
    assert clipboard.copy(app, "größe 🦊\n") == "Copied."
    assert kept.read_text() == app.sent() == "größe 🦊\n"


@pytest.mark.parametrize("body", ["exit 1", "echo noise >&2; echo noise; exit 2", "sleep 3"])
def test_a_program_that_fails_or_hangs(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], body: str
) -> None:
    """Guards a false "copied", a frozen screen (an X server that does not answer) and noise on the screen."""
    monkeypatch.setenv("DISPLAY", ":9")
    install(programs, "xclip", body)
    app = Sending()
    start = time.monotonic()
    assert clipboard.copy(app, "text") == "Sent to the terminal's clipboard."
    assert time.monotonic() - start < 1.5
    assert app.sent() == "text"
    assert capfd.readouterr() == ("", "")


def test_a_far_machine_is_not_ours(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards a "copied" that went to the clipboard of the machine at the other end."""
    install(programs, "pbcopy", "cat > /dev/null")
    install(programs, "clip.exe", "cat > /dev/null")
    monkeypatch.setattr("sys.platform", "darwin")
    assert clipboard.program() == ("pbcopy",)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("WSL_DISTRO_NAME", "Ubuntu")
    assert clipboard.program() == ("clip.exe",)
    monkeypatch.setenv("SSH_CONNECTION", "1 2 3 4")
    assert clipboard.program() == ()


def test_windows_reads_utf_16(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards umlauts and emoji on Windows, whose program reads bytes in the old code page otherwise."""
    monkeypatch.setenv("WSL_DISTRO_NAME", "Ubuntu")
    kept = install(programs, "clip.exe", 'cat > "$KEPT"')
    assert clipboard.copy(Sending(), "größe 🦊") == "Copied."
    assert kept.read_bytes().decode("utf-16-le") == "größe 🦊"


def test_tmux_is_told_in_every_way_it_knows(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards copying in tmux, which by default drops the sequence of a program."""
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    kept = install(programs, "tmux", 'echo "$@" > "$KEPT"; cat >> "$KEPT"')
    app = Sending()
    assert clipboard.copy(app, "text") == "Sent to the terminal's clipboard."
    assert kept.read_text() == "load-buffer -w -\ntext"
    assert app.driver.written.endswith("\x1bPtmux;\x1b\x1b]52;c;dGV4dA==\x07\x1b\\")


def test_hostile_and_broken_text(programs: Path) -> None:
    """Guards a shell into which copied text is pasted, and the encoder against half characters."""
    app = Sending()
    clipboard.copy(app, "rm\x1b[201~\r \ud800 \u202e")
    assert app.sent() == "rm␛[201~␍ � �"


def test_nothing_and_too_much(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards an emptied clipboard, and megabytes that a terminal would print instead."""
    app = Sending()
    assert clipboard.copy(app, "") == "There is nothing to copy."
    assert "too long" in clipboard.copy(app, "x" * (clipboard.LARGEST + 1))
    assert app.driver.written == ""
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    kept = install(programs, "wl-copy", 'cat > "$KEPT"')
    assert clipboard.copy(app, "x" * 5_000_000) == "Copied."
    assert kept.stat().st_size == 5_000_000
    assert app.driver.written == ""
    assert os.environ["PATH"].startswith(str(programs))
