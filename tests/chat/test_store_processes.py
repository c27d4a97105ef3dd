"""The store with others: threads, second processes, and processes that are killed."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from localchat.chat.conversation import Role
from localchat.chat.store import State, Store, open_store
from tests.chat.stores import opened, said

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("LOCALCHAT_TEST_KILLS", "8"))


def child(path: Path, *arguments: str) -> subprocess.Popen[str]:
    """Another process on the same store."""
    command = [sys.executable, "-m", "tests.chat.store_child", str(path), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(children: Sequence[subprocess.Popen[str]]) -> list[str]:
    """What they told."""
    told = []
    for process in children:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        told.append(out)
    return told


def sound(path: Path) -> None:
    """The file and the index of its words are in order."""
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        db.execute("INSERT INTO found (found, rank) VALUES ('integrity-check', 1)")
        db.execute("INSERT INTO titled (titled, rank) VALUES ('integrity-check', 1)")
    db.close()


@pytest.mark.parametrize("exists", [False, True])
def test_processes_do_not_hurt_each_other(tmp_path: Path, exists: bool) -> None:
    """Guards against lost messages and "database is locked", also when two processes make the file at once."""
    path = tmp_path / "chats.db"
    if exists:
        said(opened(path))
    told = finished([child(path, "add", "60") for _ in range(4)])
    store = opened(path)
    chats = [int(words) for words in told]
    assert len(set(chats)) == 4
    for chat in chats:
        leaf = store.chat(chat).leaf
        assert leaf is not None
        assert [node.text for node in store.path(leaf)] == [f"turn {turn}" for turn in range(60)]
    sound(path)


def test_another_window_sees_what_was_said(tmp_path: Path) -> None:
    """Guards against a window that shows an old state, and a parent deleted under one's feet."""
    one, two = opened(tmp_path / "chats.db"), opened(tmp_path / "chats.db")
    chat, nodes = said(one)
    reply = two.add(chat.id, nodes[-1].id, Role.USER, "from the other")
    assert one.chat(chat.id).leaf == reply.id
    assert [node.text for node in one.path(reply.id)][-1] == "from the other"
    two.delete(chat.id)
    assert one.chats() == []


def test_threads_share_a_store(tmp_path: Path) -> None:
    """Guards against two threads in one transaction: the screen, the engine's thread and the recorder all call."""
    store, problems = opened(tmp_path / "chats.db"), []

    def work(name: int) -> None:
        try:
            chat, nodes = said(store, tuple(f"{name} {turn}" for turn in range(20)))
            for node in nodes:
                store.keep(node.id, f"{node.text} kept", State.COMPLETE)
                store.search(f"{name}")
            assert [node.text for node in store.nodes(chat.id)] == [f"{name} {turn} kept" for turn in range(20)]
        except Exception as error:  # noqa: BLE001 - carried to the test
            problems.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(store.chats()) == 6


def _killed(path: Path, seconds: float) -> tuple[list[list[str]], float]:
    """Run a writer, kill it that long after its first word; what it told, and when it was killed."""
    process = child(path, "write")
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(seconds)
    at = time.monotonic()
    process.send_signal(signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err
    return [line.split() for line in (first + out).splitlines(keepends=True) if line.endswith("\n")], at


def _check(store: Store, told: list[list[str]], killed: float) -> float:
    """Everything promised is there; returns the age of the oldest text that is not, in seconds."""
    lost = 0.0
    sizes: dict[int, int] = {}
    for kind, id_, *rest in told:
        node = store.node(int(id_))
        sizes[node.id] = len(node.text)
        if kind == "done":
            assert node.state is State.COMPLETE
            assert len(node.text) == int(rest[0])
            assert store.written(node.id) is not None
        elif kind == "heard" and int(rest[0]) > sizes[node.id]:
            lost = max(lost, killed - float(rest[1]))
    return lost


def test_kill_9_at_any_moment(tmp_path: Path) -> None:
    """Guards conversations and the file against the hardest end; at most half a second of a reply may go."""
    path, odds, worst, partial = tmp_path / "chats.db", random.Random(7), 0.0, 0
    for _ in range(KILLS):
        told, at = _killed(path, odds.uniform(0.0, 1.6))
        found = open_store(path)
        assert found.notice == ""
        worst = max(worst, _check(found.store, told, at))
        newest = found.store.latest()
        assert newest is not None
        assert newest.leaf is not None
        state = found.store.node(newest.leaf).state
        if state is State.WRITING:
            partial += 1
            assert [node.id for node in found.store.interrupted(newest.id)] == [newest.leaf]
        found.store.close()
        sound(path)
    print(f"{KILLS} kills, {partial} in the middle of a reply, at most {worst:.3f} s of text lost")
    assert worst <= 0.5
