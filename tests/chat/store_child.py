"""A second localchat, as far as the store is concerned. Run as a module: the store's path, then what to do."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from localchat.chat.conversation import Role
from localchat.chat.events import Finished
from localchat.chat.recorder import Recorder
from localchat.chat.store import State, Store, open_store
from tests.chat.stores import reply, wrote


def tell(*words: object) -> None:
    """A line for the parent: what is told is promised to be on the disk."""
    print(*words, flush=True)


def add(store: Store, count: int) -> None:
    """Messages in a chat of its own, as fast as can be."""
    chat, parent = store.create(), None
    for turn in range(count):
        parent = store.add(chat.id, parent, Role.USER, f"turn {turn}").id
        store.search("turn")
    tell(chat.id)


def write(store: Store) -> None:
    """Replies, one after the other, until somebody ends it: each word is told before the recorder hears it."""
    chat, parent, odds = store.create(), None, random.Random()
    while True:
        parent = store.add(chat.id, parent, Role.USER, "Go on.").id
        tell("asked", parent)
        node = store.add(chat.id, parent, Role.ASSISTANT, "", State.WRITING)
        recorder = Recorder(store, node)
        words = odds.randint(20, 150)
        for word in range(words):
            tell("heard", node.id, len(f"{word:05d} ") * (word + 1), time.monotonic())
            recorder(wrote(word, f"{word:05d} "))
            time.sleep(0.005)
        recorder(Finished(reply("".join(f"{word:05d} " for word in range(words)), words)))
        recorder.close()
        parent = node.id
        tell("done", node.id, 6 * words)


def main() -> None:
    """Do what the arguments say."""
    path, action, *rest = sys.argv[1:]
    opened = open_store(Path(path))
    assert opened.notice == "", opened.notice
    if action == "add":
        add(opened.store, int(rest[0]))
    else:
        write(opened.store)
    opened.store.close()


if __name__ == "__main__":
    main()
