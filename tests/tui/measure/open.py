"""How long a start takes that opens a chat of 5,000 messages, beside one that opens an empty chat.

Run: python -m tests.tui.measure.open
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from localchat.chat.conversation import Role
from localchat.chat.store import open_store
from tests.tui.measure.stream import PARAGRAPH
from tests.tui.terminal import Terminal

MESSAGES = 5_000
REPEATS = 10


def fill(home: Path) -> None:
    """A store whose last chat is long."""
    store = open_store(home / "data" / "chats.db").store
    chat = store.create()
    leaf = None
    with store.together():
        for number in range(MESSAGES):
            role = Role.ASSISTANT if number % 2 else Role.USER
            leaf = store.add(chat.id, leaf, role, f"number {number}. {PARAGRAPH}").id
    store.close()


def opened(home: str, words: str) -> float:
    """Seconds from the start to those words."""
    command = [sys.executable, "-m", "localchat", "-m", "starter", "-c"]
    with Terminal(command, {"LOCALCHAT_HOME": home}) as terminal:
        return terminal.wait(words)


def main() -> None:
    """Print both medians and their ratio."""
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as full:
        fill(Path(full))
        short, long = [], []
        for repeat in range(REPEATS + 1):
            times = opened(empty, "Write something below"), opened(full, f"number {MESSAGES - 1}.")
            if repeat:  # the first is a warm-up
                short.append(times[0])
                long.append(times[1])
    ratio = median(long) / median(short)
    print(f"empty {median(short):.3f} s, {MESSAGES} messages {median(long):.3f} s: {ratio:.2f} x (median of {REPEATS})")
    print(json.dumps({"empty": median(short), "long": median(long), "ratio": ratio}))


if __name__ == "__main__":
    main()
