"""The proof that drafts change nothing: a reply is written again the other way and compared token by token."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from localchat.chat.backend import ReplyOptions
from localchat.chat.events import Failed, Finished, Loaded, Reply, ReplyEvent, Wrote
from localchat.chat.store import Written
from localchat.engine.types import StopReason


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of it."""

    tokens: int
    position: int | None
    """The first token that differs; None if there is none."""
    tie: bool
    """The two best tokens were closer there than rounding can tell."""
    accelerated: bool
    """How it was written this time."""


Told = Callable[[Proof | Failed | None], None]
"""Takes a proof, what went wrong, or None if it was stopped."""


def again(written: Written, loaded: Loaded | None) -> ReplyOptions | Failed:
    """How to write a reply the other way, or why that would prove nothing."""
    reply = written.reply
    if loaded and loaded.model_name != reply.model:
        return Failed("model", f"{reply.model} wrote it, and {loaded.model_name} is loaded.", "")
    method = "lookup" if loaded and loaded.plan.draft == "off" else ""
    accelerate = not reply.accelerated
    return ReplyOptions(
        reply.sampling, len(reply.token_ids), accelerate=accelerate, method=method if accelerate else "", trim=True
    )


@dataclass(eq=False, slots=True)
class Second:
    """The reply as it is written again."""

    first: Written
    reply: Reply | None = None
    rounds: list[Wrote] = field(default_factory=list)
    failed: Failed | None = None

    def hear(self, events: Iterable[ReplyEvent]) -> None:
        """Take in what came."""
        for event in events:
            if isinstance(event, Wrote):
                self.rounds.append(event)
            elif isinstance(event, Finished):
                self.reply = event.reply
            elif isinstance(event, Failed):
                self.failed = event

    def result(self, precision: str) -> Proof | Failed | None:
        """What came of it, for weights of a precision; None if it was stopped."""
        from localchat.bench.compare import Verdict, rounding, sameness
        from localchat.bench.hear import Run

        new, old = self.reply, self.first.reply
        if new is None or new.finish_reason is StopReason.CANCELLED:
            return self.failed
        if new.stats.prompt_tokens != old.stats.prompt_tokens:
            return Failed("usage", "With the context there is now, the model sees another part of the chat.", "")
        runs = [Run(old, self.first.rounds), Run(new, tuple(self.rounds))]
        plain, other = sorted(runs, key=lambda run: run.reply.accelerated)
        same = sameness(plain, other, rounding(precision))
        return Proof(len(old.token_ids), same.position, same.verdict is Verdict.TIE, new.accelerated)
