"""What tests of the engine's process share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Event, Loaded, Wrote
from localchat.models.plan import LoadPlan
from localchat.worker.client import Worker

HELLO = Conversation.begin().user("Hello")
LONG = "The quick brown fox jumps over the lazy dog. " * 6
PROMPT = 0.2
"""Seconds within which a cancel must act."""


def prompt(attempt: Callable[[], float]) -> bool:
    """True if it took no longer than PROMPT in one of three attempts: other programs may have the cores for a while."""
    return any(attempt() < PROMPT for _ in range(3))


Start = Callable[..., Worker]


def loaded(worker: Worker) -> Worker:
    """The worker with something loaded."""
    assert isinstance(list(worker.load(LoadPlan()))[-1], Loaded)
    return worker


def said(worker: Worker, options: ReplyOptions | None = None) -> list[Event]:
    """All events of one reply."""
    return list(worker.reply(HELLO, options or ReplyOptions()))


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Wait until there is no such process; a zombie counts as one."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def text_of(events: Sequence[Event]) -> str:
    """What the rounds wrote."""
    return "".join(event.text for event in events if isinstance(event, Wrote))


def gone_or_zombie(pid: int) -> bool:
    """Wait until a process that is not ours to reap has ended."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False
