"""The options of a chat, a name, and the choice of a file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Input, Select, TextArea

from localchat.chat.records import Chat
from localchat.config import Resolved, Settings
from localchat.engine.types import Sampling
from localchat.tui.screens.ask_name import AskName
from localchat.tui.screens.chat_options import OWN, SETTINGS, ChatOptionsScreen, presets
from localchat.tui.screens.pick_file import MOST, PickFile, entries
from tests.tui.support import screen_text, wait_until

CHAT = Chat(
    1,
    "Title",
    0.0,
    0.0,
    system="",
    sampling=None,
    preset="",
    seed=None,
    accelerate=True,
    draft="",
    leaf=None,
    deleted=False,
)
RESOLVED = Resolved(Settings(temperature=0.5, top_k=40), (), "")


def answer(
    screen: ModalScreen[Any], steps: Callable[[Pilot[None]], Awaitable[None]], size: tuple[int, int] = (80, 24)
) -> list[Any]:
    """What a screen ends with; empty while it is still open."""
    answers: list[Any] = []

    async def go() -> None:
        app: App[None] = App()
        async with app.run_test(size=size) as pilot:
            app.push_screen(screen, answers.append)
            await pilot.pause()
            await steps(pilot)
            await pilot.pause()

    asyncio.run(go())
    return answers


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    return tmp_path


def options(chat: Chat = CHAT) -> ChatOptionsScreen:
    """The screen."""
    return ChatOptionsScreen(chat, presets(RESOLVED))


def test_presets_are_the_settings_the_built_in_and_the_profiles(tmp_path: Path) -> None:
    """Guards profiles that say nothing about sampling, and a config file that is broken."""
    folder = tmp_path / "home" / "config"
    folder.mkdir(parents=True)
    text = '[profiles."po[b]et"]\ntemperature = 1.5\ntop_p = 0.5\n[profiles.small]\ncontext = 100\n'
    (folder / "config.toml").write_text(text)
    found = presets(RESOLVED)
    assert [preset.name for preset in found] == [SETTINGS, "precise", "balanced", "creative", "po[b]et"]
    assert found[0].sampling == Sampling(temperature=0.5, top_k=40)
    assert found[-1].sampling == Sampling(temperature=1.5, top_k=40, top_p=0.5)
    (folder / "config.toml").write_text("broken [")
    assert len(presets(RESOLVED)) == 4


def test_nothing_changed_is_the_same_chat() -> None:
    """Guards settings that would be frozen into a chat by only looking at it."""

    async def keep(pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+s")

    async def leave(pilot: Pilot[None]) -> None:
        await pilot.press("x", "escape")

    assert answer(options(), keep) == [CHAT]
    own = replace(CHAT, system="Be brief.", sampling=Sampling(temperature=1.0), seed=7)
    assert answer(options(own), keep) == [own]
    preset = replace(CHAT, sampling=Sampling(temperature=0.2, top_p=0.9), preset="precise")
    assert answer(options(preset), keep) == [preset]
    assert answer(options(), leave) == [None]


def test_everything_can_be_set() -> None:
    """Guards each field, the decimal comma and Enter."""

    async def steps(pilot: Pilot[None]) -> None:
        await pilot.press(*"Be", "enter", *"brief.")
        screen = pilot.app.screen
        values = {"temperature": "0,9", "top_k": "20", "top_p": ".5", "min_p": "0.1", "repetition_penalty": "1.1"}
        for key, value in {**values, "presence_penalty": "-1", "frequency_penalty": "2", "seed": "42"}.items():
            screen.query_one(f"#{key}", Input).value = value
        await pilot.pause()
        assert screen.query_one(Select).value == OWN
        screen.query_one("#seed", Input).focus()
        await pilot.press("enter")

    sampling = Sampling(0.9, 20, 0.5, 0.1, 1.1, -1.0, 2.0)
    assert answer(options(), steps) == [replace(CHAT, system="Be\nbrief.", sampling=sampling, seed=42)]


def test_a_preset_fills_the_fields_and_a_changed_field_leaves_it() -> None:
    """Guards a preset's name on values that are not its own."""

    async def choose(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one(Select).value = "creative"
        await pilot.pause()
        assert pilot.app.screen.query_one("#temperature", Input).value == "1.1"
        await pilot.press("ctrl+s")

    async def change(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one(Select).value = "creative"
        await pilot.pause()
        pilot.app.screen.query_one("#top_k", Input).value = "5"
        await pilot.pause()
        await pilot.press("ctrl+s")

    creative = Sampling(temperature=1.1, min_p=0.05)
    assert answer(options(), choose) == [replace(CHAT, sampling=creative, preset="creative")]
    assert answer(options(), change) == [replace(CHAT, sampling=replace(creative, top_k=5), preset="")]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("temperature", "-1", "Temperature must be 0 or more"),
        ("temperature", "nan", "Temperature must be 0 or more"),
        ("temperature", "", "Temperature must be a number"),
        ("top_p", "0", "Top-p must be above 0 and at most 1"),
        ("top_k", "1.5", "Top-k must be a whole number"),
        ("presence_penalty", "3", "Presence penalty must be within"),
        ("seed", "-1", "Seed must be a whole number from 0"),
        ("seed", "9" * 30, "Seed must be a whole number from 0"),
        ("seed", "[b]", "Seed must be a whole number"),
    ],
)
def test_a_wrong_value_is_explained_and_not_kept(key: str, value: str, problem: str) -> None:
    """Guards the engine against values that it refuses, in the engine's own words."""

    async def steps(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one(f"#{key}", Input).value = value
        await pilot.pause()
        await pilot.press("ctrl+s")
        assert f"! {problem}" in screen_text(pilot.app)

    assert answer(options(), steps) == []


def test_a_system_message_is_plain() -> None:
    """Guards escape codes in a stored or pasted system message."""

    async def steps(pilot: Pilot[None]) -> None:
        assert "\x1b" not in screen_text(pilot.app)
        pilot.app.screen.query_one(TextArea).insert("\x1b[31m\r\n")
        await pilot.press("ctrl+s")

    assert answer(options(replace(CHAT, system="a\x1b[2Jb")), steps)[0].system.startswith("␛[31m\na␛[2Jb")


def test_it_fits_a_small_terminal() -> None:
    """Guards 80×24, and that smaller ones can scroll."""

    async def small(pilot: Pilot[None]) -> None:
        text = screen_text(pilot.app)
        for word in ("System message", "Temperature", "Seed", "Keep", "Cancel", "Ctrl+S keeps, Esc leaves."):
            assert word in text

    async def tiny(pilot: Pilot[None]) -> None:
        await pilot.press("tab", "tab", "tab", "tab", "ctrl+s")

    assert answer(options(), small) == []
    assert answer(options(), tiny, (30, 8)) == [CHAT]


def test_ask_name() -> None:
    """Guards names that are blank or more than a line, and titles with markup."""

    async def named(pilot: Pilot[None]) -> None:
        assert "Name [b]of[/b] it" in screen_text(pilot.app)
        await pilot.press("ctrl+u", "space", "enter", *" my  name ", "enter")

    async def left(pilot: Pilot[None]) -> None:
        await pilot.press("escape")

    assert answer(AskName("Name [b]of[/b] it", "old\x1b\nname"), named) == ["my name"]
    assert answer(AskName("Name"), left) == [None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some files."""
    place = tmp_path / "place"
    (place / "sub").mkdir(parents=True)
    for name in ("main.py", "Makefile", "domain.txt", ".hidden", "sub/inner.md"):
        (place / name).write_text("x")
    return place


def test_entries(folder: Path, tmp_path: Path) -> None:
    """Guards the order, hidden files, folders that cannot be read and folders of many files."""
    names = [path.name for path in entries(folder, "")[0]]
    assert names == ["sub", "domain.txt", "main.py", "Makefile"]
    assert [path.name for path in entries(folder, "MA")[0]] == ["main.py", "Makefile", "domain.txt"]
    assert [path.name for path in entries(folder, ".h")[0]] == [".hidden"]
    assert entries(folder / "none", "")[2] == "No such file or directory"
    assert entries(Path("a\0"), "")[2]
    for number in range(MOST + 5):
        (folder / "sub" / f"x{number}").touch()
    assert entries(folder / "sub", "x")[1] == 5


def test_pick_a_file(folder: Path) -> None:
    """Guards the ways to a file: typing, completing, walking the list."""

    async def typed(pilot: Pilot[None]) -> None:
        await pilot.press(*"main.py", "enter")

    async def walked(pilot: Pilot[None]) -> None:
        await pilot.press("enter")  # the folder first
        await pilot.pause()
        await pilot.press("enter")

    async def completed(pilot: Pilot[None]) -> None:
        await pilot.press(*"mak", "tab", "enter")

    async def nothing(pilot: Pilot[None]) -> None:
        await pilot.press(*"zzz", "enter", "tab", "down", "up", "escape")

    assert answer(PickFile(folder), typed) == [folder / "main.py"]
    assert answer(PickFile(folder), walked) == [folder / "sub" / "inner.md"]
    assert answer(PickFile(folder), completed) == [folder / "Makefile"]
    assert answer(PickFile(folder), nothing) == [None]


def test_hostile_names_are_shown_and_not_obeyed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards file names with escape codes, markup and bytes that are no text; and ~ of nobody."""
    for name in (b"a\x1b[2J[b]\n.txt", b"b\xff\xfe.txt"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).touch()

    async def steps(pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "a␛[2J[b]" in screen_text(pilot.app))
        assert not {"\x1b", "\udcff"} & set(screen_text(pilot.app))
        await pilot.press("down", "tab")
        field = pilot.app.screen.query_one(Input)
        for text in ("~nobody-at-all/", "/nowhere/\x1b", "\0", ""):
            field.value = text
            await pilot.press("enter")
        field.value = f"{folder}/a"
        await pilot.press("enter")

    assert answer(PickFile(folder), steps)[0].name.startswith("a\x1b")
