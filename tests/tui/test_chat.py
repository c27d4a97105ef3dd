"""The chat screen over a scripted engine: what is said, written, changed and kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from localchat.chat.conversation import Role
from localchat.chat.events import Failed
from localchat.chat.store import State, Store
from localchat.tui.app import LocalChat
from localchat.tui.screens.chat import ChatScreen
from localchat.tui.widgets.banner import Banner
from localchat.tui.widgets.transcript import PAGE
from tests.support.backend import Scripted
from tests.tui.conftest import MakeApp
from tests.tui.support import screen_text, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


@asynccontextmanager
async def running(app: LocalChat, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[Any]]:
    """The app, with its model loaded."""
    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, lambda: app.desk.loaded is not None and not app.desk.host.busy)
        yield pilot


def chat_of(app: LocalChat) -> ChatScreen:
    """The chat screen."""
    screens = [screen for screen in app.screen_stack if isinstance(screen, ChatScreen)]
    assert screens, "the chat is not there yet"
    return screens[0]


async def say(pilot: Pilot[Any], app: LocalChat, text: str) -> None:
    """Type and send."""
    chat_of(app).composer.load_text(text)
    await pilot.press("enter")


async def settled(pilot: Pilot[Any], app: LocalChat) -> None:
    """Nothing is being written, and the end of the last reply is on the screen."""
    screen = chat_of(app)
    await wait_until(pilot, lambda: screen.talk.writing is None and screen._turn is None and not app.desk.host.busy)
    await pilot.pause()


async def test_a_question_is_answered_on_the_screen_and_in_the_store(make_app: MakeApp, store: Store) -> None:
    """Guards the whole way from the key to the file."""
    app = make_app(Scripted(text="Drafts are **guesses**."))
    async with running(app) as pilot:
        await say(pilot, app, "What are drafts?")
        await settled(pilot, app)
        text = screen_text(app)
        assert "What are drafts?" in text
        assert "Drafts are guesses." in text
        assert "seed 7" in text
    chat = store.latest()
    assert chat is not None
    assert chat.title == "What are drafts?"
    said = store.path(chat.leaf or 0)
    assert [(node.role, node.text, node.state) for node in said] == [
        (Role.USER, "What are drafts?", State.COMPLETE),
        (Role.ASSISTANT, "Drafts are **guesses**.", State.COMPLETE),
    ]
    written = store.written(said[1].id)
    assert written is not None
    assert "".join(wrote.text for wrote in written.rounds) == "Drafts are **guesses**."


async def test_escape_keeps_what_was_written_and_it_can_go_on(make_app: MakeApp, store: Store) -> None:
    """Guards against a stop that deletes, or that nobody can take back."""
    backend = Scripted(text="word " * 200, delay=0.01)
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "Count.")
        screen = chat_of(app)
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 4)
        await pilot.press("escape")
        await settled(pilot, app)
        turn = screen.transcript.last(Role.ASSISTANT)
        assert turn is not None
        assert turn.node.state is State.STOPPED
        part = turn.node.text
        assert part.startswith("word")
        assert "Alt+K goes on" in screen_text(app), screen_text(app)
        backend.text, backend.delay = "and more.", 0.0
        await pilot.press("alt+k")
        await settled(pilot, app)
        assert backend.conversations[-1].messages[-1].text == part
        longer = screen.transcript.last(Role.ASSISTANT)
        assert longer is not None
        assert longer.node.text == part + "and more."
        assert len(store.versions(longer.node.id)) == 2


async def test_messages_wait_while_a_reply_is_written(make_app: MakeApp) -> None:
    """Guards typing ahead: what is sent while the engine is busy is said afterwards, in order."""
    backend = Scripted(text="word " * 20, delay=0.2)
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 0)
        await say(pilot, app, "two")
        await say(pilot, app, "three")
        await wait_until(pilot, lambda: "2 waiting" in screen_text(app))
        backend.delay = 0.0
        await wait_until(pilot, lambda: len(backend.conversations) == 3)
        await settled(pilot, app)
    asked = [conversation.messages[-1].text for conversation in backend.conversations]
    assert asked == ["one", "two", "three"]


async def test_a_stop_gives_waiting_messages_back(make_app: MakeApp) -> None:
    """Guards against a message that is sent although the user stopped everything, and against losing it."""
    backend = Scripted(text="word " * 200, delay=0.02)
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "one")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 0)
        await say(pilot, app, "two")
        await pilot.press("escape")
        await settled(pilot, app)
        assert chat_of(app).composer.value == "two"
    assert len(backend.conversations) == 1


async def test_regenerate_edit_and_walk_between_versions(make_app: MakeApp, store: Store) -> None:
    """Guards branches: nothing that was said is overwritten."""
    backend = Scripted(text="First.")
    app = make_app(backend)
    async with running(app) as pilot:
        screen = chat_of(app)
        await say(pilot, app, "Say it.")
        await settled(pilot, app)
        backend.text = "Second."
        await pilot.press("ctrl+r")
        await settled(pilot, app)
        assert "2 of 2" in screen_text(app)
        assert [options.sampling.seed for options in backend.options] == [7, 8]
        await pilot.press("alt+left")
        await wait_until(pilot, lambda: "First." in screen_text(app))
        assert "Second." not in screen_text(app)
        await pilot.press("alt+up", "alt+up", "alt+e")
        assert screen.composer.value == "Say it."
        backend.text = "Third."
        await say(pilot, app, "Say it again.")
        await settled(pilot, app)
        text = screen_text(app)
        assert "Say it again." in text
        assert "Third." in text
        assert "First." not in text
        first = screen.transcript.turns[0].node
        assert len(store.versions(first.id)) == 2


async def test_f5_switches_in_the_middle_and_is_remembered(make_app: MakeApp, store: Store) -> None:
    """Guards the one key: it reaches the running reply, and the chat keeps it."""
    backend = Scripted(text="word " * 100, delay=0.01)
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "Count.")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 4)
        await pilot.press("f5")
        assert backend.switches
        assert not any(backend.switches)
        backend.delay = 0.0
        await settled(pilot, app)
        chat = store.latest()
        assert chat is not None
        assert not chat.accelerate
        await pilot.press("ctrl+n")
        assert chat_of(app).talk.accelerated
        await say(pilot, app, "Again.")
        await settled(pilot, app)
    assert backend.options[-1].accelerate


@pytest.mark.parametrize(("other", "words"), [("", "identical"), ("Drafts are gusts.", "token 6")])
async def test_verify_writes_the_reply_the_other_way(make_app: MakeApp, other: str, words: str) -> None:
    """Guards the proof: it must be able to fail."""
    backend = Scripted(text="Drafts are guesses.")
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "What are drafts?")
        await settled(pilot, app)
        backend.text = other or backend.text
        await pilot.press("alt+v")
        await settled(pilot, app)
        assert words in screen_text(app).replace("token 7", "token 6")
    assert [options.accelerate for options in backend.options] == [True, False]
    assert backend.options[0].sampling == backend.options[1].sampling


async def test_a_failure_is_explained_and_the_text_stays(make_app: MakeApp, store: Store) -> None:
    """Guards against an engine that takes the reply with it."""
    failed = Failed("engine", "The engine was killed.", "Load again.")
    app = make_app(Scripted(text="word " * 50, reply_failure=failed, fail_after=5))
    async with running(app) as pilot:
        await say(pilot, app, "Count.")
        await settled(pilot, app)
        text = screen_text(app)
        assert "The engine was killed." in text
        assert "Alt+Z" in text
        assert "word word" in text
    chat = store.latest()
    assert chat is not None
    node = store.path(chat.leaf or 0)[-1]
    assert node.state is State.FAILED
    assert node.text.startswith("word")


async def test_a_failure_before_the_first_word_leaves_only_the_question(make_app: MakeApp) -> None:
    """Guards against an empty reply in the prompt, and against a question that cannot be asked again."""
    backend = Scripted(reply_failure=Failed("usage", "The prompt is too long.", "Shorten it."))
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "Much.")
        await settled(pilot, app)
        assert [turn.node.role for turn in chat_of(app).transcript.turns] == [Role.USER]
        backend.reply_failure = None
        await pilot.press("ctrl+r")
        await settled(pilot, app)
        assert "Drafts are guesses." in screen_text(app)


async def test_an_engine_that_dies_while_idle_is_told_and_started_again(make_app: MakeApp) -> None:
    """Guards against finding out only with the next question."""
    backend = Scripted()
    app = make_app(backend)
    async with running(app) as pilot:
        backend.die()
        await wait_until(pilot, lambda: "ended by itself" in screen_text(app))
        await pilot.press("alt+z")
        await wait_until(pilot, lambda: app.desk.loaded is not None)
        assert not chat_of(app).query_one(Banner).display
        assert len(backend.plans) == 2


async def test_loading_that_fails_says_why_and_where_to_go(make_app: MakeApp) -> None:
    """Guards the first thing a user of a large model may see."""
    app = make_app(Scripted(load_failure=Failed("fit", "It needs 9 GiB; 8 are free.", "Would fit: nf4.")))
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: "Alt+S opens the settings" in screen_text(app))
        text = screen_text(app)
        assert "It needs 9 GiB" in text
        assert "Would fit: nf4." in text


async def test_what_is_typed_survives_the_end(make_app: MakeApp, store: Store) -> None:
    """Guards the unsent message."""
    app = make_app(Scripted())
    async with running(app) as pilot:
        await pilot.press(*"half a th")
    assert store.value("draft") == "half a th"
    again = make_app(Scripted())
    async with running(again):
        assert chat_of(again).composer.value == "half a th"


async def test_a_cut_off_reply_is_offered(make_app: MakeApp, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the start after a crash."""
    chat = store.create()
    user = store.add(chat.id, None, Role.USER, "Count.")
    store.add(chat.id, user.id, Role.ASSISTANT, "one two", State.WRITING)
    monkeypatch.setattr("localchat.chat.messages.CRASHED_SECONDS", -1.0)
    app = make_app(Scripted(text=" three"), chat=chat.id)
    async with running(app) as pilot:
        text = screen_text(app)
        assert "one two" in text
        assert "cut off" in text
        await pilot.press("alt+k")
        await settled(pilot, app)
        assert "one two three" in screen_text(app)


async def test_a_long_chat_mounts_few_messages_and_pages(make_app: MakeApp, store: Store) -> None:
    """Guards the cost of old chats: what nobody sees is not laid out."""
    chat = store.create()
    leaf = None
    for number in range(100):
        role = Role.ASSISTANT if number % 2 else Role.USER
        leaf = store.add(chat.id, leaf, role, f"message number {number}").id
    app = make_app(Scripted(), chat=chat.id)
    async with running(app) as pilot:
        transcript = chat_of(app).transcript
        assert len(transcript.turns) == PAGE
        assert "message number 99" in screen_text(app)
        transcript.scroll_home(animate=False)
        await wait_until(pilot, lambda: len(transcript.turns) == 2 * PAGE)
        await pilot.pause()
        numbers = [turn.node.text for turn in transcript.turns]
        assert numbers == [f"message number {number}" for number in range(60, 100)]
        await wait_until(pilot, lambda: transcript.scroll_y > 0)


async def test_the_reader_who_scrolled_up_stays_there(make_app: MakeApp, store: Store) -> None:
    """Guards against a view that jumps down with every word, or at the end of the reply."""
    chat = store.create()
    leaf = None
    for number in range(20):
        role = Role.ASSISTANT if number % 2 else Role.USER
        leaf = store.add(chat.id, leaf, role, f"message number {number}\n\n" + "line\n\n" * 5).id
    app = make_app(Scripted(text="word | word\n--- | ---\n" + "a | b\n" * 50, delay=0.003), chat=chat.id)
    async with running(app) as pilot:
        transcript = chat_of(app).transcript
        await say(pilot, app, "Go.")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 10)
        transcript.scroll_up(animate=False)
        transcript.scroll_page_up(animate=False)
        await pilot.pause()
        place = transcript.scroll_y
        await settled(pilot, app)
        await pilot.pause(0.1)
        assert transcript.scroll_y == place


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_the_side_panels_give_way_and_can_be_reached(make_app: MakeApp, size: tuple[int, int]) -> None:
    """Guards narrow terminals: they lose the panels' place, not the panels."""
    app = make_app(Scripted())
    async with running(app, size) as pilot:
        screen = chat_of(app)
        width = size[0]
        assert screen.query_one("Panel").region.width == (0 if width < 100 else 34)
        assert screen.query_one("ChatList").region.width == (28 if width >= 150 else 0)
        assert screen.query_one("StatusLine").region.height == (1 if width < 100 else 0)
        await pilot.press("f6")
        assert (screen.query_one("Panel").region.width > 0) == (width < 100)
        await pilot.press("f6", "ctrl+o")
        assert (screen.query_one("ChatList").region.width > 0) == (width < 150)


async def test_thoughts_are_folded(make_app: MakeApp) -> None:
    """Guards reasoning models: the answer is not buried, and the thought is one key away."""
    app = make_app(Scripted(text="<think>Let me see.</think>\n\nYes."))
    async with running(app) as pilot:
        await say(pilot, app, "Is it?")
        await settled(pilot, app)
        assert "Let me see." not in screen_text(app)
        assert "3 words" in screen_text(app)
        await pilot.press("alt+i")
        assert "Let me see." in screen_text(app)


async def test_leaving_in_the_middle_of_a_reply_is_quiet(make_app: MakeApp, store: Store) -> None:
    """Guards the end: timers outlive the widgets they paint, and what was written is kept."""
    app = make_app(Scripted(text="word " * 500, delay=0.002))
    async with running(app) as pilot:
        await say(pilot, app, "Count.")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 4)
        await pilot.press("ctrl+q")
    chat = store.latest()
    assert chat is not None
    assert store.path(chat.leaf or 0)[-1].text.startswith("word")


async def test_a_search_goes_to_what_it_found(make_app: MakeApp, store: Store) -> None:
    """Guards search in long chats: the message is in view and selected, not only its chat opened."""
    chat = store.create()
    leaf, wanted = None, 0
    for number in range(120):
        role = Role.ASSISTANT if number % 2 else Role.USER
        leaf = store.add(chat.id, leaf, role, f"message number {number}").id
        wanted = leaf if number == 40 else wanted
    app = make_app(Scripted())
    async with running(app) as pilot:
        screen = chat_of(app)
        await screen.open_chat(chat.id, wanted)
        await wait_until(pilot, lambda: "message number 40" in screen_text(app))
        selected = screen.transcript.selected
        assert selected is not None
        assert selected.node.id == wanted
        assert screen.talk.count() == 120
