"""Hears a backend out: its events gathered into one value, a failure raised as the exception it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from localchat.chat.backend import Backend, ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Event, Failed, Finished, Loaded, Reply, Wrote
from localchat.engine.types import Round
from localchat.errors import FitError, GenerationError, LocalchatError, ModelError, UsageError
from localchat.models.plan import LoadPlan

Show = Callable[[Event], None]

_ERRORS: dict[str, type[LocalchatError]] = {
    error.kind: error for error in (GenerationError, UsageError, FitError, ModelError)
}


@dataclass(frozen=True, slots=True)
class Run:
    """One reply with its rounds."""

    reply: Reply
    rounds: tuple[Round, ...]

    def margin_at(self, position: int) -> float:
        """The smallest margin of the round that emitted a token; the last round's beyond the end."""
        seen = 0
        for round_ in self.rounds:
            seen += len(round_.tokens)
            if position < seen:
                return round_.margin
        return self.rounds[-1].margin if self.rounds else float("inf")


def _heard(events: Iterable[Event], show: Show) -> Iterable[Event]:
    for event in events:
        show(event)
        if isinstance(event, Failed):
            raise _ERRORS.get(event.kind, GenerationError)(event.title, event.hint)
        yield event
    raise GenerationError(
        "The engine ended in the middle of its work.", "Start again; if it happens again, see the log."
    )


def load(backend: Backend, plan: LoadPlan, show: Show) -> Loaded:
    """Load; every event is passed to `show`.

    Raises:
        LocalchatError: as `Failed` said.
    """
    return next(event for event in _heard(backend.load(plan), show) if isinstance(event, Loaded))


def reply(backend: Backend, conversation: Conversation, options: ReplyOptions, show: Show = lambda _: None) -> Run:
    """One reply; every event is passed to `show`.

    Raises:
        LocalchatError: as `Failed` said.
    """
    rounds: list[Round] = []
    for event in _heard(backend.reply(conversation, options), show):
        if isinstance(event, Wrote):
            rounds.append(event.round)
        elif isinstance(event, Finished):
            return Run(event.reply, tuple(rounds))
    raise AssertionError("a reply ends with Finished or Failed")
