"""Writing in the user's own editor."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from textual.app import App

from localchat.errors import UsageError
from localchat.tui import editor


class Lent(App[None]):
    """An app that can be suspended without a terminal."""

    lent = 0
    back = 0

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """As textual does it: without `finally`, so whatever is raised inside would lose the screen."""
        self.lent += 1
        yield
        self.back += 1


def script(folder: Path, body: str) -> str:
    """An editor that does what `body` says with "$1"."""
    path = folder / "my editor.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return f"'{path}' --flag"


@pytest.fixture(autouse=True)
def _no_editors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)


def test_visual_before_editor_before_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the order that every other program has."""
    monkeypatch.setattr("shutil.which", lambda name: name)
    assert editor.command() == ["nano"]
    monkeypatch.setenv("EDITOR", "ed -p 'a b'")
    assert editor.command() == ["ed", "-p", "a b"]
    monkeypatch.setenv("VISUAL", "  code --wait")
    assert editor.command() == ["code", "--wait"]


@pytest.mark.parametrize(
    ("named", "problem"),
    [("no-such-editor -w", "no-such-editor is not installed"), ("vi 'x", "cannot be read"), ("", "There is no editor")],
)
def test_no_editor_is_one_sentence(monkeypatch: pytest.MonkeyPatch, named: str, problem: str) -> None:
    """Guards a traceback, or a silent key, where no editor can be started."""
    monkeypatch.setenv("VISUAL", named)
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(UsageError, match=problem) as caught:
        editor.edit(Lent(), "text")
    assert caught.value.hint


def test_the_text_comes_back_plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards line ends, escape codes, broken UTF-8 and the newline that editors add; the file is private and goes."""
    seen = tmp_path / "seen"
    body = f'''echo "$2" > {seen}
stat -c %a "$2" "$(dirname "$2")" >> {seen}
printf "%s\\r\\nred \\033[31m \\377\\n" "$(cat "$2")" > "$2"'''
    monkeypatch.setenv("VISUAL", script(tmp_path, body))
    app = Lent()
    assert editor.edit(app, "größe\nzwei") == "größe\nzwei\nred ␛[31m �"
    path, mode, folder_mode = seen.read_text().split()
    assert path.endswith(".md")
    assert not Path(path).exists()
    assert folder_mode == "700"
    assert stat.S_IMODE(int(mode, 8)) & 0o077 in (0, 0o044)  # the folder keeps others out
    assert app.lent == app.back == 1


def test_a_failing_editor_leaves_the_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards the message against an editor that ends badly (vi's :cq), and the screen against one that cannot start."""
    app = Lent()
    monkeypatch.setenv("VISUAL", script(tmp_path, 'echo lost > "$2"; exit 3'))
    with pytest.raises(UsageError, match="ended with status 3"):
        editor.edit(app, "text")
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF rubbish")
    broken.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(broken))
    with pytest.raises(UsageError, match="could not be started"):
        editor.edit(app, "text")
    assert app.lent == app.back == 2


def test_an_interrupt_in_the_editor_does_not_end_us(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards a chat that dies because ctrl+c was pressed in the editor."""
    monkeypatch.setenv("VISUAL", script(tmp_path, f'kill -INT {os.getpid()}; echo kept > "$2"'))
    before = signal.getsignal(signal.SIGINT)
    assert editor.edit(Lent(), "text") == "kept"
    assert signal.getsignal(signal.SIGINT) is before


def test_a_terminal_that_cannot_be_lent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards the browser and headless runs, where textual refuses to step aside."""
    monkeypatch.setenv("VISUAL", script(tmp_path, "exit 0"))

    async def go() -> None:
        app: App[None] = App()
        async with app.run_test():
            with pytest.raises(UsageError, match="cannot be lent"):
                editor.edit(app, "text")

    asyncio.run(go())
