"""A bad day on the screen: one sentence, a way on, and nothing that was said is lost."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from localchat import config
from localchat.chat import opening
from localchat.chat.conversation import Role
from localchat.chat.database import Database
from localchat.chat.events import Failed
from localchat.chat.store import Opened, State, Store, StoreError, open_store
from localchat.models.plan import LoadPlan
from localchat.tui import clipboard
from localchat.tui.app import LocalChat
from localchat.tui.desk import Desk
from localchat.tui.host import Host
from localchat.tui.keys import ACTIONS
from localchat.tui.screens.settings import SettingsScreen
from localchat.tui.widgets.banner import Banner
from localchat.worker.client import Worker
from tests.support.backend import Scripted
from tests.support.child import command
from tests.tui.conftest import MakeApp
from tests.tui.support import screen_text, wait_until
from tests.tui.test_chat import anyio_backend, chat_of, running, say, settled

pytestmark = pytest.mark.anyio

__all__ = ["anyio_backend"]

LONG = "word " * 60
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


def over(found: Opened) -> LocalChat:
    """The app over a store, with what opening it had to say."""
    none = config.File(Path("config.toml"))
    desk = Desk(Host(Scripted()), found.store, none, config.resolve(none, {}, {}), LoadPlan())
    return LocalChat(desk, notices=tuple(filter(None, [found.notice])))


def flat(app: LocalChat) -> str:
    """The words of the screen in small letters, wherever lines and boxes break them."""
    words = [word for word in screen_text(app).split() if word.strip("▌│▎▏▕┃")]
    toasts = [str(toast.render()) for toast in app.screen.query(Toast) if toast.region]  # over other words
    return " ".join((*words, *toasts)).lower()


async def shows(pilot: Pilot[Any], app: LocalChat, *words: str) -> None:
    """Wait for words on the screen."""
    try:
        await wait_until(pilot, lambda: all(each.lower() in flat(app) for each in words))
    except AssertionError:
        raise AssertionError(screen_text(app)) from None


@asynccontextmanager
async def speaking(app: LocalChat, size: tuple[int, int] = (160, 40)) -> AsyncIterator[Pilot[Any]]:
    """The app, with its model loaded, and with what it has to say."""
    async with app.run_test(size=size, notifications=True) as pilot:
        await wait_until(pilot, lambda: app.desk.loaded is not None and not app.desk.host.busy)
        yield pilot


async def works(pilot: Pilot[Any], app: LocalChat, question: str = "Still there?") -> None:
    """A question is answered."""
    await say(pilot, app, question)
    await settled(pilot, app)
    assert question in screen_text(app), screen_text(app)
    assert "Drafts are guesses." in screen_text(app)


def said(store: Store) -> list[str]:
    """The texts of the newest chat."""
    chat = store.latest()
    return [node.text for node in store.path(chat.leaf or 0)] if chat else []


# -- the terminal


@pytest.mark.parametrize("size", [(10, 5), (1, 1), (3, 40), (200, 1)])
async def test_a_tiny_terminal(make_app: MakeApp, store: Store, size: tuple[int, int]) -> None:
    """Guards against a crash where nothing can be seen: what is typed is answered and kept all the same."""
    app = make_app(Scripted())
    async with running(app, size) as pilot:
        await pilot.press(*"Hello", "enter")
        await settled(pilot, app)
        for key in ("f4", "f6", "ctrl+o", "f1", "escape"):
            await pilot.press(key)
        await pilot.resize_terminal(100, 30)
        await wait_until(pilot, lambda: "Drafts are guesses." in screen_text(app))
    assert said(store) == ["Hello", "Drafts are guesses."]


async def test_resizing_while_a_reply_is_written(make_app: MakeApp) -> None:
    """Guards against lost text or a dead view: every size on the way is survived, and the end shows the end."""
    app = make_app(Scripted(text=LONG + "the end.", delay=0.005))
    async with running(app) as pilot:
        await say(pilot, app, "Go.")
        for size in [(80, 24), (10, 5), (300, 90), (1, 1), (99, 30), (151, 24), (120, 40)]:
            await pilot.resize_terminal(*size)
            await pilot.pause(0.05)
        await settled(pilot, app)
        await shows(pilot, app, "the end.")
        turn = chat_of(app).transcript.last(Role.ASSISTANT)
        assert turn is not None
        assert turn.text == LONG + "the end."


# -- the store


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


# -- settings, themes, clipboard


async def test_a_broken_theme(home: Path, make_app: MakeApp) -> None:
    """Guards a typing error in a theme: its file and line are named, and the default is used."""
    folder = home / "config" / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('name = "mine"\nbase = "dark"\nprimary = \n')
    app = make_app(Scripted(), theme="mine")
    async with speaking(app) as pilot:
        await shows(pilot, app, "mine.toml", "line 3")
        assert app.theme == "dark"
        await works(pilot, app)


async def test_no_clipboard(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards servers: copying claims no more than what is certain."""
    monkeypatch.setattr(clipboard, "program", lambda: ())
    app = make_app(Scripted())
    async with speaking(app) as pilot:
        await works(pilot, app)
        await pilot.press("alt+y")
        await shows(pilot, app, "Sent to the terminal's clipboard.")


# -- the engine


@contextmanager
def real_child(scripted: Scripted) -> Iterator[Worker]:
    """A scripted engine in a process of its own."""
    worker = Worker(command(scripted))
    worker.start()
    yield worker
    worker.close()


async def killed(pilot: Pilot[Any], app: LocalChat, worker: Worker) -> None:
    """Kill the engine; the screen says so, and how to go on."""
    await wait_until(pilot, lambda: worker.pid > 0)
    os.kill(worker.pid, signal.SIGKILL)
    await shows(
        pilot, app, "The engine was killed, most likely because memory ran out.", "alt+z starts the engine again."
    )


async def restarted(pilot: Pilot[Any], app: LocalChat) -> None:
    """The way on leads somewhere."""
    await wait_until(pilot, lambda: not app.desk.host.busy)
    await pilot.press("alt+z")
    await wait_until(pilot, lambda: app.desk.loaded is not None and not app.desk.host.busy)
    assert not chat_of(app).query_one(Banner).display


async def test_the_engine_dies_while_it_loads(make_app: MakeApp) -> None:
    """Guards the first minute."""
    with real_child(Scripted(load_steps=3, load_delay=0.5)) as worker:
        app = make_app(worker)
        async with app.run_test(size=(120, 40)) as pilot:
            await wait_until(pilot, lambda: app.desk.live.loading is not None)
            await killed(pilot, app, worker)
            await restarted(pilot, app)
            await works(pilot, app)


async def test_the_engine_dies_while_it_loads_and_a_message_waits(make_app: MakeApp) -> None:
    """Guards the message that was sent before the model was ready: it stays, and can be asked again."""
    with real_child(Scripted(load_steps=3, load_delay=0.5)) as worker:
        app = make_app(worker)
        async with app.run_test(size=(120, 40)) as pilot:
            await wait_until(pilot, lambda: app.desk.live.loading is not None)
            await say(pilot, app, "Early bird")
            await killed(pilot, app, worker)
            await restarted(pilot, app)
            await shows(pilot, app, "Early bird")
            await pilot.press("ctrl+r")
            await settled(pilot, app)
            await shows(pilot, app, "Drafts are guesses.")


async def test_the_engine_dies_while_it_reads(make_app: MakeApp) -> None:
    """Guards a long prompt: the question stays and can be asked again."""
    with real_child(Scripted(prefill_steps=5, on_round=wait_a_little)) as worker:
        app = make_app(worker)
        async with running(app) as pilot:
            await say(pilot, app, "A long one")
            await wait_until(pilot, lambda: app.desk.live.prefill is not None)
            assert not app.desk.live.stats.tokens
            await killed(pilot, app, worker)
            await settled(pilot, app)
            assert [turn.node.role for turn in chat_of(app).transcript.turns] == [Role.USER]
            await restarted(pilot, app)
            await pilot.press("ctrl+r")
            await settled(pilot, app)
            await shows(pilot, app, "A long one", "Drafts are guesses.")


def wait_a_little(round_: int) -> None:
    """Time to be killed before the first word."""
    import time

    if not round_:
        time.sleep(1.0)


async def test_the_engine_dies_while_it_writes(make_app: MakeApp, store: Store) -> None:
    """Guards the reply: what was on the screen stays there and in the store, and can be continued."""
    with real_child(Scripted(text=LONG, delay=0.02)) as worker:
        app = make_app(worker)
        async with running(app) as pilot:
            await say(pilot, app, "Go.")
            await wait_until(pilot, lambda: app.desk.live.stats.tokens > 20)
            before = app.desk.live.stats.tokens
            await killed(pilot, app, worker)
            await settled(pilot, app)
            part = said(store)[-1]
            assert len(part) >= 2 * before
            assert LONG.startswith(part)
            await restarted(pilot, app)
            await pilot.press("alt+k")
            await settled(pilot, app)
            assert said(store) == ["Go.", part + LONG]


async def test_the_engine_dies_while_nothing_happens(make_app: MakeApp) -> None:
    """Guards against finding out only with the next question."""
    with real_child(Scripted()) as worker:
        app = make_app(worker)
        async with running(app) as pilot:
            await works(pilot, app, "One")
            os.kill(worker.pid, signal.SIGKILL)
            await shows(pilot, app, "The engine has ended by itself.", "alt+z")
            await restarted(pilot, app)
            await works(pilot, app, "Two")


async def test_memory_runs_out_while_loading(make_app: MakeApp) -> None:
    """Guards the first thing a large model may do: why, what would fit, and the way there."""
    backend = Scripted(load_failure=Failed("fit", "It needs 9 GiB; 8 are free.", "Would fit: nf4."))
    app = make_app(backend)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, app, "It needs 9 GiB; 8 are free.", "Would fit: nf4.", "alt+s opens the settings")
        await pilot.press("alt+s")
        await wait_until(pilot, lambda: isinstance(app.screen, SettingsScreen))
        backend.load_failure = None
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.screen is chat_of(app))
        await pilot.press("alt+z")
        await wait_until(pilot, lambda: app.desk.loaded is not None)
        await works(pilot, app)


async def test_memory_runs_out_while_writing(make_app: MakeApp, store: Store) -> None:
    """Guards the reply and the engine: the part stays, the model is still there, a smaller plan is one key away."""
    failed = Failed("fit", "Memory ran out while writing.", "A shorter context leaves more room.")
    backend = Scripted(text=LONG, reply_failure=failed, fail_after=5)
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "Go.")
        await settled(pilot, app)
        await shows(pilot, app, failed.title, failed.hint, "alt+s opens the settings", "word word")
        assert LONG.startswith(said(store)[-1])
        assert said(store)[-1]
        await pilot.press("alt+s")
        await wait_until(pilot, lambda: isinstance(app.screen, SettingsScreen))
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.screen is chat_of(app))
        backend.reply_failure, backend.text = None, "Drafts are guesses."
        await works(pilot, app)


async def test_a_model_that_is_gone(make_app: MakeApp) -> None:
    """Guards a folder that was deleted between the start and the load."""
    backend = Scripted(load_failure=Failed("model", "There is no model in /models/gone.", "Check the path."))
    app = make_app(backend)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, app, "There is no model in /models/gone.", "alt+s opens the settings")


async def test_a_question_without_a_model(make_app: MakeApp, store: Store) -> None:
    """Guards a question after a failed load: it is kept, and the way to an answer is said."""
    unloaded = Failed("generation", "No model is loaded.", "Load one first.")
    backend = Scripted(load_failure=Failed("fit", "It needs 9 GiB.", "Would fit: nf4."), reply_failure=unloaded)
    app = make_app(backend)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, app, "It needs 9 GiB.")
        await say(pilot, app, "Anyone?")
        await settled(pilot, app)
        await shows(pilot, app, "Anyone?", "No model is loaded.", "alt+s opens the settings")
    assert said(store) == ["Anyone?"]
