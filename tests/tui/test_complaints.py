"""What users of other terminal chats complain about, and that nothing else here guards: each must not happen again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from textual import events
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.screen import Screen

from localchat import paths
from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Role
from localchat.chat.events import ReplyEvent
from localchat.chat.store import Store
from localchat.tui import clipboard
from localchat.tui.app import LocalChat
from localchat.tui.screens.chat import ChatScreen
from tests.support.backend import Scripted
from tests.tui.conftest import MakeApp
from tests.tui.program import command
from tests.tui.support import wait_until
from tests.tui.terminal import Terminal

pytestmark = pytest.mark.anyio

FENCE = "```python\ndef f(x):\n    return x\n\n\nfirst = 1\nlast = f(2)\n```\n\n"
RICH = f"Some **bold** text.\n\n- one\n- two\n\n{FENCE}| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n\nThe end.\n\n"


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


@asynccontextmanager
async def running(app: LocalChat, size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[Pilot[Any], ChatScreen]]:
    """The app, with its model loaded."""
    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, lambda: app.desk.loaded is not None and not app.desk.host.busy)
        await pilot.pause()
        yield pilot, next(screen for screen in app.screen_stack if isinstance(screen, ChatScreen))


async def say(pilot: Pilot[Any], screen: ChatScreen, text: str) -> None:
    """Type and send."""
    screen.composer.load_text(text)
    await pilot.press("enter")


async def settled(pilot: Pilot[Any], screen: ChatScreen) -> None:
    """Nothing is being written or waits."""
    talk = screen.talk
    await wait_until(pilot, lambda: not talk.waiting and talk.writing is None and screen._turn is None, seconds=30)
    await pilot.pause()


def long_chat(store: Store, messages: int) -> int:
    """A chat of questions and rich replies."""
    chat, leaf = store.create(), None
    for number in range(messages):
        leaf = store.add(chat.id, leaf, *((Role.ASSISTANT, RICH * 2) if number % 2 else (Role.USER, "Go on."))).id
    return chat.id


# -- what it costs


@pytest.fixture
def layouts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the screen was laid out."""
    found: list[float] = []
    lay_out = Screen._refresh_layout

    def counted(self: Screen[Any], *args: Any, **keys: Any) -> None:
        found.append(time.monotonic())
        lay_out(self, *args, **keys)

    monkeypatch.setattr(Screen, "_refresh_layout", counted)
    return found


class Paced(Scripted):
    """Takes its time for every event, so that many frames are drawn."""

    def _say(self, text: str, options: ReplyOptions) -> Iterator[ReplyEvent]:
        for event in super()._say(text, options):
            time.sleep(0.015)
            yield event


def reading(app: LocalChat) -> int:
    """How much of the prompt has been read."""
    return app.desk.live.prefill.done if app.desk.live.prefill else 0


def thinking(app: LocalChat) -> int:
    """How much has been written."""
    return app.desk.live.stats.tokens


@pytest.mark.parametrize("counted", [reading, thinking])
async def test_ticking_figures_lay_nothing_out(
    make_app: MakeApp, layouts: list[float], counted: Callable[[LocalChat], int]
) -> None:
    """Guards a cost that grows with the chat: ten times a second each of its messages would be laid out again."""
    app = make_app(Paced(text="<think>" + "word " * 60, prefill_steps=100))
    async with running(app, (160, 40)) as (pilot, screen):
        await say(pilot, screen, "Well?")
        begin, end = (1, 4) if counted is reading else (30, 120)
        await wait_until(pilot, lambda: counted(app) >= begin)
        await pilot.pause()
        layouts.clear()
        await wait_until(pilot, lambda: counted(app) >= end)
        assert len(layouts) <= 1
        await settled(pilot, screen)


MANY = 250
"""Styled widgets: the keys at the foot and what has the focus, which are there in every chat."""


async def styled(pilot: Pilot[Any], monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> int:
    """How many widgets are styled anew by something."""
    count = 0
    apply = Stylesheet.apply

    def counted(self: Stylesheet, *args: Any, **keys: Any) -> None:
        nonlocal count
        count += 1
        apply(self, *args, **keys)

    with monkeypatch.context() as patch:
        patch.setattr(Stylesheet, "apply", counted)
        act()
        await pilot.pause(0.1)
    return count


@pytest.mark.parametrize("messages", [0, 20])
async def test_focus_and_keys_cost_the_same_in_a_long_chat(
    make_app: MakeApp, store: Store, layouts: list[float], monkeypatch: pytest.MonkeyPatch, messages: int
) -> None:
    """Guards a window that freezes when it is left or entered, and typing that slows down as the chat grows."""
    app = make_app(Scripted(), chat=long_chat(store, messages) if messages else None)
    async with running(app) as (pilot, screen):
        await wait_until(pilot, lambda: len(screen.transcript.turns) == messages)
        for event in (events.AppBlur(), events.AppFocus()):
            assert await styled(pilot, monkeypatch, partial(app.post_message, event)) < MANY
        assert screen.composer.box.has_focus
        layouts.clear()

        def type_a_word() -> None:
            for letter in "typing":
                app.post_message(events.Key(letter, letter))

        assert await styled(pilot, monkeypatch, type_a_word) < MANY
        assert screen.composer.value == "typing"
        assert len(layouts) < len("typing")


# -- scrolling


async def test_a_waiting_message_does_not_move_who_reads(make_app: MakeApp, store: Store) -> None:
    """Guards a view that jumps to the end when the next reply begins by itself."""
    gate = Event()

    def hold(number: int) -> None:
        gate.wait(10.0 if number == 12 else 0.0)

    backend = Scripted(text="word\n\n" * 30, on_round=hold)
    app = make_app(backend, chat=long_chat(store, 4))
    async with running(app) as (pilot, screen):
        transcript = screen.transcript
        await say(pilot, screen, "one")
        await say(pilot, screen, "two")
        await wait_until(pilot, lambda: app.desk.live.stats.tokens > 10)
        transcript.scroll_page_up(animate=False)
        transcript.scroll_page_up(animate=False)
        await pilot.pause()
        place = transcript.scroll_y
        assert screen.talk.waiting
        gate.set()
        await settled(pilot, screen)
        assert [turn.text for turn in transcript.turns][-2] == "two"
        assert transcript.scroll_y == place
        await say(pilot, screen, "three")
        await settled(pilot, screen)
        assert transcript.scroll_y == transcript.max_scroll_y


async def test_the_view_never_jumps_up_while_it_follows(
    make_app: MakeApp, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards a view that shows the top for a moment, while a reply grows or when it is laid out as a whole."""
    app = make_app(Scripted(text=RICH * 3, delay=0.02), chat=long_chat(store, 6))
    async with running(app) as (pilot, screen):
        places: list[float] = []
        display = App._display

        def kept(self: App[None], *args: Any) -> None:
            places.append(screen.transcript.scroll_y)
            display(self, *args)

        monkeypatch.setattr(App, "_display", kept)
        await say(pilot, screen, "Go on.")
        await settled(pilot, screen)
        assert places[-1] > places[0] + 10
        # A line that becomes a heading, or a fence that closes, takes a line or two away.
        assert max(before - after for before, after in pairwise(places)) <= 3


# -- copy, mouse, keys


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was copied."""
    found: list[str] = []
    copy = clipboard.copy

    def kept(app: App[Any], text: str) -> str:
        found.append(text)
        return copy(app, text)

    monkeypatch.setattr(clipboard, "copy", kept)
    return found


async def test_messages_code_and_selections_are_copied(make_app: MakeApp, copied: list[str]) -> None:
    """Guards the three things people copy: whole messages as written, code without its fence, what the mouse marked."""
    text = f"{FENCE}**The** end.\n\n```\nsecond\n```"
    app = make_app(Scripted(text=text))
    async with running(app) as (pilot, screen):
        await say(pilot, screen, "Show me.")
        await settled(pilot, screen)
        await pilot.press("ctrl+y", "alt+j", "alt+j")
        assert copied == [text, FENCE.removeprefix("```python\n").removesuffix("```\n\n"), "second\n"]
        copied.clear()
        place = next(child for child in screen.transcript.turns[-1]._body.children if "The end." in str(child._content))  # type: ignore[attr-defined]
        start = place.region.offset
        await pilot.mouse_down(offset=start)
        await pilot.hover(offset=start + Offset(6, 0))
        await pilot.mouse_up(offset=start + Offset(6, 0))
        await pilot.press("ctrl+c", "ctrl+y")
        assert copied == ["The end", "The end"]
        said = [notification.message for notification in app._notifications]
        assert len([words for words in said if "clipboard" in words or "Copied" in words]) == len(said) > 0
        await pilot.press("h", "i")  # the click gave the keys to the conversation
        assert screen.composer.value == "hi"


SWALLOWED = {"ctrl+b", "ctrl+e", "ctrl+f", "ctrl+g", "ctrl+n", "ctrl+o", "ctrl+p", "ctrl+q", "ctrl+r", "ctrl+t"}
"""By VS Code, and the first by tmux; function keys are too."""


async def test_what_editors_swallow_has_another_way(make_app: MakeApp) -> None:
    """Guards those who run it in an editor's terminal: every action has a key that gets through, or a command."""
    from localchat.tui.commands import Everything
    from localchat.tui.keys import ACTIONS

    app = make_app(Scripted())
    async with running(app) as (pilot, screen):
        await pilot.press("alt+o")
        listed = {entry.title for entry in Everything(screen)._entries()}
        for action in ACTIONS:
            through = set(action.keys.split(",")) - SWALLOWED - {f"f{number}" for number in range(1, 13)}
            assert through or action.label in listed, action.id


# -- what was said


async def test_a_changed_reply_is_a_branch_and_can_go_on(make_app: MakeApp, store: Store) -> None:
    """Guards the old reply when a reply is edited, and that the model goes on from the edited beginning."""
    backend = Scripted(text="The old reply.")
    app = make_app(backend)
    async with running(app) as (pilot, screen):
        await say(pilot, screen, "Tell me.")
        await settled(pilot, screen)
        await pilot.press("alt+up", "alt+e")
        assert screen.composer.value == "The old reply."
        screen.composer.load_text("My own start")
        await pilot.press("enter")
        backend.text = ", and the rest."
        await wait_until(pilot, lambda: screen.transcript.turns[-1].text == "My own start")
        await pilot.press("alt+k")
        await settled(pilot, screen)
        assert backend.conversations[-1].messages[-1].text == "My own start"
        shown = []
        for _ in range(3):
            shown.append(screen.transcript.turns[-1].text)
            await pilot.press("alt+left")
            await pilot.pause()
        assert shown == ["My own start, and the rest.", "My own start", "The old reply."]


# -- terminals


async def test_input_methods_find_the_caret(make_app: MakeApp) -> None:
    """Guards Japanese and Chinese: what is being composed appears at the terminal's cursor, so that must be here."""
    app = make_app(Scripted())
    async with running(app) as (pilot, screen):
        box = screen.composer.box

        def there() -> bool:
            return app.cursor_position == box.cursor_screen_offset != Offset(0, 0)

        await wait_until(pilot, there)
        await pilot.resize_terminal(90, 30)
        await wait_until(pilot, there)
        screen.banner.tell("One", "Two")
        await wait_until(pilot, there)


async def test_windows_has_no_signals_to_catch(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the start where the event loop knows no signals."""

    def missing(*_: object) -> None:
        raise NotImplementedError

    app = make_app(Scripted())
    async with app.run_test() as pilot:
        monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", missing)
        await wait_until(pilot, lambda: app.desk.loaded is not None)


IDLE = 3.0
MOUSE = (b"\x1b[?1000h", b"\x1b[?1003h")


def test_an_idle_screen_is_quiet(home: Path) -> None:
    """Guards the battery: a twentieth of a core is the limit, and it is about a hundredth."""
    with Terminal(command(Scripted()), {"LOCALCHAT_HOME": str(home)}) as terminal:
        terminal.wait("Ready")
        time.sleep(1.0)
        cpu, drawn = terminal.cpu_seconds(), len(terminal.raw)
        time.sleep(IDLE)
        assert terminal.cpu_seconds() - cpu < 0.05 * IDLE
        assert len(terminal.raw) - drawn < 5_000 * IDLE
        assert all(mode in terminal.raw for mode in MOUSE)
        assert b"\x1b[?1049h" in terminal.raw  # a screen of its own: nothing is repeated above it
        assert b"\x1bP" not in terminal.raw  # no probing for pictures
        terminal.send("\x1bq")
        assert terminal.ended(10.0)
        assert b"\x1b[?1049l" in terminal.raw


@pytest.mark.parametrize("where", ["typed", "config file"])
def test_without_the_mouse_the_terminal_selects(home: Path, where: str) -> None:
    """Guards the terminal's own selection: there is a switch, and it can be kept."""
    arguments = ("--no-mouse",) if where == "typed" else ()
    if not arguments:
        paths.config_file().parent.mkdir(parents=True)
        paths.config_file().write_text("mouse = false\n")
    with Terminal(command(Scripted(), *arguments), {"LOCALCHAT_HOME": str(home)}) as terminal:
        terminal.wait("Ready")
        assert not any(mode in terminal.raw for mode in MOUSE)
