"""The client over a scripted engine in a process of its own: jobs, cancels, switches, and what crosses."""

from __future__ import annotations

import threading
import time

import pytest

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Event, Failed, Finished, Loaded, Loading, Prefilling, Surveyed, Wrote
from localchat.engine.types import StopReason
from localchat.models.plan import LoadPlan
from localchat.worker import process
from tests.support.backend import MACHINE, Scripted
from tests.support.child import Manners
from tests.worker.support import HELLO, LONG, Start, gone, loaded, prompt, said, text_of


def test_events_cross_unchanged(start: Start) -> None:
    """Guards the wire: surveying, loading and a reply say through the process what they say without it."""
    scripted = Scripted(LONG, prefill_steps=3)
    worker = start(scripted)
    assert list(worker.survey("auto")) == [Surveyed(MACHINE)]
    assert list(worker.load(LoadPlan())) == list(scripted.load(LoadPlan()))
    assert said(worker) == list(scripted.reply(HELLO, ReplyOptions()))


@pytest.mark.parametrize("text", ["\x1b]52;c;AAAA\x07" * 50, "‮[b]\ud800\x00\r", "x" * 2_000_000])
def test_any_text_crosses(start: Start, text: str) -> None:
    """Guards against hostile text that breaks the wire: controls, half characters, very long lines."""
    worker = loaded(start(Scripted("ok")))
    heard = list(worker.reply(Conversation.begin().user(text), ReplyOptions()))
    assert isinstance(heard[-1], Finished)
    told = loaded(start(Scripted(text[:30_000])))
    assert text_of(said(told)) == text[:30_000]


def test_nothing_loaded_is_said(start: Start) -> None:
    """Guards a reply before any load: one sentence, no process started for it."""
    worker = start()
    failed = said(worker)
    assert [type(event) for event in failed] == [Failed]
    assert worker.pid == 0


def test_a_load_gets_a_fresh_process(start: Start) -> None:
    """Guards memory: the old process is gone, zombie included, before the new one looks at what is free."""
    worker = start()
    worker.start()
    first = worker.pid
    loaded(worker)
    assert worker.pid == first, "the process started ahead is used"
    loaded(worker)
    assert worker.pid != first
    assert gone(first, 0.1)


def test_closing_leaves_nothing(start: Start) -> None:
    """Guards against orphans and zombies; closing twice does no harm, and loading works afterwards."""
    worker = loaded(start())
    pid = worker.pid
    worker.close()
    worker.close()
    assert gone(pid, 0.1)
    assert worker.alive
    loaded(worker)


def test_a_stubborn_process_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a screen that waits for ever for an engine that ignores the request to end."""
    monkeypatch.setattr(process, "_GRACE", 0.2)
    worker = loaded(start(manners=Manners(stubborn=True)))
    pid = worker.pid
    worker.close()
    assert gone(pid, 0.1)


def test_cancelling_a_load_ends_its_process(start: Start) -> None:
    """Guards Esc while loading: at once, memory given back, said as what it is, and the next load works."""
    worker = start(Scripted(load_delay=0.5, load_steps=2))

    def attempt() -> float:
        events = worker.load(LoadPlan())
        assert isinstance(next(events), Loading)
        pid, begun = worker.pid, time.monotonic()
        threading.Timer(0.05, worker.cancel).start()
        last = list(events)[-1]
        seconds = time.monotonic() - begun - 0.05
        assert isinstance(last, Failed)
        assert last.kind == "cancelled"
        assert gone(pid, 0.1)
        assert worker.alive
        return seconds

    assert prompt(attempt)
    loaded(worker)


def test_cancelling_before_the_first_event_counts(start: Start) -> None:
    """Guards an Esc that comes between asking for something and hearing of it: a load leaves the engine alone."""
    worker = loaded(start(Scripted(LONG, delay=0.01)))
    pid = worker.pid
    events = worker.reply(HELLO, ReplyOptions())
    worker.cancel()
    last = list(events)[-1]
    assert isinstance(last, Finished)
    assert last.reply.finish_reason is StopReason.CANCELLED
    assert last.reply.stats.rounds <= 1
    load = worker.load(LoadPlan())
    worker.cancel()
    assert [type(event) for event in load] == [Failed]
    assert worker.pid in (pid, 0)


@pytest.mark.parametrize("stage", [Prefilling, Wrote])
def test_cancelling_a_reply_keeps_the_process(start: Start, stage: type[Event]) -> None:
    """Guards Esc while writing: what was written stands, and the engine stays loaded."""
    worker = loaded(start(Scripted(LONG, delay=0.02)))
    pid = worker.pid

    def attempt() -> float:
        events = worker.reply(HELLO, ReplyOptions())
        heard: list[Event] = []
        for event in events:
            heard.append(event)
            if isinstance(event, stage):
                break
        begun = time.monotonic()
        worker.cancel()
        heard += events
        seconds = time.monotonic() - begun
        last = heard[-1]
        assert isinstance(last, Finished)
        assert last.reply.finish_reason is StopReason.CANCELLED
        assert last.reply.text == text_of(heard)
        return seconds

    assert prompt(attempt)
    assert worker.pid == pid
    assert text_of(said(worker)) == LONG


def test_a_late_cancel_stops_nothing_else(start: Start) -> None:
    """Guards against an Esc for a finished reply that stops the next one, or ends an engine just loaded."""
    worker = start(Scripted(LONG))
    events = worker.load(LoadPlan())
    assert any(isinstance(event, Loaded) for event in events)
    worker.cancel()
    said(worker)
    worker.cancel()
    assert text_of(said(worker)) == LONG


def test_a_cancel_in_the_last_moment_of_a_load_is_not_half_done(start: Start) -> None:
    """Guards the race between "it is loaded" and Esc: either the engine is there, or the load was cancelled."""
    worker = start(Scripted(load_delay=0.01))
    for attempt in range(20):
        events = worker.load(LoadPlan())
        next(events)
        timer = threading.Timer(0.004 + attempt * 0.001, worker.cancel)
        timer.start()
        last = list(events)[-1]
        timer.join()
        assert isinstance(last, Loaded | Failed)
        assert bool(worker.pid) == isinstance(last, Loaded)


def test_a_switch_reaches_the_running_reply(start: Start) -> None:
    """Guards F5: on and off in mid-reply, before its first event, and without a reply."""
    worker = loaded(start(Scripted(LONG, delay=0.02)))
    worker.accelerate(False)
    events = worker.reply(HELLO, ReplyOptions(accelerate=True))
    worker.accelerate(False)
    heard: list[Event] = []
    for event in events:
        heard.append(event)
        worker.accelerate(len(heard) > 8)
    sources = [event.round.source for event in heard if isinstance(event, Wrote)]
    assert sources[0] == ""
    assert sources[-1] == "lookup"
    assert text_of(heard) == LONG


def test_a_consumer_that_walks_away(start: Start) -> None:
    """Guards against the rest of one reply turning up in the next, and against a load nobody waits for."""
    worker = loaded(start(Scripted(LONG, delay=0.01)))
    events = worker.reply(HELLO, ReplyOptions())
    next(events)
    del events
    assert text_of(said(worker)) == LONG
    slow = start(Scripted(load_delay=0.5, load_steps=10))
    load = slow.load(LoadPlan())
    next(load)
    pid = slow.pid
    del load
    assert gone(pid)
