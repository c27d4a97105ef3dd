"""The store on a bad day: read-only, locked, damaged, newer, full. Opening never fails, and nothing is thrown away."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from localchat.chat import opening
from localchat.chat.conversation import Role
from localchat.chat.store import Opened, State, StoreError, open_store
from tests.chat.stores import opened, said


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with one chat."""
    store = opened(tmp_path / "chats.db")
    said(store, ("the old chat", "yes"))
    store.close()
    return tmp_path / "chats.db"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """As a user to whom file rights apply: they do not to root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def works(found: Opened) -> None:
    """New chats can be made, found and read."""
    chat, nodes = said(found.store, ("a new chat", "sure"))
    assert [hit.chat for hit in found.store.search("new")] == [chat.id]
    assert [node.text for node in found.store.path(nodes[-1].id)] == ["a new chat", "sure"]


def in_memory(found: Opened, *words: str) -> None:
    """It stands in for the file, and says why."""
    assert not found.store.lasting
    assert "kept in memory until you leave. " in found.notice
    assert all(word in found.notice for word in words)
    works(found)


def titles(found: Opened) -> list[str]:
    """Of the chats there are."""
    return [chat.title for chat in found.store.chats()]


@pytest.mark.parametrize("still_open", [False, True])
def test_read_only(shared: Path, still_open: bool) -> None:
    """Guards the old chats, also those that are not in the main file yet, and new ones for this session."""
    path = shared / "chats.db"
    writer = opened(path)
    said(writer, ("the old chat", "yes"))
    if not still_open:
        writer.close()
    for part in shared.iterdir():
        part.chmod(0o444)
    shared.chmod(0o555)
    before = path.read_bytes()
    with nobody():
        found = open_store(path)
        assert titles(found) == ["the old chat"]
        in_memory(found, str(path), "Permission denied", "your chats are shown")
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_written(shared: Path) -> None:
    """Guards a first start where nothing can be kept."""
    with nobody():
        found = open_store(shared / "deeper" / "chats.db")
        assert titles(found) == []
        in_memory(found, "Permission denied")


def test_a_path_that_is_no_file(tmp_path: Path) -> None:
    """Guards against a traceback for a folder, or for a file where the folder should be."""
    in_memory(open_store(tmp_path), "directory")
    (tmp_path / "file").touch()
    in_memory(open_store(tmp_path / "file" / "chats.db"), "cannot be written")


@pytest.mark.parametrize("mode", ["NORMAL", "EXCLUSIVE"])
def test_locked_while_opening(file: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Guards against a start that hangs or fails because another program holds the file."""
    monkeypatch.setattr(opening, "_OPENING_SECONDS", 0.05)
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute(f"PRAGMA locking_mode = {mode}")
    holder.execute("BEGIN EXCLUSIVE")
    found = open_store(file)
    assert titles(found) == ["the old chat"]
    in_memory(found, "held by another program", "your chats are shown")
    holder.execute("ROLLBACK")
    holder.close()
    assert open_store(file).notice == ""


def test_locked_while_working(file: Path) -> None:
    """Guards against lost work: it is told, and works when it is tried again."""
    store = opened(file)
    store._db.execute("PRAGMA busy_timeout = 20")
    chat = store.chats()[0]
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="Another program"):
        store.add(chat.id, chat.leaf, Role.USER, "kept")
    assert store.search("old")  # reading goes on
    holder.execute("ROLLBACK")
    assert store.add(chat.id, chat.leaf, Role.USER, "kept").text == "kept"


def test_a_newer_file_is_left_alone(file: Path) -> None:
    """Guards a newer localchat's chats against an older one."""
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = file.read_bytes()
    found = open_store(file)
    in_memory(found, "newer localchat", "left alone", "Update")
    found.store.close()
    assert file.read_bytes() == before


@pytest.mark.parametrize("damage", [b"not a database" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_no_database_is_kept_aside(tmp_path: Path, damage: bytes) -> None:
    """Guards against a start that fails for ever, and against deleting what could still be rescued."""
    path = tmp_path / "chats.db"
    path.write_bytes(damage)
    found = open_store(path)
    (aside,) = tmp_path.glob("chats.db.corrupt-*")
    assert aside.read_bytes() == damage
    assert str(aside) in found.notice
    assert found.store.lasting
    works(found)
    assert open_store(path).notice == ""


def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    """Guards against calling a file damaged that a full disk left empty."""
    (tmp_path / "chats.db").touch()
    assert open_store(tmp_path / "chats.db").notice == ""


def test_damage_met_while_working_is_settled_at_the_next_start(tmp_path: Path) -> None:
    """Guards against damage deep in the file: in words while working, kept aside at the next start."""
    path = tmp_path / "chats.db"
    store = opened(path)
    for turn in range(40):
        said(store, (f"chat {turn}", "words " * 500))
    store.close()
    whole = bytearray(path.read_bytes())
    pages = len(whole) // 4096
    for page in range(pages // 2, pages):  # the first pages, which opening reads, stay
        whole[4096 * page : 4096 * (page + 1)] = b"\xa5" * 4096
    path.write_bytes(whole)
    found = open_store(path)
    assert found.notice == ""
    chats = found.store.chats()
    with pytest.raises(StoreError, match="damaged") as caught:
        [found.store.nodes(chat.id) for chat in chats]
    assert "start again" in caught.value.hint
    found.store.close()
    again = open_store(path)
    assert "kept as" in again.notice
    assert not opening.mark(path).exists()
    works(again)


@pytest.mark.parametrize("seed", range(60))
def test_no_damage_is_a_traceback(file: Path, seed: int) -> None:
    """Guards against an exception that no screen expects, whatever bytes are wrong."""
    odds = random.Random(seed)
    whole = bytearray(file.read_bytes())
    for _ in range(odds.choice([1, 10, 200])):
        whole[odds.randrange(len(whole))] = odds.randrange(256)
    if seed % 4 == 0:
        del whole[odds.randrange(len(whole)) :]
    file.write_bytes(whole)
    found = open_store(file)
    with contextlib.suppress(StoreError):
        for chat in found.store.chats():
            found.store.nodes(chat.id)
            if chat.leaf:
                found.store.path(chat.leaf)
        found.store.search("old")
        works(found)


def test_a_full_disk_while_working(file: Path) -> None:
    """Guards what is kept already, and that work goes on when there is room again."""
    store = opened(file)
    chat = store.chats()[0]
    with full_disk(100_000):
        with pytest.raises(StoreError, match="disk is full"):
            [store.add(chat.id, chat.leaf, Role.USER, "x" * 50_000) for _ in range(50)]
        assert store.search("old")
    kept = store.totals(chat.id).messages
    store.add(chat.id, store.chat(chat.id).leaf, Role.USER, "room again")
    store.close()
    store = opened(file)
    assert store.totals(chat.id).messages == kept + 1
    with sqlite3.connect(file) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_full_disk_at_the_first_start(tmp_path: Path) -> None:
    """Guards against a program that does not start on a full disk, or leaves half a store behind."""
    path = tmp_path / "chats.db"
    with full_disk(0):
        found = open_store(path)
    in_memory(found, "disk")
    found.store.close()
    assert open_store(path).notice == ""


def test_a_closed_store_says_so(file: Path) -> None:
    """Guards the recorder that is late when the program leaves."""
    store = opened(file)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.chats()
    with pytest.raises(StoreError, match="closed"):
        store.keep(1, "text", State.COMPLETE)
