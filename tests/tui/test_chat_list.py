"""The list of chats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import date, datetime
from pathlib import Path

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from localchat.chat.conversation import Role
from localchat.chat.store import Store, StoreError, open_store
from localchat.tui.listing import around, day, line
from localchat.tui.widgets.chat_list import PAGE, ChatList
from tests.tui.support import screen_text, wait_until


class Listed(App[None]):
    """A list of chats and nothing else."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.heard: list[Message] = []

    def compose(self) -> ComposeResult:
        """The list."""
        yield ChatList(self.store)

    def on_mount(self) -> None:
        """As the chat screen does."""
        self.chats.refresh_chats(None)
        self.chats.focus_list()

    @property
    def chats(self) -> ChatList:
        """The list."""
        return self.query_one(ChatList)

    @property
    def told(self) -> list[str]:
        """What the user was told."""
        return [notice.message for notice in self._notifications]

    def on_chat_list_opened(self, message: ChatList.Opened) -> None:
        """Keep it."""
        self.heard.append(message)

    def on_chat_list_removed(self, message: ChatList.Removed) -> None:
        """Keep it."""
        self.heard.append(message)

    def on_chat_list_renamed(self, message: ChatList.Renamed) -> None:
        """Keep it."""
        self.heard.append(message)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with three chats, "third" being the last used."""
    store = open_store(tmp_path / "chats.db").store
    for text in ("first about foxes", "second", "third"):
        say(store, text)
    return store


def say(store: Store, text: str) -> int:
    """A new chat with one message."""
    chat = store.create()
    store.add(chat.id, None, Role.USER, text)
    return chat.id


def drive(store: Store, steps: Callable[[Pilot[None], Listed], Awaitable[None]]) -> None:
    """Run steps on a fresh app."""

    async def go() -> None:
        app = Listed(store)
        async with app.run_test(size=(40, 24)) as pilot:
            await pilot.pause()
            await steps(pilot, app)

    asyncio.run(go())


def test_days_in_words() -> None:
    """Guards the headings, around midnight and new year."""
    today = date(2026, 1, 2)
    moments = {
        "Today": datetime(2026, 1, 2, 0, 0),
        "Yesterday": datetime(2026, 1, 1, 23, 59),
        "Wednesday": datetime(2025, 12, 31),
        "Saturday": datetime(2025, 12, 27),
        "December 2025": datetime(2025, 12, 26),
    }
    assert {day(moment.timestamp(), today): moment for moment in moments.values()} == moments
    assert day(datetime(2026, 1, 3, 9).timestamp(), today) == "Today"  # a clock that was wrong
    assert day(datetime(2026, 3, 5).timestamp(), date(2026, 12, 1)) == "5 March"


def test_lines_are_short_and_show_the_word() -> None:
    """Guards a title of a megabyte, and a snippet whose word lies beyond the edge of the list."""
    assert line("a\n\tb \x1b") == "a b ␛"
    assert len(line("x" * 10**6)) == 200
    assert around("short fox", "FOX") == "short fox"
    assert around("a long way before the fox comes", "fox") == "…ore the fox comes"
    assert around("nothing of it", "fox") == "nothing of it"


def test_chats_are_listed_and_opened(store: Store) -> None:
    """Guards the way from the list to a chat, with keys alone."""

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        app.chats.refresh_chats(2)
        text = screen_text(app)
        assert text.index("Today") < text.index("third") < text.index("▸ second") < text.index("first")
        await pilot.press("home", "down", "down", "enter")
        assert isinstance(app.heard[0], ChatList.Opened)
        assert (app.heard[0].chat_id, app.heard[0].node_id) == (1, None)

    drive(store, steps)


def test_an_empty_store_says_so(tmp_path: Path) -> None:
    """Guards keys that have nothing to work on."""

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        assert "No chats yet." in screen_text(app)
        await pilot.press("enter", "ctrl+e", "ctrl+d", "ctrl+u", "down", "up", "slash", "enter", "x")
        await wait_until(pilot, lambda: "Nothing found." in screen_text(app))
        assert app.heard == []

    drive(open_store(tmp_path / "empty.db").store, steps)


def test_titles_cannot_act(tmp_path: Path) -> None:
    """Guards titles with markup, escape codes, newlines and direction overrides: shown, never obeyed."""
    store = open_store(tmp_path / "chats.db").store
    say(store, "[b]x[/b] [@click=q]y[/]")
    say(store, "red \x1b[31m \x1b]52;c;AAAA\x07 \u202e evil [/")

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        text = screen_text(app)
        assert "[b]x[/b] [@click=q]y[/]" in text
        assert "red ␛[31m" in text
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        await pilot.press("slash", *"evil")
        await wait_until(pilot, lambda: "click" not in screen_text(app))
        assert not {"\x1b", "\x07", "\u202e"} & set(screen_text(app))

    drive(store, steps)


def test_search_finds_words_in_messages(store: Store) -> None:
    """Guards the search: it opens the message that was found, and escape brings the list back."""
    chat = store.chat(2)
    node = store.add(2, chat.leaf, Role.ASSISTANT, "a long reply about elephants")

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        await pilot.press("slash", *"elephant")
        await wait_until(pilot, lambda: "elephants" in screen_text(app))
        assert "third" not in screen_text(app)
        await pilot.press("enter")
        assert isinstance(app.heard[0], ChatList.Opened)
        assert (app.heard[0].chat_id, app.heard[0].node_id) == (2, node.id)
        await pilot.press("escape")
        await wait_until(pilot, lambda: "third" in screen_text(app))
        await pilot.press(*'(* OR "', "down", "enter")
        await pilot.pause()

    drive(store, steps)


def test_enter_waits_for_what_was_searched(store: Store) -> None:
    """Guards a quick Enter, which would open a chat of the list as it was before the search."""

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        await pilot.press("slash")
        for key in ("f", "o", "x", "enter"):
            app.post_message(events.Key(key, key if len(key) == 1 else "\r"))
        await wait_until(pilot, lambda: bool(app.heard))
        assert isinstance(app.heard[0], ChatList.Opened)
        assert app.heard[0].chat_id == 1

    drive(store, steps)


def test_hits_of_one_chat_stand_together(store: Store) -> None:
    """Guards a message that is listed below the title of another chat."""
    for chat in (1, 2, 1):
        store.add(chat, store.chat(chat).leaf, Role.ASSISTANT, f"elephant of {chat}")

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        await pilot.press(*"elephant")
        await wait_until(pilot, lambda: "elephant of 2" in screen_text(app))
        lines = [text.strip() for text in screen_text(app).splitlines()[2:7]]
        assert lines == ["first about foxes", "elephant of 1", "elephant of 1", "second", "elephant of 2"]

    drive(store, steps)


def test_a_title_is_found_once(store: Store) -> None:
    """Guards a chat that is listed twice because its title is its first message."""

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        await pilot.press("slash", *"fox")
        await wait_until(pilot, lambda: "third" not in screen_text(app))
        assert screen_text(app).count("first about foxes") == 1

    drive(store, steps)


def test_rename(store: Store) -> None:
    """Guards the new name: one line, not blank, and only what the user meant."""

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        await pilot.press("home", "ctrl+e")
        assert "third" in screen_text(app).splitlines()[-1]
        await pilot.press("ctrl+u", *"[b]new[/b]", "enter")
        await wait_until(pilot, lambda: "[b]new[/b]" in screen_text(app))
        assert store.chat(3).title == "[b]new[/b]"
        assert isinstance(app.heard[0], ChatList.Renamed)
        await pilot.press("ctrl+e", "ctrl+u", "space", "enter")
        assert store.chat(3).title == "[b]new[/b]"
        await pilot.press("ctrl+e", *"lost", "escape", "ctrl+e", "tab")
        await pilot.pause()
        assert store.chat(3).title == "[b]new[/b]"
        assert not app.query_one("#rename-chat").display

    drive(store, steps)


def test_delete_and_bring_back(store: Store) -> None:
    """Guards a slip of the finger: each deleted chat comes back, the last one first."""

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        await pilot.press("home", "ctrl+d", "delete")
        await wait_until(pilot, lambda: len(app.heard) == 2)
        assert [message.chat_id for message in app.heard if isinstance(message, ChatList.Removed)] == [3, 2]
        assert "third" not in screen_text(app)
        assert any("“third”. Ctrl+U brings it back." in text for text in app.told)
        await pilot.press("ctrl+u")
        assert [chat.id for chat in store.chats()] == [2, 1]
        await pilot.press("ctrl+u", "ctrl+u")
        assert [chat.id for chat in store.chats()] == [3, 2, 1]
        assert any("Nothing was deleted" in text for text in app.told)

    drive(store, steps)


def test_letters_are_searched_and_never_commands(store: Store) -> None:
    """Guards against deleting a chat by typing: keys that wait while the screen is busy still reach the list."""

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        for key in ("slash", "d", "r", "u"):
            app.post_message(events.Key(key, "/" if key == "slash" else key))
        await wait_until(pilot, lambda: "dru" in screen_text(app))
        assert len(store.chats()) == 3
        await pilot.press("escape")
        app.chats.focus_list()
        await pilot.press(*"third d")
        await wait_until(pilot, lambda: "Nothing found." in screen_text(app))
        await pilot.press("backspace", "backspace")
        await wait_until(pilot, lambda: "  third" in screen_text(app))
        assert len(store.chats()) == 3

    drive(store, steps)


def test_a_broken_store_is_one_sentence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the screen against a disk that fails, at every key."""

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        def fail(*_: object, **__: object) -> None:
            raise StoreError("The chats cannot be read: disk I/O error.", "Look at the disk.")

        for name in ("chats", "chat", "save", "delete", "restore", "search"):
            monkeypatch.setattr(store, name, fail)
        await pilot.press("home", "ctrl+e", "ctrl+d", "ctrl+u", "slash", "x")
        app.chats.refresh_chats(None)
        await wait_until(pilot, lambda: len(app.told) >= 3)
        assert set(app.told) <= {
            "The chats cannot be read: disk I/O error. Look at the disk.",
            "Nothing was deleted since localchat started.",
        }

    drive(store, steps)


def test_ten_thousand_chats_stay_quick(tmp_path: Path) -> None:
    """Guards the time of the list; the limit is loose, because tests share the cores."""
    store = open_store(tmp_path / "chats.db").store
    chat = say(store, "seed")
    with store._writing() as db:
        row = "title || ' ' || n, created, updated - 3600 * n, system, sampling, accelerate, leaf"
        db.execute(
            f"""WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 10000)
            INSERT INTO chat (title, created, updated, system, sampling, accelerate, leaf)
            SELECT {row} FROM chat, count WHERE id = {chat}"""
        )

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        start = time.monotonic()
        app.chats.refresh_chats(None)
        assert time.monotonic() - start < 0.5
        assert app.chats.rows.option_count < 2 * PAGE
        await pilot.press("end", "enter")
        await wait_until(pilot, lambda: app.chats.rows.option_count > 5 * PAGE)
        await pilot.press("pagedown", "pageup", "down")

    drive(store, steps)


def test_the_cursor_stays_where_it_is(store: Store) -> None:
    """Guards the cursor against the refresh at the end of each reply."""

    async def steps(pilot: Pilot[None], app: Listed) -> None:
        await pilot.press("home", "down")
        say(store, "fourth")
        app.chats.refresh_chats(3)
        await pilot.press("enter")
        assert isinstance(app.heard[0], ChatList.Opened)
        assert app.heard[0].chat_id == 2

    drive(store, steps)
