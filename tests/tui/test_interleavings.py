"""Keys that come at the wrong moment: nothing that was said is lost, and nothing is said that is not so."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from localchat.chat.conversation import Role
from localchat.chat.events import Failed
from localchat.chat.store import State, Store, StoreError
from localchat.engine.types import Sampling
from localchat.tui.live import Phase
from localchat.tui.screens.chat_options import ChatOptionsScreen
from localchat.tui.widgets.chat_list import ChatList
from tests.support.backend import Scripted
from tests.tui.conftest import MakeApp
from tests.tui.support import screen_text, wait_until
from tests.tui.test_chat import chat_of, running, say, settled

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


class Held(Scripted):
    """Stops at a round of its first reply or of all, until it is let go."""

    def __init__(self, text: str, at: int = 2) -> None:
        self.gate = threading.Event()
        super().__init__(text=text, on_round=lambda number: self._hold(number, at))

    def _hold(self, number: int, at: int) -> None:
        while number == at and not self.gate.wait(0.01) and not self.cancelled:
            pass

    def cancel(self) -> None:
        super().cancel()


async def test_a_reply_stopped_in_line_leaves_no_ghost(make_app: MakeApp) -> None:
    """Guards against a turn whose message is not in the store: walking its versions ended the program."""
    app = make_app(Scripted(load_delay=0.05, load_steps=20))
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: app.desk.host.busy)
        screen = chat_of(app)
        await say(pilot, app, "one")
        await wait_until(pilot, lambda: screen.talk.writing is not None)
        await pilot.press("escape")
        await wait_until(pilot, lambda: screen.talk.writing is None and screen._turn is None)
        assert app.desk.loaded is None, "the reply waited for the model to be loaded before it could be stopped"
        await pilot.press("alt+left")
        await settled(pilot, app)
        assert [turn.node.role for turn in screen.transcript.turns] == [Role.USER]
        assert app.is_running


async def test_f5_counts_for_a_reply_that_waits_in_line(make_app: MakeApp) -> None:
    """Guards the switch against replies that are asked for while the model is being loaded."""
    backend = Scripted(load_delay=0.02, load_steps=20)
    app = make_app(backend)
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: app.desk.host.busy)
        await say(pilot, app, "one")
        await wait_until(pilot, lambda: chat_of(app).talk.writing is not None)
        await pilot.press("f5")
        await settled(pilot, app)
    assert [options.accelerate for options in backend.options] == [False]


async def test_f5_behind_a_verification_leaves_that_alone(make_app: MakeApp) -> None:
    """Guards the proof: a switch meant for the next reply must not reach the run that proves the last one."""
    backend = Held("Drafts are guesses.")
    backend.gate.set()
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await settled(pilot, app)
        backend.gate.clear()
        await pilot.press("alt+v")
        await wait_until(pilot, lambda: len(backend.options) == 2)
        await say(pilot, app, "two")
        await wait_until(pilot, lambda: chat_of(app).talk.writing is not None)
        await pilot.press("f5")
        assert backend.switches == []
        backend.gate.set()
        await settled(pilot, app)
    assert [options.accelerate for options in backend.options] == [True, False, False]


async def test_escape_stops_a_verification(make_app: MakeApp) -> None:
    """Guards against a proof that holds the engine for minutes, and against calling a stopped one a difference."""
    backend = Held("Drafts are guesses.")
    backend.gate.set()
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await settled(pilot, app)
        backend.gate.clear()
        await pilot.press("alt+v")
        await wait_until(pilot, lambda: len(backend.options) == 2)
        await pilot.press("escape")
        await wait_until(pilot, lambda: not app.desk.host.busy)
        await pilot.pause()
        text = screen_text(app)
        assert "not verified" in text
        assert "≠" not in text


async def test_a_reply_dropped_behind_a_verification_is_over_at_once(make_app: MakeApp) -> None:
    """Guards against a panel that says "stopping" for ever."""
    backend = Held("Drafts are guesses.")
    backend.gate.set()
    app = make_app(backend)
    async with running(app) as pilot:
        screen = chat_of(app)
        await say(pilot, app, "one")
        await settled(pilot, app)
        backend.gate.clear()
        await pilot.press("alt+v")
        await wait_until(pilot, lambda: len(backend.options) == 2)
        await say(pilot, app, "two")
        await wait_until(pilot, lambda: screen.talk.writing is not None)
        await pilot.press("escape")
        await wait_until(pilot, lambda: screen.talk.writing is None)
        backend.gate.set()
        await settled(pilot, app)
        assert app.desk.live.phase is Phase.READY
        assert "identical" in screen_text(app)


async def test_a_verification_is_told_though_its_message_is_not_shown(make_app: MakeApp, store: Store) -> None:
    """Guards the result against another chat being opened meanwhile, and the program against its absence."""
    other = store.create()
    store.add(other.id, None, Role.USER, "elsewhere")
    backend = Held("Drafts are guesses.")
    backend.gate.set()
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await settled(pilot, app)
        backend.gate.clear()
        await pilot.press("alt+v")
        await wait_until(pilot, lambda: len(backend.options) == 2)
        await chat_of(app).open_chat(other.id)
        backend.gate.set()
        await settled(pilot, app)
        assert any("identical" in toast.message for toast in app._notifications)


async def test_a_reply_without_a_token_cannot_be_called_different(make_app: MakeApp) -> None:
    """Guards the proof against a reply that was stopped before its first token."""
    app = make_app(Scripted(text=""))
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await settled(pilot, app)
        await pilot.press("alt+v")
        await settled(pilot, app)
        assert "≠" not in screen_text(app)


async def test_verify_uses_the_system_message_of_the_reply(make_app: MakeApp, store: Store) -> None:
    """Guards the proof against a system message that was changed since."""
    backend = Scripted()
    app = make_app(backend)
    async with running(app) as pilot:
        screen = chat_of(app)
        await say(pilot, app, "one")
        await settled(pilot, app)
        assert screen.talk.chat is not None
        screen.talk.chat = store.save(replace(store.chat(screen.talk.chat.id), system="Rhyme."))
        await pilot.press("alt+v")
        await settled(pilot, app)
    assert backend.conversations[0] == backend.conversations[1]


async def test_the_chat_that_is_being_written_can_be_opened_again(make_app: MakeApp) -> None:
    """Guards against a reply that goes on in a turn nobody sees."""
    backend = Held("Drafts are guesses.")
    app = make_app(backend)
    async with running(app) as pilot:
        screen = chat_of(app)
        await say(pilot, app, "one")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 2)
        assert screen.talk.chat is not None
        screen.query_one(ChatList).post_message(ChatList.Opened(screen.talk.chat.id))
        await pilot.pause(0.1)
        backend.gate.set()
        await settled(pilot, app)
        turn = screen.transcript.last(Role.ASSISTANT)
        assert turn is not None
        assert turn.node.state is State.COMPLETE
        assert "Drafts are guesses." in screen_text(app)
        assert "cut off" not in screen_text(app)


async def test_the_chat_that_is_being_written_is_deleted(make_app: MakeApp) -> None:
    """Guards against an end that finds no place, and against sending on what waited in that chat."""
    backend = Held("Drafts are guesses.")
    backend.gate.set()
    app = make_app(backend)
    async with running(app, (160, 40)) as pilot:
        screen = chat_of(app)
        await say(pilot, app, "nought")
        await settled(pilot, app)
        backend.gate.clear()
        await say(pilot, app, "one")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 2 and app.desk.live.busy)
        await say(pilot, app, "two")
        await wait_until(pilot, lambda: len(screen.talk.waiting) == 1)
        screen.chat_list.focus_list()
        await wait_until(pilot, lambda: screen.chat_list.rows.has_focus)
        await pilot.press("ctrl+d")
        await wait_until(pilot, lambda: screen.talk.chat is None)
        await settled(pilot, app)
        await pilot.pause(0.2)
        await settled(pilot, app)
        assert app.is_running
        assert len(backend.conversations) == 2
        assert screen.composer.value == "two"
        assert app.desk.live.stats.tokens == 0


async def test_another_reply_that_fails_gives_the_old_one_back(make_app: MakeApp, store: Store) -> None:
    """Guards against losing sight of a reply because a second one could not be written."""
    backend = Scripted(text="First.")
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await settled(pilot, app)
        backend.reply_failure = Failed("generation", "It failed.", "Try again.")
        await pilot.press("ctrl+r")
        await settled(pilot, app)
        assert "First." in screen_text(app)
        assert "It failed." in screen_text(app)
    chat = store.latest()
    assert chat is not None
    assert [node.text for node in store.path(chat.leaf or 0)] == ["one", "First."]


async def test_waiting_messages_outlive_the_end(make_app: MakeApp, store: Store) -> None:
    """Guards what was sent while a reply was written: leaving must not lose it."""
    backend = Held("Drafts are guesses.")
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 2)
        await say(pilot, app, "two")
        await wait_until(pilot, lambda: len(chat_of(app).talk.waiting) == 1)
        await pilot.press(*"three")
    chat = store.latest()
    assert chat is not None
    assert chat.draft == "two\n\nthree"


async def test_a_waiting_message_that_cannot_be_stored_takes_nothing_along(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards what is typed and what waits against a disk that is full when the next message is due."""
    backend = Held("Drafts are guesses.")
    app = make_app(backend)
    async with running(app) as pilot:
        screen = chat_of(app)
        await say(pilot, app, "one")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 2)
        await say(pilot, app, "two")
        await say(pilot, app, "three")
        await wait_until(pilot, lambda: len(screen.talk.waiting) == 2)
        await pilot.press(*"four")

        def full(*_: object) -> None:
            raise StoreError("The disk is full.", "Make room.")

        monkeypatch.setattr(app.desk.store, "add", full)
        backend.gate.set()
        await settled(pilot, app)
        await pilot.pause()
        assert screen.composer.value == "two\n\nthree\n\nfour"
        assert not screen.talk.waiting


async def test_options_kept_late_leave_the_chat_where_it_is(make_app: MakeApp, store: Store) -> None:
    """Guards the last messages against a value of the chat from before them."""
    backend = Held("Drafts are guesses.")
    app = make_app(backend)
    async with running(app) as pilot:
        screen = chat_of(app)
        await say(pilot, app, "one")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 2)
        await say(pilot, app, "two")
        await wait_until(pilot, lambda: len(screen.talk.waiting) == 1)
        await pilot.press("alt+m")
        await wait_until(pilot, lambda: isinstance(app.screen, ChatOptionsScreen))
        backend.gate.set()
        await settled(pilot, app)
        await wait_until(pilot, lambda: len(backend.conversations) == 2)
        await settled(pilot, app)
        assert isinstance(app.screen, ChatOptionsScreen)
        app.screen.dismiss(replace(app.screen._chat, system="Rhyme.", sampling=Sampling(temperature=0.5)))
        await wait_until(pilot, lambda: screen.talk.chat is not None and screen.talk.chat.system == "Rhyme.")
    chat = store.latest()
    assert chat is not None
    assert len(store.path(chat.leaf or 0)) == 4


async def test_a_reply_whose_tokens_are_damaged_does_not_shut_its_chat(make_app: MakeApp, store: Store) -> None:
    """Guards old chats: the context meter may not know, the conversation is shown."""
    app = make_app(Scripted())
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await settled(pilot, app)
        await pilot.press(*"half")
    chat = store.latest()
    assert chat is not None
    store._db.execute("UPDATE written SET record = ?", (sqlite3.Binary(b"nonsense"),))
    again = make_app(Scripted(), chat=chat.id)
    async with running(again):
        assert "Drafts are guesses." in screen_text(again)
        assert chat_of(again).composer.value == "half"


async def test_keys_between_the_last_word_and_its_end(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the moment in which a reply is over and not yet laid out: a message sent then comes in its turn."""
    backend = Scripted()
    app = make_app(backend)
    async with running(app) as pilot:
        screen = chat_of(app)
        late: list[Callable[[], None]] = []
        ended = screen.ended

        def slow(*given: object) -> None:
            ended(*given)  # type: ignore[arg-type]
            if not late:
                late.append(lambda: None)
                screen.talk.waiting.append("two")
                screen.composer.load_text("three")
                screen.composer.send()
                screen.action_regenerate()

        monkeypatch.setattr(screen, "ended", slow)
        await say(pilot, app, "one")
        await wait_until(pilot, lambda: len(backend.conversations) == 3)
        await settled(pilot, app)
        assert [turn.node.role for turn in screen.transcript.turns] == [Role.USER, Role.ASSISTANT] * 3
        assert all(turn.node.state is State.COMPLETE for turn in screen.transcript.turns)
    asked = [conversation.messages[-1].text for conversation in backend.conversations]
    assert asked == ["one", "two", "three"]


def test_a_deleted_chat_that_goes_on_comes_back(store: Store) -> None:
    """Guards what is said in a chat that was deleted before, or in another window: it would be purged."""
    chat = store.create()
    store.add(chat.id, None, Role.USER, "one")
    store.delete(chat.id)
    store.add(chat.id, None, Role.USER, "two")
    assert not store.chat(chat.id).deleted
