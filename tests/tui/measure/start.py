"""How long until `localchat` paints, beside a bare Textual app that says hello.

Run: python -m tests.tui.measure.start
"""

from __future__ import annotations

import json
import sys
import tempfile
from statistics import median

from tests.tui.terminal import Terminal

HELLO = """
from textual.app import App
from textual.widgets import Static
class Hello(App):
    def compose(self):
        yield Static("Hello, world")
Hello().run()
"""
REPEATS = 10


def first_frame(command: list[str], words: str, home: str) -> float:
    """Seconds from starting a command to its words on the screen."""
    with Terminal(command, {"LOCALCHAT_HOME": home}) as terminal:
        return terminal.wait(words)


def main() -> None:
    """Print both medians and their ratio."""
    with tempfile.TemporaryDirectory() as home:
        hello, ours = [], []
        for repeat in range(REPEATS + 1):
            times = (
                first_frame([sys.executable, "-c", HELLO], "Hello, world", home),
                first_frame([sys.executable, "-m", "localchat", "-m", "starter"], "› Write", home),
            )
            if repeat:  # the first is a warm-up
                hello.append(times[0])
                ours.append(times[1])
    ratio = median(ours) / median(hello)
    print(f"hello {median(hello):.3f} s, localchat {median(ours):.3f} s: {ratio:.2f} x (median of {REPEATS})")
    print(json.dumps({"hello": median(hello), "localchat": median(ours), "ratio": ratio}))


if __name__ == "__main__":
    main()
