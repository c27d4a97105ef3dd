"""The store's figures: a long chat, many messages, long replies. Printed by `pytest -s`; the limits are generous."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from localchat.chat.conversation import Role
from localchat.chat.store import Store
from tests.chat.stores import opened, said, summary, written

CHATS, MESSAGES = 50, 1000


def milliseconds(work: Callable[[], object], times: int = 7) -> float:
    """The median of a few runs."""
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        spent.append(1000 * (time.perf_counter() - begun))
    return median(spent)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """50,000 messages: 50 chats of 1,000, words as common and as rare as words are."""
    store = opened(tmp_path_factory.mktemp("many") / "chats.db")
    odds = random.Random(1)
    words = ["".join(odds.choices("abcdefghijklmnopqrstuvwxyz", k=odds.randint(2, 10))) for _ in range(5000)]
    words[:4] = ["the", "of", "and", "to"]
    text = " ".join(odds.choices(words, [1 / (rank + 1) for rank in range(len(words))], k=200_000)).split()
    for _ in range(CHATS):
        starts = [odds.randrange(len(text) - 100) for _ in range(MESSAGES)]
        said(store, tuple(" ".join(text[start : start + 60]) for start in starts))
    return store


@pytest.mark.parametrize(
    "query", ["the", "t", "of the and to", "the zz", "zqxjzqxj", "++", "没有", "a b c d e f g h", '"*^:()']
)
def test_search_is_quick(many: Store, query: str) -> None:
    """Guards the promise of 200 ms over 50,000 messages, for common, rare, short and absent words."""
    spent = milliseconds(lambda: many.search(query), 3)
    print(f"search {query!r}: {spent:.1f} ms")
    assert spent <= 200


def test_search_in_one_long_chat_is_quick(tmp_path: Path) -> None:
    """Guards the worst case of three hits a chat: every message of a single chat matches."""
    store = opened(tmp_path / "chats.db")
    said(store, ("the same words again and again",) * (CHATS * MESSAGES))
    spent = milliseconds(lambda: store.search("the again"), 3)
    print(f"search in one chat of {CHATS * MESSAGES} messages that all match: {spent:.1f} ms")
    assert spent <= 200


def _opening(store: Store, chat: int) -> Sequence[object]:
    """What a screen asks when it opens a chat."""
    leaf = store.chat(chat).leaf
    shown = store.path(leaf, last=20) if leaf is not None else []
    count = store.count(leaf) if leaf is not None else 0
    versions = [store.versions(node.id) for node in shown]
    return (shown, count, versions, store.interrupted(chat), store.totals(chat))


def test_a_long_chat_opens_like_a_short_one(tmp_path: Path) -> None:
    """Guards against a cost that grows with what is not shown."""
    store = opened(tmp_path / "chats.db")
    long, nodes = said(store, ("a few words of text",) * 5000)
    for node in nodes[1::2]:
        store.keep(node.id, node.text, node.state, summary())
    short, _ = said(store, ("a few words of text",) * 20)
    empty = store.create()
    chats = {"empty": empty.id, "20 messages": short.id, "5,000 messages": long.id}
    figures = {name: milliseconds(partial(_opening, store, chat), 21) for name, chat in chats.items()}
    print(", ".join(f"{name}: {spent:.2f} ms" for name, spent in figures.items()))
    assert figures["5,000 messages"] - figures["20 messages"] < 3
    assert figures["5,000 messages"] < 10
    everything = milliseconds(lambda: store.conversation(nodes[-1].id), 3)
    tip = milliseconds(lambda: store.tip(nodes[0].id), 3)
    print(f"conversation of 5,000: {everything:.1f} ms, tip from the top: {tip:.1f} ms")
    assert everything < 100
    assert tip < 100


def test_a_file_of_many_messages_opens_at_once(many: Store, tmp_path: Path) -> None:
    """Guards the first frame: opening does not read what it does not show."""
    path = many._path
    assert path is not None
    spent = milliseconds(lambda: opened(path).close())
    listing = milliseconds(many.chats)
    history = milliseconds(many.history)
    print(f"open: {spent:.1f} ms, list: {listing:.2f} ms, history: {history:.2f} ms")
    assert spent < 50
    assert listing < 20
    assert history < 50


def test_a_long_reply_is_kept_and_read_quickly(tmp_path: Path) -> None:
    """Guards against tokens that cost more to keep than to make: 4,000 rounds of two."""
    store = opened(tmp_path / "chats.db")
    _, nodes = said(store)
    reply = written(rounds=4000)
    keeping = milliseconds(lambda: store.keep_written(nodes[1].id, reply), 3)
    reading = milliseconds(lambda: store.written(nodes[1].id), 3)
    size = store._db.execute("SELECT length(record) FROM written").fetchone()[0]
    print(f"8,000 tokens: {keeping:.0f} ms to keep, {reading:.0f} ms to read, {size / 1024:.0f} KiB")
    assert keeping < 2000
    assert reading < 2000


def test_saving_while_it_grows_is_cheap(tmp_path: Path) -> None:
    """Guards the recorder's beat: a save of a long reply stays far below its 0.4 s."""
    store = opened(tmp_path / "chats.db")
    chat, nodes = said(store)
    node = store.add(chat.id, nodes[-1].id, Role.ASSISTANT, "")
    spent = milliseconds(lambda: store.keep(node.id, "x" * 200_000, node.state.WRITING))
    print(f"saving 200,000 characters: {spent:.1f} ms")
    assert spent < 100
