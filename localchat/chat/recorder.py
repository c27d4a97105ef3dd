"""A reply on its way to the disk: saved while it is written, from a thread of its own, so that nobody waits for it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from localchat.chat.events import Event, Failed, Finished, Reply, Wrote
from localchat.chat.records import Node, State, StoreError, Summary, Written
from localchat.chat.store import Store
from localchat.engine.types import StopReason

EVERY = 0.4
"""Seconds between two saves."""

_SIGN_OF_LIFE = 1.0
"""Seconds without text after which the message is marked as still being written."""


class Recorder:
    """Hears the events of one reply and keeps its message up to date.

    Call it with each event from any thread, then `close` it. A save that fails is tried again until `close`.

    Args:
        store: where the message is.
        node: the message, in the state `WRITING`.
        start_text: what stood there before (a reply that is continued).
        system: the system message that it is written under; None: not known.
    """

    def __init__(self, store: Store, node: Node, start_text: str = "", system: str | None = None) -> None:
        self.problem = ""
        """Why the last save failed, in a sentence; empty if it did not."""
        self.start = start_text
        self._store, self._node, self._system = store, node, system
        self._text = start_text
        self._rounds: list[Wrote] = []
        self._reply: Reply | None = None
        self._state = State.WRITING
        self._closing = False
        self._changed = True
        self._tried = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        """The message as far as it is written, whether or not it could be saved."""
        return self._text

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        with self._wake:
            if isinstance(event, Wrote):
                self._rounds.append(event)
                self._text += event.text
                self._changed = self._changed or bool(event.text)
            elif isinstance(event, Finished):
                self._reply = event.reply
                self._text = self.start + event.reply.text
                stopped = event.reply.finish_reason is StopReason.CANCELLED
                self._end(State.STOPPED if stopped else State.COMPLETE)
            elif isinstance(event, Failed):
                self._end(State.FAILED)

    @property
    def node(self) -> Node:
        """The message as it is written, whether or not it could be saved."""
        summary = Summary.of(self._reply) if self._reply else self._node.summary
        return replace(self._node, text=self._text, state=self._state, summary=summary)

    @property
    def saved(self) -> bool:
        """All of it is on the disk, and nothing more comes."""
        return self._tried and not self.problem

    def finish(self, timeout: float = 2.0) -> None:
        """Wait until the whole message is saved or cannot be; a reply without an end counts as stopped.

        What cannot be saved is tried again until `close`.
        """
        with self._wake:
            if self._state is State.WRITING:
                self._end(State.STOPPED)
            self._wake.wait_for(lambda: self._tried, timeout)

    def close(self, timeout: float = 2.0) -> None:
        """Save what there is and end; a reply without an end counts as stopped."""
        with self._wake:
            if not self._closing and self._state is State.WRITING:
                self._end(State.STOPPED)
            self._closing = True
            self._wake.notify()
        self._thread.join(timeout)

    def _end(self, state: State) -> None:
        self._state, self._changed = state, True
        self._wake.notify()

    def _work(self) -> None:
        last = 0.0
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._state is not State.WRITING or self._closing, EVERY)
                text, state, closing, changed = self._text, self._state, self._closing, self._changed
                self._changed = False
            if not changed and time.monotonic() - last < _SIGN_OF_LIFE:
                continue
            saved = self._save(text, state, changed=changed)
            last = time.monotonic()
            with self._wake:
                self._tried = state is not State.WRITING
                self._wake.notify_all()
            if (saved and state is not State.WRITING) or closing:
                return
            if not saved:
                self._retry()

    def _retry(self) -> None:
        with self._wake:
            self._changed = True
            self._wake.wait_for(lambda: self._closing, EVERY)

    def _save(self, text: str, state: State, *, changed: bool) -> bool:
        try:
            if not changed:
                self._store.alive(self._node.id)
            elif self._reply is None:
                self._store.keep(self._node.id, text, state)
            else:
                self._store.keep(self._node.id, text, state, Summary.of(self._reply))
                written = Written(self._reply, tuple(self._rounds), len(self.start), self._system)
                self._store.keep_written(self._node.id, written)
        except StoreError as error:
            self.problem = error.message
            return False
        self.problem = ""
        return True
