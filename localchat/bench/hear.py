"""Hears a backend out: its events gathered into one value, a failure raised as the exception it stands for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from localchat.chat.backend import Backend, ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Event, Failed, Finished, Loaded, LoadEvent, Reply, ReplyEvent, Wrote
from localchat.engine.types import Round, StopReason
from localchat.errors import (
    CancelledError,
    EngineError,
    FitError,
    GenerationError,
    LocalchatError,
    ModelError,
    UsageError,
)
from localchat.models.plan import LoadPlan

Show = Callable[[Event], None]
Heard = TypeVar("Heard", LoadEvent, ReplyEvent)

_ERRORS: dict[str, type[LocalchatError]] = {
    error.kind: error for error in (GenerationError, UsageError, FitError, ModelError, EngineError, CancelledError)
}


@dataclass(frozen=True, slots=True)
class Run:
    """One reply as it was written, round by round."""

    reply: Reply
    wrote: tuple[Wrote, ...]

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Its rounds, without their text."""
        return tuple(wrote.round for wrote in self.wrote)

    @property
    def cancelled(self) -> bool:
        """It was stopped from outside."""
        return self.reply.finish_reason is StopReason.CANCELLED

    def margin_at(self, position: int) -> float:
        """The smallest margin of the round that emitted a token; the last round's beyond the end."""
        seen = 0
        for round_ in self.rounds:
            seen += len(round_.tokens)
            if position < seen:
                return round_.margin
        return self.wrote[-1].round.margin if self.wrote else float("inf")


def _heard(events: Iterable[Heard]) -> Iterator[Heard]:
    for event in events:
        yield event
        if isinstance(event, Failed):
            raise _ERRORS.get(event.kind, GenerationError)(event.title, event.hint)
    raise GenerationError(
        "The engine ended in the middle of its work.", "Start again; if it happens again, see the log."
    )


def load(backend: Backend, plan: LoadPlan, show: Show) -> Loaded:
    """Load; every event is passed to `show`.

    Raises:
        LocalchatError: as `Failed` said.
    """
    for event in _heard(backend.load(plan)):
        show(event)
        if isinstance(event, Loaded):
            return event
    raise AssertionError("loading ends with Loaded or Failed")


def replying(backend: Backend, conversation: Conversation, options: ReplyOptions) -> Generator[ReplyEvent, None, Run]:
    """One reply, event by event; its value is the whole of it.

    Raises:
        LocalchatError: as `Failed` said.
    """
    wrote: list[Wrote] = []
    for event in _heard(backend.reply(conversation, options)):
        yield event
        if isinstance(event, Wrote):
            wrote.append(event)
        elif isinstance(event, Finished):
            return Run(event.reply, tuple(wrote))
    raise AssertionError("a reply ends with Finished or Failed")


def reply(backend: Backend, conversation: Conversation, options: ReplyOptions, show: Show = lambda _: None) -> Run:
    """One reply; every event is passed to `show`.

    Raises:
        LocalchatError: as `Failed` said.
    """
    events = replying(backend, conversation, options)
    while True:
        try:
            show(next(events))
        except StopIteration as end:
            run: Run = end.value
            return run
