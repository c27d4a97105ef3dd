"""The one door to an engine: in this process, in a child process, or on a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from localchat.chat.conversation import Conversation
from localchat.chat.events import LoadEvent, ReplyEvent, SurveyEvent
from localchat.engine.types import Sampling
from localchat.models.plan import LoadPlan


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """How one reply is written."""

    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int = 0
    """0: until the model stops or the context is full."""
    stop: tuple[str, ...] = ()
    accelerate: bool = True
    """Draft from the start; `Backend.accelerate` switches it while the reply is written."""
    method: str = ""
    """A drafting method other than the loaded plan's (off, lookup, model, mixed), for comparisons."""
    trim: bool = False
    """Leave out the oldest messages of a conversation that is too long for the context, instead of failing."""
    fresh: bool = False
    """Forget earlier replies and empty the caches first, so that two measured replies start alike."""


class Backend(Protocol):
    """Loads a model and writes replies. Failures arrive as `Failed`, never as exceptions."""

    @property
    def alive(self) -> bool:
        """False once an engine that was started has ended by itself; loading starts a new one."""
        ...

    def survey(self, device: str) -> Iterator[SurveyEvent]:
        """What a device ("auto", "cpu", "cuda", "cuda:N") is and has free; ends with `Surveyed` or `Failed`."""
        ...

    def load(self, plan: LoadPlan) -> Iterator[LoadEvent]:
        """Load; ends with `Loaded` or `Failed`."""
        ...

    def reply(self, conversation: Conversation, options: ReplyOptions) -> Iterator[ReplyEvent]:
        """Write the next assistant message; ends with `Finished` or `Failed`."""
        ...

    def accelerate(self, on: bool) -> None:  # noqa: FBT001
        """Switch drafting in the running reply from its next round on; safe from another thread."""
        ...

    def cancel(self) -> None:
        """Stop what runs: a reply at its next round or prefill chunk, loading as soon as can be; from any thread."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...
