"""One thread asks the engine; the screen empties its queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from localchat.chat.backend import Backend, ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Event, Finished, Loaded
from localchat.models.plan import LoadPlan
from localchat.tui.host import Host
from tests.support.backend import Scripted


@pytest.fixture
def backend() -> Scripted:
    """Says something slowly enough to be stopped."""
    return Scripted(text="word " * 40, delay=0.005)


@pytest.fixture
def host(backend: Scripted) -> Iterator[Host]:
    """Closed at the end."""
    host = Host(backend)
    yield host
    host.close()


def drain_until(host: Host, predicate: Callable[[], bool], seconds: float = 10.0) -> None:
    """Empty the queue until the predicate holds."""
    end = time.monotonic() + seconds
    while not predicate():
        assert time.monotonic() < end
        host.drain()
        time.sleep(0.002)


def reply(backend: Backend) -> Iterator[Event]:
    """A job."""
    yield from backend.reply(Conversation().user("hello"), ReplyOptions())


def test_jobs_wait_in_line_and_arrive_on_the_callers_thread(host: Host) -> None:
    """Guards against two questions at once, and against widgets touched from another thread."""
    heard: list[Event] = []
    order: list[str] = []
    threads: set[threading.Thread] = set()

    def sink(events: tuple[Event, ...]) -> None:
        threads.add(threading.current_thread())
        heard.extend(events)

    host.run(lambda backend: backend.load(LoadPlan()), sink, lambda _: order.append("loaded"))
    host.run(reply, sink, lambda _: order.append("replied"))
    assert host.busy
    drain_until(host, lambda: not host.busy)
    assert order == ["loaded", "replied"]
    assert threads == {threading.current_thread()}
    assert next(place for place, event in enumerate(heard) if isinstance(event, Loaded)) < len(heard) - 1
    assert isinstance(heard[-1], Finished)


def test_a_dropped_job_that_waits_is_never_run(host: Host, backend: Scripted) -> None:
    """Guards against a reply nobody wants any more."""
    ended: list[Exception | None] = []
    host.run(reply, lambda _: None)
    late = host.run(reply, lambda _: None, ended.append)
    host.drop(late)
    drain_until(host, lambda: not host.busy)
    assert ended == [None]
    assert len(backend.options) == 1


def test_dropping_a_running_job_stops_it(host: Host) -> None:
    """Guards escape: the reply ends at the next round, and says so itself."""
    heard: list[Event] = []
    job = host.run(reply, heard.extend)
    drain_until(host, lambda: len(heard) > 2)
    host.drop(job)
    drain_until(host, lambda: not host.busy)
    assert isinstance(heard[-1], Finished)
    assert heard[-1].reply.finish_reason == "cancelled"


def test_an_error_in_a_job_is_handed_over(host: Host) -> None:
    """Guards against a thread that dies in silence and a screen that waits for ever."""
    ended: list[Exception | None] = []

    def broken(_: Backend) -> Iterator[Event]:
        raise OSError("the disk is gone")

    host.run(broken, lambda _: None, ended.append)
    host.run(reply, lambda _: None, ended.append)
    drain_until(host, lambda: not host.busy)
    assert isinstance(ended[0], OSError)
    assert ended[1] is None


def test_the_tap_hears_everything_at_once(host: Host) -> None:
    """Guards the recorder: what it gets does not wait for the screen."""
    tapped: list[Event] = []
    host.run(reply, lambda _: None, tap=tapped.append)
    end = time.monotonic() + 10
    while not (tapped and isinstance(tapped[-1], Finished)):
        assert time.monotonic() < end
        time.sleep(0.005)
