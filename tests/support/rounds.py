"""Folds of scripted replies, for tests of what the screen shows of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Event, Finished, ReplyEvent, Wrote
from localchat.engine.types import Decision, Origin, Round
from localchat.models.plan import LoadPlan
from localchat.tui.live import Live
from tests.support.backend import Scripted

STORY = "One day a shy hare found an old map, and wanted to know where it led.\n" * 6


def loaded(backend: Scripted | None = None) -> Live:
    """An engine that is ready."""
    live = Live()
    for event in (backend or Scripted()).load(LoadPlan()):
        live = live.hear(event, 0.0)
    return live


def events(backend: Scripted, *, accelerate: bool = True) -> list[ReplyEvent]:
    """All that is heard of one reply."""
    return list(backend.reply(Conversation.begin("").user("Tell me."), ReplyOptions(accelerate=accelerate)))


def heard(live: Live, said: Sequence[Event], *, accelerate: bool = True, step: float = 0.01) -> Live:
    """A reply asked for at 100 seconds, one event each `step` seconds."""
    live = live.begin(accelerate=accelerate, now=100.0)
    for number, event in enumerate(said, start=1):
        live = live.hear(event, 100.0 + number * step)
    return live


def story(backend: Scripted | None = None, *, accelerate: bool = True, finished: bool = True) -> Live:
    """A whole reply, or all of it but its end."""
    backend = backend or Scripted(STORY)
    said = events(backend, accelerate=accelerate)
    if not finished:
        said = [event for event in said if not isinstance(event, Finished)]
    return heard(loaded(backend), said, accelerate=accelerate)


def a_round(
    index: int = 0,
    accepted: Sequence[str] = (),
    own: str = "x",
    rejected: Sequence[str] = (),
    *,
    source: str = "model",
    parked: bool = False,
    reason: str = "model, 3 deep",
) -> Wrote:
    """One round of 10 ms with these tokens."""
    drafted = len(accepted) + len(rejected)
    origin = Origin.CORRECTION if rejected else Origin.BONUS if drafted else Origin.PLAIN
    pieces = (*accepted, own)
    round_ = Round(
        index=index,
        tokens=tuple(range(len(pieces))),
        origins=(*(source,) * len(accepted), origin),
        rejected=tuple(range(len(rejected))),
        drafted=drafted,
        accepted=len(accepted),
        depth_drafted=(1,) * min(drafted, len(accepted) + 1),
        depth_accepted=(*(1,) * len(accepted), *(0,) * bool(rejected)),
        source=source if drafted else "",
        width=drafted + 1,
        decision=Decision(parked, reason, 3.0, 1.5),
        draft_seconds=0.002,
        verify_seconds=0.007,
        host_seconds=0.001,
        margin=0.5,
    )
    return Wrote("".join(pieces), round_, pieces, tuple(rejected))


def renumbered(rounds: Sequence[Wrote]) -> list[Wrote]:
    """The same rounds, numbered as they come."""
    return [replace(wrote, round=replace(wrote.round, index=index)) for index, wrote in enumerate(rounds)]
