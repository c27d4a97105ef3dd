"""Keys, pastes and labels in the field that messages are written in."""

from __future__ import annotations

import time

import pytest
from textual import events
from textual._xterm_parser import XTermParser
from textual.pilot import Pilot

from tests.tui.composing import Desk, drive
from tests.tui.support import screen_text, wait_until


def terminal_keys(sequence: str) -> list[tuple[str, str | None]]:
    """The keys that textual makes of what a terminal sends."""
    parser = XTermParser()
    found = list(parser.feed(sequence))
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        found += parser.tick()
    return [(event.key, event.character) for event in found if isinstance(event, events.Key)]


@pytest.mark.parametrize(
    "sequence", ["\n", "\x1b\r", "\x1b[13;2u", "\x1b[13;3u", "\x1b[27;2;13~", "\x1b[27;3;13~"], ids=repr
)
def test_every_way_to_a_new_line(sequence: str) -> None:
    """Guards ctrl+j, shift+enter and alt+enter as old and new terminals and tmux send them: none may send."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        await pilot.press("a")
        for key, character in terminal_keys(sequence):
            app.post_message(events.Key(key, character))
        await wait_until(pilot, lambda: app.box.text == "a\n")
        await pilot.press("b")
        assert app.box.text == "a\nb"
        assert app.sent == []

    drive(steps)


def test_alt_and_a_letter_is_a_command() -> None:
    """Guards terminals that send the letter along: it would be typed, and the command would not run."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        await pilot.press("a")
        for sequence in ("\x1bs", "\x1bq", "\x1bu"):
            for key, character in terminal_keys(sequence):
                app.post_message(events.Key(key, character))
        await pilot.pause()
        await wait_until(pilot, lambda: app.settings == 1)
        assert app.box.text == ""  # alt+s counted, alt+q did nothing, alt+u took the "a" back

    drive(steps)


def test_what_is_typed_in_every_script() -> None:
    """Guards emoji sequences, Persian joiners, wide spaces and no-break spaces, which python calls unprintable."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        for character in "👩\u200d👧 می\u200cخواهم日本\u3000語e\u0301\u00a0x\u202e\u001b":
            app.box.post_message(events.Key(character, character))
        await pilot.press("enter")
        assert app.sent == ["👩\u200d👧 می\u200cخواهم日本\u3000語e\u0301 x"]

    drive(steps)


def test_pasted_text_is_plain_and_never_sends() -> None:
    """Guards a paste that sends at its first newline, line ends of other systems, and escape codes."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        app.box.post_message(events.Paste("one\r\ntwo\rthree\x1b[2J\x07\u202e[bold]x[/bold]"))
        await wait_until(pilot, lambda: bool(app.box.text))
        assert app.box.text == "one\ntwo\nthree␛[2J␇�[bold]x[/bold]"
        assert app.sent == []
        app.box.post_message(events.Paste(""))
        await pilot.pause()
        assert "\x1b" not in screen_text(app)

    drive(steps)


def test_long_pastes_are_labels_that_are_sent_in_full() -> None:
    """Guards the screen against a long paste, and the message against losing a part of it."""
    first, second = "a\n" * 239 + "a", "x" * 3000

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        await pilot.press(*"see")
        app.box.paste(first)
        await pilot.press("ctrl+j")
        app.box.paste(second)
        await pilot.pause()
        shown = screen_text(app).replace("\u00a0", " ")
        assert "see[pasted 240 lines]" in shown
        assert "[pasted 3,000 characters]" in shown
        await pilot.press("enter")
        assert app.sent == [f"see{first}\n{second}"]

    drive(steps)


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        (("backspace",), "ab"),
        (("left", "delete"), "ab"),
        (("ctrl+w",), "ab"),
        (("left", "x"), "axLABELb"),
        (("shift+left", "x"), "axb"),
        (("left", "right", "x"), "aLABELxb"),
    ],
)
def test_a_label_is_deleted_and_passed_as_one(keys: tuple[str, ...], left: str) -> None:
    """Guards half a label, which would be sent as it stands; undo brings it back with its text."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        app.box.paste("ab")
        await pilot.press("left")
        app.box.paste("line\n" * 30)
        label = app.box.text[1:-1]
        await pilot.press(*keys)
        assert app.box.text == left.replace("LABEL", label)
        while app.box.text != f"a{label}b":
            before = app.box.text
            await pilot.press("ctrl+underscore")
            assert app.box.text != before
        assert app.composer.value == "a" + "line\n" * 30 + "b"

    drive(steps)


def test_the_mouse_cannot_split_a_label() -> None:
    """Guards a cursor put into the middle of a label: what is typed there comes behind it."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        app.box.paste("line\n" * 30)
        label = app.box.text
        app.box.move_cursor((0, 5))
        await pilot.press("x")
        assert app.box.text == f"{label}x"
        app.box.move_cursor((0, 3))
        await pilot.press("backspace")
        assert app.box.text == "x"

    drive(steps)


def test_five_megabytes_do_not_freeze() -> None:
    """Guards a paste of a whole log file; the limit is loose, because tests share the cores."""

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        text = "日本語 and ascii\r\n" * 300_000
        start = time.monotonic()
        app.box.paste(text)
        await pilot.press("x")
        assert time.monotonic() - start < 3
        assert app.composer.value == text.replace("\r", "") + "x"
        app.composer.load_text(text)
        await pilot.press("y", "enter")
        assert app.sent == [text.replace("\r", "") + "y"]

    drive(steps)


def test_copy_and_cut_give_the_text_behind_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards a copied label, which would mean nothing anywhere else."""
    copied: list[str] = []

    def copy(_: object, text: str) -> str:
        copied.append(text)
        return "Copied."

    monkeypatch.setattr("localchat.tui.clipboard.copy", copy)

    async def steps(pilot: Pilot[None], app: Desk) -> None:
        app.box.paste("line\n" * 30)
        await pilot.press("x", "f7", "ctrl+c", "ctrl+x")
        assert copied == ["line\n" * 30 + "x"] * 2
        assert app.box.text == ""

    drive(steps)
