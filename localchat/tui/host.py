"""The engine as the screen has it: one thread that asks it, and a queue that the screen empties a few times a second.

Whatever talks to the backend goes through `run`, so two things can never ask at once: jobs wait in line. A job's
values are handed over in batches on the screen's own thread; nothing else crosses the border.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from localchat.chat.backend import Backend

_log = logging.getLogger(__name__)

T = TypeVar("T")

FRAME = 1 / 10
"""Seconds between two hand-overs: faster than that nobody reads, and each costs a layout."""


@dataclass(eq=False)
class Job(Generic[T]):
    """One use of the engine."""

    source: Callable[[Backend], Iterator[T]]
    """Runs on the engine's thread; yields what the screen is to see."""
    sink: Callable[[tuple[T, ...]], None]
    """Runs on the screen's thread with all that came since the last frame."""
    done: Callable[[Exception | None], None]
    """Runs on the screen's thread once, at the end."""
    tap: Callable[[T], None] | None = None
    """Runs on the engine's thread with each value, at once."""
    waiting: deque[T] = field(default_factory=deque)
    error: Exception | None = None
    begun: bool = False
    ended: bool = False
    dropped: bool = False


class Host:
    """Owns a backend. Every method is called from the screen's thread."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._jobs: deque[Job[Any]] = deque()
        self._withdrawn: list[Job[Any]] = []
        self._turn = threading.Lock()
        """Held while a job begins or ends, so that what is said about one never reaches the next."""
        self._line: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """A job runs or waits."""
        return bool(self._jobs or self._withdrawn)

    def run(
        self,
        source: Callable[[Backend], Iterator[T]],
        sink: Callable[[tuple[T, ...]], None],
        done: Callable[[Exception | None], None] = lambda _: None,
        tap: Callable[[T], None] | None = None,
    ) -> Job[T]:
        """Put a job in line."""
        job = Job(source, sink, done, tap)
        self._jobs.append(job)
        self._line.put(job)
        return job

    def drop(self, job: Job[Any]) -> None:
        """Take a job out of the line, or stop it if it runs."""
        with self._turn:
            job.dropped = True
            if job.begun and not job.ended:
                self.backend.cancel()
            elif not job.begun and job in self._jobs:
                self._jobs.remove(job)
                self._withdrawn.append(job)

    def cancel(self) -> None:
        """Stop the job that runs."""
        self.backend.cancel()

    def accelerate(self, job: Job[Any], *, on: bool) -> None:
        """Switch drafting in a reply, if it runs."""
        with self._turn:
            if job.begun and not job.ended:
                self.backend.accelerate(on)

    def drain(self) -> None:
        """Hand over what has come; called by the screen's timer."""
        withdrawn, self._withdrawn = self._withdrawn, []
        for job in withdrawn:
            job.done(None)
        while self._jobs:
            job = self._jobs[0]
            ended = job.ended
            batch = tuple(job.waiting.popleft() for _ in range(len(job.waiting)))
            if batch:
                job.sink(batch)
            if not ended:
                return
            self._jobs.popleft()
            job.done(job.error)

    def close(self) -> None:
        """Stop what runs and give everything back."""
        for job in self._jobs:
            job.dropped = True
        self._line.put(None)
        self.backend.cancel()
        self.backend.close()
        self._thread.join(timeout=2.0)

    def _work(self) -> None:
        while (job := self._line.get()) is not None:
            with self._turn:
                job.begun = not job.dropped
            try:
                if job.begun:
                    for value in job.source(self.backend):
                        if job.dropped:
                            self.backend.cancel()  # it may have been dropped before there was anything to stop
                        if job.tap is not None:
                            job.tap(value)
                        job.waiting.append(value)
            except Exception as error:  # noqa: BLE001 - handed to the screen, which explains it
                _log.error("a job failed", exc_info=error)
                job.error = error
            with self._turn:
                job.ended = True
