"""What streaming costs the screen's process, and how soon a key is seen meanwhile.

A reply of Markdown streams at 75 tokens a second into a chat with 20 earlier messages mounted, 120 x 40.
Run: python -m tests.tui.measure.stream [--tokens]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from localchat.chat.conversation import Role
from localchat.chat.store import open_store
from tests.tui.terminal import Terminal

PARAGRAPH = (
    "A cheap drafter proposes **tokens**, the large model checks several at once, and only what the large model "
    "itself would have said is kept. That is `lossless`, and it can be measured.\n\n"
)
CODE = (
    "```python\ndef walk(tree, pick):\n    node = ROOT\n    while pick(node) in tree:\n        node = tree[node]\n"
    "    return node\n```\n\n"
)
LIST = "- the first point, which is short\n- the second, a little longer than that\n- the third\n\n## A heading\n\n"
TEXT = (PARAGRAPH * 2 + CODE + LIST) * 40
SECONDS_PER_ROUND = 0.04
"""The scripted engine writes three tokens a round."""
MEASURED = 12.0


def main() -> None:
    """Print the share of a core and the time from a key to its echo."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        chat = _prepare(home)
        (home / "text").write_text(TEXT)
        command = [sys.executable, "-m", "tests.tui.measure.paced", folder, str(chat), str(home / "text")]
        with Terminal([*command, str(SECONDS_PER_ROUND)], {"LOCALCHAT_HOME": folder}) as terminal:
            terminal.wait("› Write")
            terminal.wait("100 tok/s")
            if "--tokens" in sys.argv:
                terminal.send("\x1bt")
            terminal.send("go\r")
            terminal.wait("escape stops")
            time.sleep(3.0)
            cpu, begun = terminal.cpu_seconds(), time.monotonic()
            time.sleep(MEASURED)
            share = (terminal.cpu_seconds() - cpu) / (time.monotonic() - begun)
            echoes = [_echo(terminal, place) for place in range(30)]
            assert "escape stops" in terminal.text(), "the reply ended before the measurement did"
    print(f"streaming at {3 / SECONDS_PER_ROUND:.0f} tok/s: {share:.1%} of a core")
    print(f"key to echo: median {1000 * median(echoes):.0f} ms, worst {1000 * max(echoes):.0f} ms of {len(echoes)}")
    print(json.dumps({"core_share": share, "echo_median": median(echoes), "echo_worst": max(echoes)}))


def _prepare(home: Path) -> int:
    store = open_store(home / "chats.db").store
    chat = store.create()
    leaf = None
    for number in range(20):
        role = Role.ASSISTANT if number % 2 else Role.USER
        leaf = store.add(chat.id, leaf, role, PARAGRAPH + CODE + LIST if number % 2 else "And then?").id
    store.close()
    return chat.id


def _echo(terminal: Terminal, place: int) -> float:
    time.sleep(0.2)
    letter = chr(ord("a") + place % 26)
    before = _typed(terminal)
    begun = time.monotonic()
    terminal.send(letter)
    while _typed(terminal) == before:
        assert time.monotonic() - begun < 5
        time.sleep(0.001)
    return time.monotonic() - begun


def _typed(terminal: Terminal) -> str:
    return next(
        (line.split("›", 1)[1].split("│")[0].strip() for line in terminal.text().split("\n") if " › " in line), ""
    )


if __name__ == "__main__":
    main()
