"""A store that fails under the screen: it is said, the chat goes on, and nothing that was said is lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from localchat.chat import opening
from localchat.chat.conversation import Role
from localchat.chat.database import Database
from localchat.chat.store import State, Store, StoreError, open_store
from localchat.tui.app import LocalChat
from localchat.tui.keys import ACTIONS
from tests.support.backend import Scripted
from tests.tui.conftest import MakeApp
from tests.tui.support import wait_until
from tests.tui.test_chat import anyio_backend, chat_of, running, say, settled
from tests.tui.trouble import LONG, over, said, shows, speaking, works

pytestmark = pytest.mark.anyio

__all__ = ["anyio_backend"]

FULL = StoreError("The disk is full, so this was not saved.", "Make room, then try again.")
DAMAGED = StoreError("The file of the chats is damaged.", "Leave and start again.")
STORED = [action.name for action in ACTIONS if action.where == "chat"] + ["accelerate", "tokens", "help", "commands"]


@dataclass
class Disk:
    """Whether it takes and gives anything."""

    full: StoreError | None = None
    broken: StoreError | None = None


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk of the store."""
    disk = Disk()
    reading, writing = Database._reading, Database._writing

    @contextmanager
    def read(self: Database) -> Iterator[sqlite3.Connection]:
        if disk.broken:
            raise disk.broken
        with reading(self) as db:
            yield db

    @contextmanager
    def write(self: Database) -> Iterator[sqlite3.Connection]:
        if disk.full:
            raise disk.full
        with writing(self) as db:
            yield db

    monkeypatch.setattr(Database, "_reading", read)
    monkeypatch.setattr(Database, "_writing", write)
    return disk


def opened(file: Path) -> LocalChat:
    """The app over a store file."""
    return over(open_store(file))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store with one chat."""
    store = open_store(tmp_path / "old" / "chats.db").store
    chat = store.create()
    user = store.add(chat.id, None, Role.USER, "the old chat")
    store.add(chat.id, user.id, Role.ASSISTANT, "yes")
    store.close()
    return tmp_path / "old" / "chats.db"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user can reach: to root, file rights do not apply."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


async def test_a_store_that_is_read_only(old: Path, shared: Path) -> None:
    """Guards the chats of a backup or of another user: they are shown, and new ones are kept until the end."""
    copy = shared / "chats.db"
    shutil.copyfile(old, copy)
    copy.chmod(0o444)
    shared.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        found = open_store(copy)
    finally:
        os.seteuid(os.getuid())
    app = over(found)
    async with speaking(app) as pilot:
        await shows(pilot, app, "kept in memory until you leave", "writable", "the old chat")
        await works(pilot, app)


async def test_a_store_that_another_program_holds(old: Path) -> None:
    """Guards against a start that hangs: the old chats are shown, and the way on is said."""
    with closing(sqlite3.connect(old, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        app = opened(old)
        async with speaking(app) as pilot:
            await shows(pilot, app, "held by another program", "Close that program")
            await works(pilot, app)


async def test_a_store_that_is_damaged(old: Path) -> None:
    """Guards the damaged file: it is kept aside under a name that is said, and a new one is started."""
    old.write_bytes(b"no database " * 400)
    app = opened(old)
    async with speaking(app) as pilot:
        await shows(pilot, app, "The chats were damaged", "a new file is started")
        await works(pilot, app)
    [aside] = old.parent.glob("chats.db.corrupt-*")
    assert aside.read_bytes() == b"no database " * 400
    with closing(open_store(old).store) as store:
        assert said(store) == ["Still there?", "Drafts are guesses."]


async def test_a_store_of_a_newer_version(old: Path) -> None:
    """Guards the newer file: not a byte of it changes."""
    with closing(sqlite3.connect(old)) as db:
        db.execute("PRAGMA user_version = 99")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = old.read_bytes()
    app = opened(old)
    async with speaking(app) as pilot:
        await shows(pilot, app, "newer localchat", "Update localchat")
        await works(pilot, app)
    assert old.read_bytes() == before


async def test_another_program_takes_the_store_while_a_reply_is_written(
    make_app: MakeApp, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a reply that is lost because a backup held the file for a moment."""
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.1)
    app = make_app(Scripted(text=LONG, delay=0.01))
    async with running(app) as pilot:
        await say(pilot, app, "Go.")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 4)
        with closing(sqlite3.connect(home / "data" / "chats.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await shows(pilot, app, "cannot be saved now: Another program holds the chats")
        await settled(pilot, app)
        await shows(pilot, app, "The reply is saved now.")
    assert said(store) == ["Go.", LONG]


async def test_the_disk_fills_up_while_a_reply_is_written(make_app: MakeApp, store: Store, disk: Disk) -> None:
    """Guards the reply: it is written to its end and stays on the screen, and is saved once there is room."""
    app = make_app(Scripted(text=LONG + "the end.", delay=0.005))
    async with running(app) as pilot:
        await say(pilot, app, "Go.")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 4)
        disk.full = FULL
        await shows(pilot, app, "The reply cannot be saved now: The disk is full", "make room")
        await wait_until(pilot, lambda: chat_of(app).talk.writing is None and chat_of(app)._turn is None)
        await shows(pilot, app, "the end.", "The reply cannot be saved now")
        disk.full = None
        await wait_until(pilot, lambda: said(store) == ["Go.", LONG + "the end."])
        await shows(pilot, app, "the end.", "The reply is saved now.")
        await works_long(pilot, app)


async def works_long(pilot: Pilot[Any], app: LocalChat) -> None:
    """The next question has the whole reply before it."""
    backend = app.desk.host.backend
    assert isinstance(backend, Scripted)
    await say(pilot, app, "And now?")
    await settled(pilot, app)
    assert backend.conversations[-1].messages[-2].text == LONG + "the end."


async def test_a_full_disk_gives_the_message_back(make_app: MakeApp, store: Store, disk: Disk) -> None:
    """Guards the message: it is not asked without being kept, and it is not lost."""
    app = make_app(Scripted())
    async with running(app) as pilot:
        disk.full = FULL
        await say(pilot, app, "An important question")
        await shows(pilot, app, "The message cannot be stored", "The disk is full", "An important question")
        assert chat_of(app).composer.value == "An important question"
        disk.full = None
        await pilot.press("enter")
        await settled(pilot, app)
    assert said(store) == ["An important question", "Drafts are guesses."]


async def test_leaving_with_a_full_disk(make_app: MakeApp, disk: Disk) -> None:
    """Guards the way out: it is never blocked by what cannot be saved."""
    app = make_app(Scripted(text=LONG, delay=0.02))
    async with running(app) as pilot:
        await say(pilot, app, "Go.")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 4)
        disk.full = FULL
        await pilot.press("a", "ctrl+q")
    assert app.return_code == 0


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("fault", ["full", "broken"])
async def test_no_key_ends_the_program_when_the_store_fails(
    make_app: MakeApp, disk: Disk, name: str, fault: str
) -> None:
    """Guards every key of the chat against an error that nobody catches: it is said, and the chat goes on."""
    app = make_app(Scripted())
    async with running(app) as pilot:
        await works(pilot, app, "First")
        setattr(disk, fault, FULL if fault == "full" else DAMAGED)
        screen = chat_of(app)
        await app.run_action(name, screen if hasattr(screen, f"action_{name}") else app)
        for _ in range(5):
            await pilot.pause(0.02)
        disk.full = disk.broken = None
        while app.screen is not screen:
            await pilot.press("escape")
        screen.composer.load_text("")
        await settled(pilot, app)
        await pilot.press("ctrl+n")
        await works(pilot, app, "Second")


async def test_an_interrupted_reply_on_a_full_disk(make_app: MakeApp, store: Store, disk: Disk) -> None:
    """Guards the start after a crash that a full disk caused: the chat opens, and shows what there is."""
    chat = store.create()
    user = store.add(chat.id, None, Role.USER, "Count.")
    store.add(chat.id, user.id, Role.ASSISTANT, "one two", State.WRITING)
    app = make_app(Scripted(), chat=chat.id)
    disk.full = FULL
    async with running(app) as pilot:
        await shows(pilot, app, "Count.", "one two")
        disk.full = None
        await works(pilot, app)


async def test_a_reply_cut_off_before_its_first_word(make_app: MakeApp, store: Store) -> None:
    """Guards against an empty reply that can neither be continued nor read: the question is there to be asked again."""
    chat = store.create()
    user = store.add(chat.id, None, Role.USER, "Count.")
    dead = store.add(chat.id, user.id, Role.ASSISTANT, "", State.WRITING)
    store._db.execute("UPDATE message SET updated = 0 WHERE id = ?", (dead.id,))
    app = make_app(Scripted(), chat=chat.id)
    async with running(app) as pilot:
        await shows(pilot, app, "Count.", "cut off before its first word", "ctrl+r")
        await pilot.press("ctrl+r")
        await settled(pilot, app)
        await shows(pilot, app, "Drafts are guesses.")
    assert said(store) == ["Count.", "Drafts are guesses."]
