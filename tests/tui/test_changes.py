"""Changing a message: what was typed before stays, and a change stays a change."""

from __future__ import annotations

import pytest

from localchat.chat.store import Store, StoreError
from tests.support.backend import Scripted
from tests.tui.conftest import MakeApp
from tests.tui.support import screen_text, wait_until
from tests.tui.test_chat import chat_of, running, say, settled
from tests.tui.test_interleavings import Held

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


async def test_changing_a_message_keeps_what_was_typed_before(make_app: MakeApp) -> None:
    """Guards an unsent message against the change of an old one."""
    app = make_app(Scripted())
    async with running(app) as pilot:
        screen = chat_of(app)
        await say(pilot, app, "one")
        await settled(pilot, app)
        await pilot.press(*"half a thought")
        await pilot.press("alt+e")
        await say(pilot, app, "one, changed")
        await settled(pilot, app)
        assert screen.composer.value == "half a thought"
        await wait_until(pilot, lambda: screen.talk.draft == "half a thought")


async def test_a_change_that_was_begun_ends_with_its_chat(make_app: MakeApp, store: Store) -> None:
    """Guards against a message that is sent as a version of one in another chat."""
    backend = Scripted()
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await settled(pilot, app)
        await say(pilot, app, "two")
        await settled(pilot, app)
        await pilot.press("alt+e", "ctrl+n")
        await say(pilot, app, "three")
        await settled(pilot, app)
        assert len(backend.conversations) == 3
        assert "cannot be stored" not in screen_text(app)
    chat = store.latest()
    assert chat is not None
    assert chat.title == "three"


async def test_a_change_sent_while_a_reply_is_written_stays_a_change(make_app: MakeApp) -> None:
    """Guards against an edit that arrives as a new message."""
    backend = Held("Drafts are guesses.")
    backend.gate.set()
    app = make_app(backend)
    async with running(app) as pilot:
        screen = chat_of(app)
        await say(pilot, app, "one")
        await settled(pilot, app)
        await pilot.press("alt+e")
        backend.gate.clear()
        await pilot.press("ctrl+r")
        await wait_until(pilot, lambda: screen.talk.writing is not None)
        await say(pilot, app, "changed")
        await pilot.pause()
        assert screen.composer.value == "changed"
        assert not screen.talk.waiting
        backend.gate.set()
        await settled(pilot, app)
        await pilot.press("enter")
        await settled(pilot, app)
        said = [message.text for message in backend.conversations[-1].messages]
        assert said == ["changed"]


async def test_a_store_that_cannot_be_read_as_a_reply_begins(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards what runs between two keys: there a failing store would end the program."""
    app = make_app(Scripted(text="Still here."))
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await settled(pilot, app)

        def fails(*_: object) -> list[str]:
            raise StoreError("The chats cannot be read.", "Try again.")

        monkeypatch.setattr(app.desk.store, "history", fails)
        monkeypatch.setattr(app.desk.store, "path", fails)
        await say(pilot, app, "two")
        await settled(pilot, app)
        assert "Still here." in screen_text(app)
        assert app.is_running
