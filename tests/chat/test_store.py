"""The store: chats, trees of messages, what belongs to them, versions of the file."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from localchat.chat import schema
from localchat.chat.conversation import Role
from localchat.chat.messages import CRASHED_SECONDS
from localchat.chat.store import MissingError, State, Store, StoreError, open_store
from localchat.engine.types import Sampling
from tests.chat.stores import HOSTILE, opened, said, summary, written


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "data" / "chats.db"


@pytest.fixture
def store(file: Path) -> Store:
    """An empty store."""
    return opened(file)


def test_a_chat_keeps_everything(store: Store, file: Path) -> None:
    """Guards against a field that is forgotten on the way to the disk and back."""
    chat = store.create("Be brief.", Sampling(temperature=0.2, top_k=5), accelerate=False)
    changed = replace(chat, title="T", preset="precise", seed=2**63 - 1, draft="half a th", system="Be long.")
    assert store.save(changed) == changed
    store.close()
    again = opened(file)
    assert again.chat(chat.id) == changed
    assert again.latest() == changed


def test_files_are_private(store: Store, file: Path) -> None:
    """Guards against chats that other users of the machine can read."""
    said(store)
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in file.parent.iterdir()} == {0o600}


def test_an_empty_chat_is_not_listed(store: Store) -> None:
    """Guards against a list full of chats in which nothing was ever said."""
    chat = store.create()
    assert store.chats() == []
    assert store.latest() is None
    store.keep_draft(chat.id, "h")
    assert [listed.id for listed in store.chats()] == [chat.id]


def test_the_list_begins_with_the_last_used(store: Store) -> None:
    """Guards the order, the limit, and that typing alone does not move a chat."""
    chats = [said(store, (f"chat {n}",))[0] for n in range(5)]
    store.add(chats[1].id, chats[1].leaf, Role.ASSISTANT, "later")
    store.keep_draft(chats[3].id, "typed")
    assert [chat.title for chat in store.chats(3)] == ["chat 1", "chat 4", "chat 3"]


@pytest.mark.parametrize(
    ("text", "title"),
    [("\n  Hello \t there\nmore", "Hello there"), ("x" * 80, "x" * 59 + "…"), (" \n ", ""), ("e" * 60, "e" * 60)],
)
def test_the_first_message_gives_the_title(store: Store, text: str, title: str) -> None:
    """Guards against titles of many lines, and against one that is replaced by the second message."""
    chat, nodes = said(store, (text,))
    assert chat.title == title
    store.save(replace(chat, title="mine"))
    store.add(chat.id, nodes[-1].id, Role.USER, "second")
    assert store.chat(chat.id).title == "mine"


def test_deleting_can_be_undone_until_the_purge(store: Store, file: Path) -> None:
    """Guards against a chat that is gone at once, and against one that never goes."""
    chat, nodes = said(store, ("needle", "hay"))
    store.keep_written(nodes[1].id, written())
    store.delete(chat.id)
    assert store.chats() == []
    assert store.search("needle") == []
    assert store.history() == []
    assert store.chat(chat.id).deleted
    store.restore(chat.id)
    assert [hit.chat for hit in store.search("hay")] == [chat.id]
    store.delete(chat.id)
    store.close()
    with sqlite3.connect(file) as db:
        db.execute("UPDATE chat SET deleted = ?", (time.time() - 31 * 86400,))
    again = opened(file)
    with pytest.raises(MissingError):
        again.chat(chat.id)
    with sqlite3.connect(file) as db:
        assert [db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("message", "written")] == [0, 0]
        db.execute("INSERT INTO found (found, rank) VALUES ('integrity-check', 1)")


def test_a_deep_chat_can_be_purged(store: Store) -> None:
    """Guards against SQLite's limit of 1,000 cascades, one in another."""
    chat, _ = said(store, ("x",) * 3000)
    store.delete(chat.id)
    store.purge(time.time() + 1)
    with pytest.raises(MissingError):
        store.chat(chat.id)


def test_the_tree(store: Store) -> None:
    """Guards edit, regenerate and walking between versions."""
    chat, (question, answer) = said(store)
    again = store.add(chat.id, question.id, Role.ASSISTANT, "Hello again")
    follow = store.add(chat.id, answer.id, Role.USER, "and?")
    edited = store.add(chat.id, None, Role.USER, "Hi!")
    assert store.versions(answer.id) == store.versions(again.id) == [answer.id, again.id]
    assert store.versions(question.id) == [question.id, edited.id]
    assert store.versions(follow.id) == [follow.id]
    assert [node.text for node in store.path(follow.id)] == ["Hi", "Hello", "and?"]
    assert [node.text for node in store.path(follow.id, last=2)] == ["Hello", "and?"]
    assert [store.count(node.id) for node in (question, again, follow, edited)] == [1, 2, 3, 1]
    assert store.tip(question.id) == follow.id  # where it went on last
    assert store.tip(again.id) == again.id
    assert store.chat(chat.id).leaf == edited.id
    assert [node.id for node in store.nodes(chat.id)] == [1, 2, 3, 4, 5]
    assert (store.path(99), store.versions(99), store.count(99), store.tip(99)) == ([], [], 0, 99)


def test_trees_do_not_mix(store: Store) -> None:
    """Guards against versions or tips from another chat: all first messages have no parent."""
    one, _ = said(store)
    two, nodes = said(store)
    assert store.versions(nodes[0].id) == [nodes[0].id]
    assert store.tip(nodes[0].id) == nodes[1].id
    with pytest.raises(MissingError):
        store.add(one.id, nodes[0].id, Role.USER, "into the wrong chat")
    with pytest.raises(MissingError):
        store.add(99, None, Role.USER, "into none")
    assert store.totals(one.id).messages == store.totals(two.id).messages == 2


def test_a_conversation_is_the_path_and_the_system_message(store: Store) -> None:
    """Guards against a prompt that differs from what the screen shows."""
    _, nodes = said(store, ("a", "b", "c"), store.create("Be brief."))
    found = store.conversation(nodes[1].id).messages
    assert [(message.role.value, message.text) for message in found] == [
        ("system", "Be brief."),
        ("user", "a"),
        ("assistant", "b"),
    ]


def test_a_reply_keeps_its_figures_and_tokens(store: Store) -> None:
    """Guards seed, settings, origins and infinities on the way to the disk and back."""
    chat, nodes = said(store)
    reply = nodes[1]
    store.keep(reply.id, "abab", State.STOPPED, summary())
    store.keep_written(reply.id, written(start=3))
    found = store.node(reply.id)
    assert (found.text, found.state, found.summary) == ("abab", State.STOPPED, summary())
    assert store.written(reply.id) == written(start=3)
    assert store.written(nodes[0].id) is None
    store.keep(reply.id, "longer", State.COMPLETE)
    assert store.node(reply.id).summary == summary()  # kept unless there is a new one
    totals = store.totals(chat.id)
    assert (totals.messages, totals.tokens) == (2, 4)
    assert totals.saved_seconds == pytest.approx(4 / 50 - 0.023)


def test_unreadable_tokens_do_not_cost_the_text(store: Store, file: Path) -> None:
    """Guards the reply when its token record or its figures are damaged or of another version."""
    _, nodes = said(store)
    store.keep_written(nodes[1].id, written())
    store.keep(nodes[1].id, "text", State.COMPLETE, summary())
    with sqlite3.connect(file) as db:
        db.execute("UPDATE written SET record = x'00'")
        db.execute("""UPDATE message SET summary = '{"model": 3}'""")
    with pytest.raises(StoreError, match="tokens"):
        store.written(nodes[1].id)
    assert (store.node(nodes[1].id).text, store.node(nodes[1].id).summary) == ("text", None)


def test_interrupted_replies(store: Store, file: Path) -> None:
    """Guards the offer after a crash, and against one for a reply that another window is writing right now."""
    chat, nodes = said(store, ("Hi",))
    reply = store.add(chat.id, nodes[0].id, Role.ASSISTANT, "", State.WRITING)
    store.keep(reply.id, "half a", State.WRITING)
    assert store.interrupted(chat.id) == []
    with sqlite3.connect(file) as db:
        db.execute("UPDATE message SET updated = updated - ?", (CRASHED_SECONDS + 1,))
    assert [node.text for node in store.interrupted(chat.id)] == ["half a"]
    store.alive(reply.id)
    assert store.interrupted(chat.id) == []


def test_a_reply_is_interrupted_as_soon_as_its_process_is_gone(store: Store, file: Path) -> None:
    """Guards the offer when the program is started again at once."""
    chat, nodes = said(store, ("Hi",))
    store.add(chat.id, nodes[0].id, Role.ASSISTANT, "half a", State.WRITING)
    gone = subprocess.Popen(["true"])
    gone.wait()
    with sqlite3.connect(file) as db:
        db.execute("UPDATE message SET writer = ? WHERE state = 'writing'", (gone.pid,))
    assert [node.text for node in store.interrupted(chat.id)] == ["half a"]


def test_a_message_can_be_taken_out(store: Store) -> None:
    """Guards against empty versions of replies that never began, and against holes in the tree."""
    chat, nodes = said(store)
    empty = store.add(chat.id, nodes[1].id, Role.ASSISTANT, "", State.FAILED)
    store.remove(nodes[0].id)  # it has messages below it
    assert store.count(empty.id) == 3
    store.remove(empty.id)
    assert store.chat(chat.id).leaf == nodes[1].id
    assert [node.id for node in store.nodes(chat.id)] == [node.id for node in nodes]


def test_history_is_what_was_sent(store: Store) -> None:
    """Guards against the model's words, doubles and the wrong order in the composer's history."""
    for texts in (("one", "reply", "two"), ("three", "reply", "one")):
        said(store, texts)
    assert store.history() == ["one", "three", "two"]
    assert store.history(limit=2) == ["one", "three"]


def test_values_and_comparisons(store: Store) -> None:
    """Guards the small things that are kept beside the chats."""
    assert store.value("started") == ""
    store.keep_value("started", "yes")
    store.keep_value("started", "no")
    assert store.value("started") == "no"
    ids = [store.add_comparison(f"race {n}", "{}") for n in range(3)]
    store.remove_comparison(ids[1])
    assert [(kept.id, kept.title, kept.record) for kept in store.comparisons()] == [
        (ids[2], "race 2", "{}"),
        (ids[0], "race 0", "{}"),
    ]
    assert len(store.comparisons(limit=1)) == 1


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_every_text_comes_back(store: Store, file: Path, text: str) -> None:
    """Guards against texts that SQLite or UTF-8 would refuse, cut or change."""
    chat = store.save(replace(store.create(text), title=text, draft=text, preset=text))
    node = store.add(chat.id, None, Role.ASSISTANT, text)
    store.keep_value(text, text)
    store.add_comparison(text, text)
    store.close()
    again = opened(file)
    found = again.chat(chat.id)
    assert (found.title, found.system, found.draft, found.preset) == (text,) * 4
    assert again.node(node.id).text == again.value(text) == again.comparisons()[0].record == text
    again.search(text)


def test_several_changes_are_one(store: Store) -> None:
    """Guards against half of an import after a failure."""

    def fail_late() -> None:
        with store.together():
            said(store)
            store.add(99, None, Role.USER, "fails")

    with pytest.raises(MissingError):
        fail_late()
    assert store.chats() == []
    said(store)
    assert len(store.chats()) == 1


def test_a_file_grows_with_the_program(tmp_path: Path) -> None:
    """Guards migrations: each step once, in order, as a whole or not at all."""
    db = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    first, second = ("CREATE TABLE a (x)",), ("ALTER TABLE a ADD COLUMN y", "INSERT INTO a VALUES (1, 2)")
    schema.migrate(db, (first,))
    schema.migrate(db, (first, second))
    schema.migrate(db, (first, second))
    assert schema.version(db) == 2
    assert db.execute("SELECT * FROM a").fetchall() == [(1, 2)]
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(db, (first, second, ("CREATE TABLE b (x)", "nonsense")))
    assert schema.version(db) == 2
    assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'b'").fetchone() == (0,)
    with pytest.raises(schema.NewerError):
        schema.migrate(db, (first,))


def test_the_version_of_the_file_is_that_of_the_program(store: Store, file: Path) -> None:
    """Guards against a step that was changed after it was released: its tables are these."""
    db = sqlite3.connect(file)
    assert schema.version(db) == len(schema.STEPS) == 1
    names = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"chat", "message", "written", "value", "comparison", "found", "titled"} <= names
    columns = " ".join(row[1] for row in db.execute("PRAGMA table_info(message)"))
    assert columns == "id chat parent depth role state created updated writer tokens saved summary text"


def test_opening_again_finds_everything(store: Store, file: Path) -> None:
    """Guards against a second opening that starts anew."""
    chat, _ = said(store)
    with_both = open_store(file)
    assert with_both.notice == ""
    assert with_both.store.chat(chat.id) == chat
