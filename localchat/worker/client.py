"""The screen's side of the engine's process: a `Backend` whose engine cannot slow, freeze or end the screen.

Every load gets a fresh process. Libraries keep caches, and the CPU's allocator keeps freed pages: only the end of a
process gives all memory back for certain, and a load that is not wanted any more can be ended at any point. It costs
the imports once more: 3 s on two cores, where loading the built-in pair again in the same process takes 0.6 s.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Event, Failed, Loaded, LoadEvent, ReplyEvent, SurveyEvent
from localchat.errors import CancelledError, EngineError, GenerationError, LocalchatError
from localchat.models.plan import LoadPlan
from localchat.worker.messages import Answer, Ask, Cancel, Load, Request, Survey, Switch
from localchat.worker.process import COMMAND, Child, open_log


@dataclass(eq=False)
class _Job:
    """Something asked of the engine."""

    number: int
    request: Request
    child: Child | None = None
    """Who does it; None until the first event is asked for."""
    early: list[Switch | Cancel] = field(default_factory=list)
    """What was said about it before that."""
    cancelled: bool = False
    ended: bool = False


class Worker:
    """Implements `Backend` over a child process.

    One job at a time, on any thread; `alive`, `cancel`, `accelerate` and `close` may be called from another meanwhile,
    and none of them but `close` waits.

    Args:
        command: the engine's program and arguments.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._job: _Job | None = None
        self._numbers = itertools.count(1)
        self._notice = ""

    def start(self) -> None:
        """Start the process, if none runs, so that the first load need not wait for its imports."""
        with self._lock, suppress(EngineError):  # loading tries again, and says what is wrong
            if self._child is None:
                self._spawn()

    @property
    def alive(self) -> bool:
        """False once the process has ended by itself; loading starts a new one."""
        child = self._child
        return child is None or not child.crashed

    @property
    def pid(self) -> int:
        """The engine's process id; 0 if there is none."""
        child = self._child
        return child.pid if child is not None and child.running else 0

    def survey(self, device: str) -> Iterator[SurveyEvent]:
        """What a device is and has free; ends with `Surveyed` or `Failed`."""
        return cast("Iterator[SurveyEvent]", self._run(self._new(Survey(device))))

    def load(self, plan: LoadPlan) -> Iterator[LoadEvent]:
        """Load in a fresh process; ends with `Loaded` or `Failed`."""
        return cast("Iterator[LoadEvent]", self._run(self._new(Load(plan))))

    def reply(self, conversation: Conversation, options: ReplyOptions) -> Iterator[ReplyEvent]:
        """Write the next assistant message; ends with `Finished` or `Failed`."""
        return cast("Iterator[ReplyEvent]", self._run(self._new(Answer(conversation, options))))

    def accelerate(self, on: bool) -> None:  # noqa: FBT001
        """Switch drafting in the running reply from its next round on."""
        with self._lock:
            if (job := self._job) is not None:
                self._tell(job, Switch(job.number, on))

    def cancel(self) -> None:
        """Stop what runs: a reply at its next round or prompt chunk, loading at once, by ending its process."""
        with self._lock:
            if (job := self._job) is None or job.ended:
                return
            job.cancelled = True
            if isinstance(job.request, Answer):
                self._tell(job, Cancel(job.number))
            elif job.child is not None and (isinstance(job.request, Load) or not job.child.used):
                job.child.kill()

    def close(self) -> None:
        """End the process and wait for it."""
        atexit.unregister(self.close)
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.end()

    def _new(self, request: Request) -> _Job:
        with self._lock:
            self._job = _Job(next(self._numbers), request)
            return self._job

    @staticmethod
    def _tell(job: _Job, order: Switch | Cancel) -> None:
        if job.child is None:
            job.early.append(order)
        elif not job.ended:
            job.child.send(order)

    def _run(self, job: _Job) -> Iterator[Event]:
        try:
            child = self._begin(job)
            yield from self._hear(child, job)
        except LocalchatError as error:
            job.ended = True
            yield Failed(error.kind, error.message, error.hint)
        finally:
            if not job.ended:  # the consumer walked away
                self._drop(job)

    def _begin(self, job: _Job) -> Child:
        """Hand the job to a process that can do it."""
        if not isinstance(job.request, Answer):
            self._check(job)  # before anything is given up for it
            self._retire(job.request)
        with self._lock:
            self._check(job)
            child = self._child
            if child is None or child.ended:
                if isinstance(job.request, Answer):
                    raise GenerationError("No model is loaded.", "Load one first.")
                child = self._spawn()
            child.used |= isinstance(job.request, Load)
            for order in job.early:
                child.send(order)
            job.child = child
        child.send(Ask(job.number, job.request))
        return child

    def _retire(self, request: Request) -> None:
        """Clear away a dead process; and, before a load, one that has loaded, so that its memory is free."""
        child = self._child
        if child is not None and (not child.running or (child.used and isinstance(request, Load))):
            child.end()
            with self._lock:
                if self._child is child:
                    self._child = None

    def _spawn(self) -> Child:
        log, self._notice = open_log()
        try:
            self._child = Child(self._command, log)
        except OSError as error:
            raise EngineError(
                f"The engine could not be started: {error.strerror}.", "Close other programs, then load again."
            ) from error
        finally:
            os.close(log)
        atexit.unregister(self.close)
        atexit.register(self.close)
        return self._child

    def _hear(self, child: Child, job: _Job) -> Iterator[Event]:
        while (batch := child.receive()) is not None:
            if batch.job != job.number:
                continue  # the rest of a job whose consumer walked away
            with self._lock:
                if job.cancelled and child.ended:
                    break  # it said that it is loaded just before it was ended
                job.ended = batch.ended
            for event in batch.events:
                yield self._noted(event)
            if batch.ended:
                return
        if not child.ended:
            raise child.obituary()
        child.end()
        self._check(job)
        raise CancelledError("The engine was closed.", "Load again to go on.")

    @staticmethod
    def _check(job: _Job) -> None:
        """Raise if the job will not be done; a reply always is, be it an empty one."""
        if job.cancelled and not isinstance(job.request, Answer):
            raise CancelledError("Loading was cancelled.", "Load again when you like.")

    def _noted(self, event: Event) -> Event:
        if isinstance(event, Loaded) and self._notice:
            return replace(event, notes=(*event.notes, self._notice))
        return event

    def _drop(self, job: _Job) -> None:
        with self._lock:
            job.ended = True
        if job.child is None:
            return
        if isinstance(job.request, Load):
            job.child.kill()
            job.child.end()
        else:
            job.child.send(Cancel(job.number))
