"""What tests of the screen share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from localchat.tui.app import LocalChat, Start


async def wait_until(pilot: Pilot[Any], predicate: Callable[[], bool], *, seconds: float = 10.0) -> None:
    """Let the app work until the predicate holds.

    Raises:
        AssertionError: it did not in time.
    """
    end = time.monotonic() + seconds
    while not predicate():
        assert time.monotonic() < end, "it did not happen in time"
        await pilot.pause(0.01)


def screen_text(app: App[Any]) -> str:
    """The screen as lines of text, without trailing spaces."""
    width, height = app.size
    rows = app.screen._compositor.render_strips(app.size)
    lines = ["".join(segment.text for segment in row)[:width].rstrip() for row in rows[:height]]
    return "\n".join(lines)


def started(start: Start) -> LocalChat:
    """The application of a start; its desk can be asked for before it runs."""
    app = LocalChat(lambda: start, start.desk.resolved.settings.theme)
    app.desk = start.desk
    return app
