"""Writing a message."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from localchat.tui.screens.pick_file import PickFile
from localchat.tui.widgets.text_box import MOST_LINES
from tests.tui.composing import Desk, drive
from tests.tui.support import screen_text, wait_until


def test_enter_sends_once_and_blank_text_never() -> None:
    """Guards a held Enter key that sends empty messages after the first, and blank text that is thrown away."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        await pilot.press("enter", "space", "space", "enter")
        assert app.box.text == "  "
        await pilot.press("h", "i", "enter", "enter", "enter", "enter")
        assert app.sent == ["  hi"]
        assert app.box.text == ""
        await pilot.press("ctrl+underscore")
        assert app.box.text == ""

    drive(steps)


def test_keys_that_wait_behind_enter_are_the_next_message() -> None:
    """Guards what was typed while the screen was busy: it is not part of the message before it."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        for key in ("h", "i", "enter", "y", "o", "enter", "x"):
            app.box.post_message(events.Key(key, key if len(key) == 1 else "\r"))
        await wait_until(pilot, lambda: app.box.text == "x")
        assert app.sent == ["hi", "yo"]

    drive(steps)


def test_it_grows_with_its_text_and_stays_small_on_a_small_screen() -> None:
    """Guards a composer that covers the conversation, also while the window shrinks and text is written."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        assert app.box.size.height == 1
        await pilot.press("a", "ctrl+j", "b", "ctrl+j", "c")
        assert app.box.size.height == 3
        app.box.paste("\n" * 15)
        await pilot.pause()
        assert app.box.size.height == 8
        await pilot.resize_terminal(120, 40)
        await wait_until(pilot, lambda: app.box.size.height == MOST_LINES)
        await pilot.resize_terminal(20, 9)
        await pilot.press("d")
        await wait_until(pilot, lambda: app.box.size.height == 3)
        assert "d" in screen_text(app)
        await pilot.resize_terminal(4, 3)
        await pilot.press("e", "enter")
        assert app.sent == ["a\nb\nc" + "\n" * 15 + "de"]

    drive(steps)


def test_up_and_down_walk_what_was_sent() -> None:
    """Guards the unsent text, which must be there again at the end of the walk."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        app.composer.set_history(["newest", "two\nlines", "oldest"])
        await pilot.press(*"unsent", "up")
        assert app.box.text == "newest"
        await pilot.press("up", "up", "up", "up")
        assert app.box.text == "oldest"
        await pilot.press("down")
        assert app.box.text == "two\nlines"
        await pilot.press("up")  # within the message first
        assert app.box.text == "two\nlines"
        await pilot.press("up", "down", "down", "down")
        assert app.box.text == "unsent"
        await pilot.press("down", "down")
        assert app.box.text == "unsent"
        await pilot.press("up", "ctrl+underscore")
        assert app.box.text == "unsent"

    drive(steps)


def test_up_moves_within_a_wrapped_line_first() -> None:
    """Guards a long line that fills several rows: up is a row up, not another message."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        app.composer.set_history(["other"])
        app.composer.load_text("word " * 30)
        await pilot.pause()
        assert app.box.size.height > 1
        await pilot.press("up")
        assert app.box.text == "word " * 30
        await pilot.press("up", "up", "up")
        assert app.box.text == "other"

    drive(steps)


def test_the_draft_is_announced_when_typing_pauses() -> None:
    """Guards the unsent text against a crash, and the disk against a write for each key."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        await pilot.press(*"hello")
        await wait_until(pilot, lambda: bool(app.drafts))
        assert app.drafts == ["hello"]
        await pilot.press("enter")
        await pilot.pause()
        assert app.drafts == ["hello", ""]

    drive(steps)


def test_a_file_is_attached_by_its_path(tmp_path: Path) -> None:
    """Guards the way from the key to the message, and folders and binaries that are refused in a sentence."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "main.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\0")

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        await pilot.press(*"see ", "ctrl+t")
        await wait_until(pilot, lambda: isinstance(app.screen, PickFile))
        await pilot.press("escape")
        app.composer.attach(tmp_path / "main.py")
        app.composer.attach(tmp_path / "picture.png")
        app.composer.attach(tmp_path / "folder")
        await wait_until(pilot, lambda: len(app._notifications) == 2)
        told = [notice.message for notice in app._notifications]
        assert any("picture.png is not a text file." in text for text in told)
        assert any("folder is a folder." in text for text in told)
        assert app.box.text.replace("\u00a0", " ") == "see [main.py · 2 lines]"
        await pilot.press("enter")
        assert app.sent == ["see \nmain.py:\n```py\na = 1\nb = 2\n```"]

    drive(steps)


def test_the_editor_is_given_everything_and_can_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards long pastes, which are opened in full, and the old text."""
    given: list[str] = []

    def edit(_: object, text: str) -> str:
        given.append(text)
        return "from the editor"

    monkeypatch.setattr("localchat.tui.editor.edit", edit)

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        app.box.paste("line\n" * 30)
        await pilot.press("x", "ctrl+g")
        assert given == ["line\n" * 30 + "x"]
        assert app.box.text == "from the editor"
        await pilot.press("ctrl+underscore")
        assert app.composer.value == "line\n" * 30 + "x"
        await pilot.press("alt+shift+u")
        assert app.box.text == "from the editor"

    drive(steps)


def test_without_an_editor_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the text and the screen where $EDITOR is wrong."""
    monkeypatch.setenv("VISUAL", "no-such-editor")

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        await pilot.press("x", "ctrl+g")
        assert app.box.text == "x"
        assert [notice.message for notice in app._notifications] == [
            "The editor no-such-editor is not installed. Set VISUAL to one that is."
        ]

    drive(steps)
