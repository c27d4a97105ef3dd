"""A backend that follows a script: the commands are tested without a model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import (
    Failed,
    Finished,
    Loaded,
    LoadEvent,
    Loading,
    Prefilling,
    Reply,
    ReplyEvent,
    Usage,
    Wrote,
)
from localchat.engine.types import Decision, GenerationStats, Origin, Round, StopReason
from localchat.models.memory import MemoryPlan
from localchat.models.plan import LoadPlan, Mode, Precision

PLAIN_SECONDS = 0.01
PLAN = MemoryPlan(1000, 100, 200, 20, 30, 40, 10**9, 1024, 2048, "fp32", "fp32")
USAGE = Usage(
    target=1000, draft=100, target_cache=200, draft_cache=20, process=5000, device_free=10**9, device_total=2 * 10**9
)


@dataclass
class Scripted:
    """Says `text` in pieces of two characters; each piece is a token."""

    text: str = "Drafts are guesses."
    load_failure: Failed | None = None
    reply_failure: Failed | None = None
    fail_after: int = 0
    """Rounds before `reply_failure`."""
    notes: tuple[str, ...] = ()
    delay: float = 0.0
    """Seconds slept in each round."""
    crash: Exception | None = None
    on_reply: Callable[[], None] = lambda: None
    """Called when a reply begins."""
    accelerated_text: str = ""
    """What is said when drafts are on, if it is not `text`."""
    margin: float = 1.0
    conversations: list[Conversation] = field(default_factory=list)
    options: list[ReplyOptions] = field(default_factory=list)
    plans: list[LoadPlan] = field(default_factory=list)
    closed: bool = False
    cancelled: bool = False

    def load(self, plan: LoadPlan) -> Iterator[LoadEvent]:
        """Load nothing."""
        self.plans.append(plan)
        yield Loading("Loading the target", 1, 2)
        if self.load_failure:
            yield self.load_failure
            return
        yield self.loaded(plan)

    def loaded(self, plan: LoadPlan) -> Loaded:
        """The event that ends loading."""
        draft = "mixed" if plan.draft == "auto" else plan.draft
        settled = replace(
            plan, precision=Precision.FP32, draft=draft, draft_model="small", context=1024, device="cpu", mode=Mode.FAST
        )
        return Loaded(settled, plan.model, "small", False, 0.0, 16, 1 / PLAIN_SECONDS, PLAN, USAGE, (), self.notes)

    def reply(self, conversation: Conversation, options: ReplyOptions) -> Iterator[ReplyEvent]:
        """Say the text."""
        self.conversations.append(conversation)
        self.options.append(options)
        self.cancelled = False
        self.on_reply()
        if self.crash:
            raise self.crash
        method = options.method or "mixed"
        drafting = options.accelerate and method != "off"
        text = self.accelerated_text if drafting and self.accelerated_text else self.text
        pieces = [text[at : at + 2] for at in range(0, len(text), 2)]
        step = 3 if drafting else 1
        stats, said = GenerationStats(prefill_seconds=0.05, prefilled=5, prompt_tokens=5), ""
        yield Prefilling(5, 5)
        for index, at in enumerate(range(0, len(pieces), step)):
            if self.reply_failure and index == self.fail_after:
                yield self.reply_failure
                return
            if self.cancelled or (options.max_tokens and stats.tokens >= options.max_tokens):
                break
            time.sleep(self.delay)
            round_ = self._round(index, pieces[at : at + step], "lookup" if drafting else "")
            stats, said = stats + round_, said + "".join(pieces[at : at + step])
            yield Wrote("".join(pieces[at : at + step]), round_)
        yield Finished(self._reply(said, stats, options, method if drafting else "off"))

    def cancel(self) -> None:
        """End at the next round."""
        self.cancelled = True

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    def _round(self, index: int, pieces: list[str], source: str) -> Round:
        accepted = len(pieces) - 1
        origins = (source,) * accepted + (Origin.CORRECTION if source else Origin.PLAIN,)
        return Round(
            index=index,
            tokens=tuple(sum(map(ord, piece)) for piece in pieces),
            origins=origins,
            rejected=(1,) if source else (),
            drafted=accepted + 1 if source else 0,
            accepted=accepted,
            depth_drafted=(1,) * (accepted + 1) if source else (),
            depth_accepted=(1,) * accepted + (0,) if source else (),
            source=source,
            width=4 if source else 1,
            decision=Decision(False, "", 2.0 if source else 1.0),
            draft_seconds=0.001 if source else 0.0,
            verify_seconds=PLAIN_SECONDS,
            host_seconds=0.0,
            margin=self.margin,
        )

    def _reply(self, text: str, stats: GenerationStats, options: ReplyOptions, method: str) -> Reply:
        pieces = [text[at : at + 2] for at in range(0, len(text), 2)]
        return Reply(
            text=text,
            token_ids=tuple(sum(map(ord, piece)) for piece in pieces),
            origins=(Origin.PLAIN.value,) * len(pieces),
            finish_reason=StopReason.CANCELLED if self.cancelled else StopReason.EOS,
            sampling=options.sampling,
            model="scripted",
            drafter=method,
            accelerated=method != "off",
            exact=False,
            stats=stats,
            first_token_seconds=0.06,
            plain_tokens_per_second=1 / PLAIN_SECONDS,
            usage=USAGE,
        )
