"""What tests of faults share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets._toast import Toast

from localchat import config
from localchat.chat.store import Opened, Store
from localchat.models.plan import LoadPlan
from localchat.tui.app import LocalChat, Start
from localchat.tui.desk import Desk
from localchat.tui.host import Host
from tests.support.backend import Scripted
from tests.tui.support import screen_text, started, wait_until
from tests.tui.test_chat import say, settled

LONG = "word " * 60


def over(found: Opened) -> LocalChat:
    """The app over a store, with what opening it had to say."""
    none = config.File(Path("config.toml"))
    desk = Desk(Host(Scripted()), found.store, none, config.resolve(none, {}, {}), LoadPlan())
    return started(Start(desk, notices=tuple(filter(None, [found.notice]))))


def flat(app: LocalChat) -> str:
    """The words of the screen in small letters, wherever lines and boxes break them."""
    words = [word for word in screen_text(app).split() if word.strip("▌│▎▏▕┃")]
    toasts = [str(toast.render()) for toast in app.screen.query(Toast) if toast.region]  # over other words
    return " ".join((*words, *toasts)).lower()


async def shows(pilot: Pilot[Any], app: LocalChat, *words: str) -> None:
    """Wait for words on the screen."""
    try:
        await wait_until(pilot, lambda: all(each.lower() in flat(app) for each in words))
    except AssertionError:
        raise AssertionError(screen_text(app)) from None


@asynccontextmanager
async def speaking(app: LocalChat, size: tuple[int, int] = (160, 40)) -> AsyncIterator[Pilot[Any]]:
    """The app, with its model loaded, and with what it has to say."""
    async with app.run_test(size=size, notifications=True) as pilot:
        await wait_until(pilot, lambda: app.desk.loaded is not None and not app.desk.host.busy)
        yield pilot


async def works(pilot: Pilot[Any], app: LocalChat, question: str = "Still there?") -> None:
    """A question is answered."""
    await say(pilot, app, question)
    await settled(pilot, app)
    assert question in screen_text(app), screen_text(app)
    assert "Drafts are guesses." in screen_text(app)


def said(store: Store) -> list[str]:
    """The texts of the newest chat."""
    chat = store.latest()
    return [node.text for node in store.path(chat.leaf or 0)] if chat else []
