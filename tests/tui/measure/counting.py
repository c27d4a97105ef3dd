"""What the engine says in `kill`: ascending numbers, and when each round begins. A module, so that it can be sent."""

from __future__ import annotations

import os
import re
import time

from localchat.chat.conversation import Conversation, Role

NUMBERS = 400
"""In a reply: it ends by itself long after the kill."""
LETTERS = 6
"""Characters of a round: three tokens of two."""
LOG = "LOCALCHAT_TEST_ROUNDS"
"""Names the file of the times."""


def says(conversation: Conversation) -> str:
    """Numbers from those of the question on, or from where the reply stopped."""
    last = conversation.messages[-1]
    if last.role is Role.USER:
        return _numbered(1000 * int(last.text.split()[-1]))
    return " " + _numbered(highest(last.text) + 1)


def _numbered(first: int) -> str:
    return " ".join(f"{number:06}" for number in range(first, first + NUMBERS))


def highest(text: str) -> int:
    """The highest number in a text or on a screen."""
    return int(max(re.findall(r"\b0\d{5}\b", text), default="0"))


def note(round_: int) -> None:
    """Keep when a round begins."""
    with open(os.environ[LOG], "a") as file:
        file.write(f"{round_} {time.monotonic()}\n")
