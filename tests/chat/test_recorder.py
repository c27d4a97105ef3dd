"""The recorder: a reply reaches the disk while it is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from localchat.chat import recorder as recorder_module
from localchat.chat.conversation import Role
from localchat.chat.events import Failed, Finished, Memory, Prefilling, Usage
from localchat.chat.recorder import Recorder
from localchat.chat.store import Node, State, Store, StoreError, Summary, Written
from localchat.engine.types import StopReason
from tests.chat.stores import opened, reply, said, wrote


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return opened(tmp_path / "chats.db")


@pytest.fixture
def node(store: Store) -> Node:
    """A reply that begins."""
    chat, nodes = said(store, ("Hi",))
    return store.add(chat.id, nodes[0].id, Role.ASSISTANT, "", State.WRITING)


def soon(true: Callable[[], bool], seconds: float = 5.0) -> float:
    """How long it took until it was true."""
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < seconds
        time.sleep(0.005)
    return time.monotonic() - begun


def test_a_finished_reply_is_kept_whole(store: Store, node: Node) -> None:
    """Guards text, state, figures and tokens of the usual case."""
    recorder = Recorder(store, node)
    events = (Prefilling(1, 2), wrote(0), Memory(Usage()), wrote(1), Finished(reply()))
    for event in events:
        recorder(event)
    recorder.close()
    found = store.node(node.id)
    assert (found.text, found.state, found.summary) == ("abab", State.COMPLETE, Summary.of(reply()))
    assert store.written(node.id) == Written(reply(), (wrote(0), wrote(1)), 0)
    assert recorder.problem == ""


def test_a_continued_reply_keeps_its_beginning(store: Store, node: Node) -> None:
    """Guards against a continuation that replaces what stood there."""
    recorder = Recorder(store, node, "so far, ")
    recorder(wrote(0))
    recorder(Finished(reply("ab", rounds=1)))
    recorder.close()
    assert store.node(node.id).text == recorder.text == "so far, ab"
    kept = store.written(node.id)
    assert kept is not None
    assert kept.start == 8


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (Finished(reply("ab", 1, StopReason.CANCELLED)), State.STOPPED),
        (Finished(reply("ab", 1, StopReason.LENGTH)), State.COMPLETE),
        (Failed("engine", "It died.", ""), State.FAILED),
        (None, State.STOPPED),
    ],
)
def test_every_end_keeps_the_text(store: Store, node: Node, event: Finished | Failed | None, state: State) -> None:
    """Guards the text when a reply is stopped, fails, or the program leaves in the middle."""
    recorder = Recorder(store, node)
    recorder(wrote(0))
    if event is not None:
        recorder(event)
    recorder.close()
    recorder.close()
    assert (store.node(node.id).text, store.node(node.id).state) == ("ab", state)


def test_half_a_second_is_the_most_that_is_lost(store: Store, node: Node) -> None:
    """Guards the promise: after each word, the time until it is on the disk."""
    recorder = Recorder(store, node)
    longest = 0.0
    for turn in range(6):
        recorder(wrote(turn))
        longest = max(longest, soon(lambda: store.node(node.id).text == recorder.text))
        time.sleep(0.07 * turn)  # at another moment of the recorder's beat each time
    recorder.close()
    print(f"longest time until saved: {longest:.3f} s")
    assert longest <= 0.5


def test_an_end_is_saved_at_once(store: Store, node: Node) -> None:
    """Guards against a finished reply that waits for the beat."""
    recorder = Recorder(store, node)
    soon(lambda: store.node(node.id).updated > node.updated)  # a beat has just passed
    recorder(Finished(reply()))
    assert soon(lambda: store.written(node.id) is not None) < 0.2
    recorder.close()


def test_a_silent_reply_still_lives(store: Store, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a second window that offers to continue a reply whose prompt is still being read."""
    monkeypatch.setattr(recorder_module, "_SIGN_OF_LIFE", 0.1)
    recorder = Recorder(store, node)
    for _ in range(3):
        seen = store.node(node.id).updated
        soon(lambda seen=seen: store.node(node.id).updated > seen)  # type: ignore[misc]
    recorder.close()


def test_a_full_disk_is_told_and_tried_again(store: Store, node: Node) -> None:
    """Guards the text while nothing can be saved, and that saving goes on when it can."""
    limit = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {limit}")
    recorder = Recorder(store, node)
    recorder(wrote(0, "x" * 100_000))
    soon(lambda: recorder.problem != "")
    assert "full" in recorder.problem
    with pytest.raises(StoreError, match="full"):
        store.keep(node.id, "x" * 100_000, State.WRITING)
    recorder(wrote(1, "and more"))
    assert recorder.text == "x" * 100_000 + "and more"
    store._db.execute("PRAGMA max_page_count = 1000000")
    soon(lambda: store.node(node.id).text == recorder.text)
    assert recorder.problem == ""
    recorder.close()


def test_a_full_disk_does_not_keep_the_program_open(store: Store, node: Node) -> None:
    """Guards against leaving that hangs, and a problem that nobody can read after it."""
    limit = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {limit}")
    recorder = Recorder(store, node)
    recorder(wrote(0, "x" * 100_000))
    begun = time.monotonic()
    recorder.close()
    assert time.monotonic() - begun < 1.0
    assert recorder.problem
    assert len(recorder.text) == 100_000
    assert store.node(node.id).text == ""
