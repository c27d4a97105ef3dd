"""The engine's speed with the screen attached, beside `localchat ask`: pairs of the same reply, one after the other.

Run: python -m tests.tui.measure.beside_ask [PAIRS]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from localchat.chat.store import open_store
from tests.tui.terminal import Terminal

QUESTION = "Tell me a long story about a fox, a river and a mill."
REPLIES = 4
"""Replies in each run; the first warms up."""


def asked(environment: dict[str, str]) -> list[float]:
    """Tokens per second of `ask`, in runs of their own."""
    speeds = []
    for _ in range(REPLIES - 1):
        command = [sys.executable, "-m", "localchat", "ask", "-m", "starter", "--json", QUESTION]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        speeds.append(json.loads(done.stdout)["stats"]["tokens_per_second"])
    return speeds


def on_screen(environment: dict[str, str], home: Path) -> list[float]:
    """Tokens per second of the same reply in new chats of the application, as its store has them."""
    with Terminal([sys.executable, "-m", "localchat", "-m", "starter"], environment) as terminal:
        terminal.wait("Ready", 60)
        for _ in range(REPLIES):
            terminal.send("\x0e")
            terminal.send(QUESTION)
            terminal.wait("river and a mill")
            terminal.send("\r")
            terminal.wait(lambda text: "seed 5" in text, 60)
        terminal.send("\x11")
        terminal.ended(10)
    store = open_store(home / "data" / "chats.db").store
    tips = [store.node(chat.leaf) for chat in store.chats() if chat.leaf]
    store.close()
    speeds = [node.summary.tokens_per_second for node in tips if node.summary]
    return speeds[: REPLIES - 1]


def main() -> None:
    """Print the ratio of each pair and their median."""
    import os

    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    ratios = []
    for number in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            # A lookup would find the reply of the run before.
            fixed = {
                "LOCALCHAT_HOME": folder,
                "LOCALCHAT_SEED": "5",
                "LOCALCHAT_MAX_TOKENS": "250",
                "LOCALCHAT_DRAFT": "model",
            }
            environment = {**os.environ, **fixed}
            first = asked(environment)
            screen = on_screen(environment, Path(folder))
        ratios.append(median(screen) / median(first))
        print(f"pair {number + 1}: ask {median(first):.0f} tok/s, screen {median(screen):.0f} tok/s, {ratios[-1]:.2f}")
    print(json.dumps({"median": median(ratios), "ratios": ratios}))


if __name__ == "__main__":
    main()
