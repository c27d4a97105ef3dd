"""The engine's process: does what it is asked on its main thread, listens on a second and sends on a third.

It lives exactly as long as its standard input is open: when the screen's process ends, however it ends, so does this
one, in the middle of a forward if need be.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from time import monotonic
from typing import IO

from localchat.chat.backend import Backend
from localchat.chat.events import Event
from localchat.worker.messages import HELLO, Answer, Ask, Batch, Cancel, Load, Switch, receive, send

_FRAME = 1 / 30
"""Seconds between two batches: more often nobody can look, and each costs the screen a wake-up."""

_log = logging.getLogger(__name__)


def main() -> None:
    """The engine's process, with the real engine."""
    incoming, outgoing = take_over()
    serve(_session, incoming, outgoing)


def _session() -> Backend:
    from localchat.chat.session import Session

    return Session()


def take_over() -> tuple[IO[bytes], IO[bytes]]:
    """Keep standard input and output for messages alone, and send what libraries print to standard error (the log)."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl+c is the screen's to understand
    faulthandler.enable()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s: %(message)s")
    logging.captureWarnings(True)
    return incoming, outgoing


def serve(make: Callable[[], Backend], incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Serve until the other side is gone; does not return.

    Args:
        make: builds the engine; takes seconds, so everything else is ready before.
        incoming: orders.
        outgoing: batches of events.
    """
    jobs = _Jobs()
    threading.Thread(target=_listen, args=(incoming, jobs), name="listen", daemon=True).start()
    outgoing.write(HELLO)
    outgoing.flush()
    said: SimpleQueue[tuple[int, Event | None]] = SimpleQueue()
    threading.Thread(target=_speak, args=(outgoing, said), name="speak", daemon=True).start()
    try:
        backend = make()
        while True:
            ask = jobs.next()
            for event in jobs.begin(ask, backend):
                said.put((ask.job, event))
            said.put((ask.job, None))
    except Exception as error:  # noqa: BLE001 - leaving in the ordinary way would wait for the listening thread
        _log.error("the engine ends", exc_info=error)
        os._exit(1)


class _Jobs:
    """Jobs in line, and what was said about them: a switch or a cancel may come before its job has begun."""

    def __init__(self) -> None:
        self._line: SimpleQueue[Ask] = SimpleQueue()
        self._lock = threading.Lock()
        self._early: list[Switch | Cancel] = []
        self._running = 0
        self._backend: Backend | None = None

    def take(self, order: object) -> None:
        """Called by the listening thread."""
        if isinstance(order, Ask):
            self._line.put(order)
        elif isinstance(order, Switch | Cancel):
            with self._lock:
                if order.job > self._running:
                    self._early.append(order)
                else:
                    self._apply(order)

    def next(self) -> Ask:
        """Wait for a job."""
        return self._line.get()

    def begin(self, ask: Ask, backend: Backend) -> Iterator[Event]:
        """Begin it, and tell it what was said before."""
        with self._lock:
            events = _begun(ask, backend)
            self._running, self._backend = ask.job, backend
            for order in self._early:
                self._apply(order)
            self._early.clear()
        return events

    def _apply(self, order: Switch | Cancel) -> None:
        if order.job != self._running or self._backend is None:
            return
        if isinstance(order, Switch):
            self._backend.accelerate(order.on)
        else:
            self._backend.cancel()


def _begun(ask: Ask, backend: Backend) -> Iterator[Event]:
    request = ask.request
    if isinstance(request, Load):
        return backend.load(request.plan)
    if isinstance(request, Answer):
        return backend.reply(request.conversation, request.options)
    return backend.survey(request.device)


def _listen(incoming: IO[bytes], jobs: _Jobs) -> None:
    try:
        while (order := receive(incoming)) is not None:
            jobs.take(order)
    except Exception as error:  # noqa: BLE001 - without an ear this process would run on for ever
        _log.error("the engine cannot hear", exc_info=error)
    os._exit(0)


def _speak(outgoing: IO[bytes], said: SimpleQueue[tuple[int, Event | None]]) -> None:
    """Send what was said, at most once per frame; the end of a job at once."""
    sent = 0.0
    while True:
        job, event = said.get()
        events: list[Event] = []
        while event is not None:
            events.append(event)
            try:
                job, event = said.get(timeout=max(0.0, sent + _FRAME - monotonic()))
            except Empty:
                break
        try:
            send(outgoing, Batch(job, tuple(events), ended=event is None))
        except OSError:
            os._exit(0)
        sent = monotonic()
