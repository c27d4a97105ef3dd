"""A bad day on the screen: one sentence, a way on, and nothing that was said is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from textual.pilot import Pilot

from localchat.chat.conversation import Role
from localchat.chat.events import Failed
from localchat.chat.store import Store
from localchat.tui import clipboard
from localchat.tui.app import LocalChat
from localchat.tui.screens.settings import SettingsScreen
from localchat.tui.widgets.banner import Banner
from localchat.worker.client import Worker
from tests.support.backend import Scripted
from tests.support.child import command
from tests.tui.conftest import MakeApp
from tests.tui.support import screen_text, wait_until
from tests.tui.test_chat import anyio_backend, chat_of, running, say, settled
from tests.tui.trouble import LONG, said, shows, speaking, works

pytestmark = pytest.mark.anyio

__all__ = ["anyio_backend"]


# -- the terminal


@pytest.mark.parametrize("size", [(10, 5), (1, 1), (3, 40), (200, 1)])
async def test_a_tiny_terminal(make_app: MakeApp, store: Store, size: tuple[int, int]) -> None:
    """Guards against a crash where nothing can be seen: what is typed is answered and kept all the same."""
    app = make_app(Scripted())
    async with running(app, size) as pilot:
        await pilot.press(*"Hello", "enter")
        await settled(pilot, app)
        for key in ("f4", "f6", "ctrl+o", "f1", "escape"):
            await pilot.press(key)
        await pilot.resize_terminal(100, 30)
        await wait_until(pilot, lambda: "Drafts are guesses." in screen_text(app))
    assert said(store) == ["Hello", "Drafts are guesses."]


async def test_resizing_while_a_reply_is_written(make_app: MakeApp) -> None:
    """Guards against lost text or a dead view: every size on the way is survived, and the end shows the end."""
    app = make_app(Scripted(text=LONG + "the end.", delay=0.005))
    async with running(app) as pilot:
        await say(pilot, app, "Go.")
        for size in [(80, 24), (10, 5), (300, 90), (1, 1), (99, 30), (151, 24), (120, 40)]:
            await pilot.resize_terminal(*size)
            await pilot.pause(0.05)
        await settled(pilot, app)
        await shows(pilot, app, "the end.")
        turn = chat_of(app).transcript.last(Role.ASSISTANT)
        assert turn is not None
        assert turn.text == LONG + "the end."


# -- settings, themes, clipboard


async def test_a_broken_theme(home: Path, make_app: MakeApp) -> None:
    """Guards a typing error in a theme: its file and line are named, and the default is used."""
    folder = home / "config" / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('name = "mine"\nbase = "dark"\nprimary = \n')
    app = make_app(Scripted(), theme="mine")
    async with speaking(app) as pilot:
        await shows(pilot, app, "mine.toml", "line 3")
        assert app.theme == "dark"
        await works(pilot, app)


async def test_no_clipboard(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards servers: copying claims no more than what is certain."""
    monkeypatch.setattr(clipboard, "program", lambda: ())
    app = make_app(Scripted())
    async with speaking(app) as pilot:
        await works(pilot, app)
        await pilot.press("alt+y")
        await shows(pilot, app, "Sent to the terminal's clipboard.")


# -- the engine


@contextmanager
def real_child(scripted: Scripted) -> Iterator[Worker]:
    """A scripted engine in a process of its own."""
    worker = Worker(command(scripted))
    worker.start()
    yield worker
    worker.close()


async def killed(pilot: Pilot[Any], app: LocalChat, worker: Worker) -> None:
    """Kill the engine; the screen says so, and how to go on."""
    await wait_until(pilot, lambda: worker.pid > 0)
    os.kill(worker.pid, signal.SIGKILL)
    await shows(
        pilot, app, "The engine was killed, most likely because memory ran out.", "alt+z starts the engine again."
    )


async def restarted(pilot: Pilot[Any], app: LocalChat) -> None:
    """The way on leads somewhere."""
    await wait_until(pilot, lambda: not app.desk.host.busy)
    await pilot.press("alt+z")
    await wait_until(pilot, lambda: app.desk.loaded is not None and not app.desk.host.busy)
    assert not chat_of(app).query_one(Banner).display


async def test_the_engine_dies_while_it_loads(make_app: MakeApp) -> None:
    """Guards the first minute."""
    with real_child(Scripted(load_steps=3, load_delay=0.5)) as worker:
        app = make_app(worker)
        async with app.run_test(size=(120, 40)) as pilot:
            await wait_until(pilot, lambda: app.desk.live.loading is not None)
            await killed(pilot, app, worker)
            await restarted(pilot, app)
            await works(pilot, app)


async def test_the_engine_dies_while_it_loads_and_a_message_waits(make_app: MakeApp) -> None:
    """Guards the message that was sent before the model was ready: it stays, and can be asked again."""
    with real_child(Scripted(load_steps=3, load_delay=0.5)) as worker:
        app = make_app(worker)
        async with app.run_test(size=(120, 40)) as pilot:
            await wait_until(pilot, lambda: app.desk.live.loading is not None)
            await say(pilot, app, "Early bird")
            await killed(pilot, app, worker)
            await restarted(pilot, app)
            await shows(pilot, app, "Early bird")
            await pilot.press("ctrl+r")
            await settled(pilot, app)
            await shows(pilot, app, "Drafts are guesses.")


async def test_the_engine_dies_while_it_reads(make_app: MakeApp) -> None:
    """Guards a long prompt: the question stays and can be asked again."""
    with real_child(Scripted(prefill_steps=5, on_round=wait_a_little)) as worker:
        app = make_app(worker)
        async with running(app) as pilot:
            await say(pilot, app, "A long one")
            await wait_until(pilot, lambda: app.desk.live.prefill is not None)
            assert not app.desk.live.stats.tokens
            await killed(pilot, app, worker)
            await settled(pilot, app)
            assert [turn.node.role for turn in chat_of(app).transcript.turns] == [Role.USER]
            await restarted(pilot, app)
            await pilot.press("ctrl+r")
            await settled(pilot, app)
            await shows(pilot, app, "A long one", "Drafts are guesses.")


def wait_a_little(round_: int) -> None:
    """Time to be killed before the first word."""
    if not round_:
        sleep(1.0)


async def test_the_engine_dies_while_it_writes(make_app: MakeApp, store: Store) -> None:
    """Guards the reply: what was on the screen stays there and in the store, and can be continued."""
    with real_child(Scripted(text=LONG, delay=0.02)) as worker:
        app = make_app(worker)
        async with running(app) as pilot:
            await say(pilot, app, "Go.")
            await wait_until(pilot, lambda: app.desk.live.stats.tokens > 20)
            before = app.desk.live.stats.tokens
            await killed(pilot, app, worker)
            await settled(pilot, app)
            part = said(store)[-1]
            assert len(part) >= 2 * before
            assert LONG.startswith(part)
            await restarted(pilot, app)
            await pilot.press("alt+k")
            await settled(pilot, app)
            assert said(store) == ["Go.", part + LONG]


async def test_the_engine_dies_while_nothing_happens(make_app: MakeApp) -> None:
    """Guards against finding out only with the next question."""
    with real_child(Scripted()) as worker:
        app = make_app(worker)
        async with running(app) as pilot:
            await works(pilot, app, "One")
            os.kill(worker.pid, signal.SIGKILL)
            await shows(pilot, app, "The engine has ended by itself.", "alt+z")
            await restarted(pilot, app)
            await works(pilot, app, "Two")


async def test_memory_runs_out_while_loading(make_app: MakeApp) -> None:
    """Guards the first thing a large model may do: why, what would fit, and the way there."""
    backend = Scripted(load_failure=Failed("fit", "It needs 9 GiB; 8 are free.", "Would fit: nf4."))
    app = make_app(backend)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, app, "It needs 9 GiB; 8 are free.", "Would fit: nf4.", "alt+s opens the settings")
        await pilot.press("alt+s")
        await wait_until(pilot, lambda: isinstance(app.screen, SettingsScreen))
        backend.load_failure = None
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.screen is chat_of(app))
        await pilot.press("alt+z")
        await wait_until(pilot, lambda: app.desk.loaded is not None)
        await works(pilot, app)


async def test_memory_runs_out_while_writing(make_app: MakeApp, store: Store) -> None:
    """Guards the reply and the engine: the part stays, the model is still there, a smaller plan is one key away."""
    failed = Failed("fit", "Memory ran out while writing.", "A shorter context leaves more room.")
    backend = Scripted(text=LONG, reply_failure=failed, fail_after=5)
    app = make_app(backend)
    async with running(app) as pilot:
        await say(pilot, app, "Go.")
        await settled(pilot, app)
        await shows(pilot, app, failed.title, failed.hint, "alt+s opens the settings", "word word")
        assert LONG.startswith(said(store)[-1])
        assert said(store)[-1]
        await pilot.press("alt+s")
        await wait_until(pilot, lambda: isinstance(app.screen, SettingsScreen))
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.screen is chat_of(app))
        backend.reply_failure, backend.text = None, "Drafts are guesses."
        await works(pilot, app)


async def test_a_model_that_is_gone(make_app: MakeApp) -> None:
    """Guards a folder that was deleted between the start and the load."""
    backend = Scripted(load_failure=Failed("model", "There is no model in /models/gone.", "Check the path."))
    app = make_app(backend)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, app, "There is no model in /models/gone.", "alt+s opens the settings")


async def test_a_question_without_a_model(make_app: MakeApp, store: Store) -> None:
    """Guards a question after a failed load: it is kept, and the way to an answer is said."""
    unloaded = Failed("generation", "No model is loaded.", "Load one first.")
    backend = Scripted(load_failure=Failed("fit", "It needs 9 GiB.", "Would fit: nf4."), reply_failure=unloaded)
    app = make_app(backend)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, app, "It needs 9 GiB.")
        await say(pilot, app, "Anyone?")
        await settled(pilot, app)
        await shows(pilot, app, "Anyone?", "No model is loaded.", "alt+s opens the settings")
    assert said(store) == ["Anyone?"]
