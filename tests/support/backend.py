"""A backend that follows a script: commands and screens are tested without a model."""

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
    Memory,
    Prefilling,
    Reply,
    ReplyEvent,
    Surveyed,
    SurveyEvent,
    Usage,
    Wrote,
)
from localchat.engine.types import Decision, GenerationStats, Origin, Round, StopReason
from localchat.models.devices import Machine
from localchat.models.memory import MemoryPlan
from localchat.models.plan import LoadPlan, Mode, Precision

PLAIN_SECONDS = 0.01
PLAN = MemoryPlan(1000, 100, 200, 20, 30, 40, 10**9, 1024, 2048, "fp32", "fp32")
USAGE = Usage(
    target=1000, draft=100, target_cache=200, draft_cache=20, process=5000, device_free=10**9, device_total=2 * 10**9
)
MACHINE = Machine("cpu", "cpu (scripted, 2 threads)", 10**9, 2 * 10**9)
DIED = Failed("engine", "The engine ended by itself.", "Load again; nothing that was said is lost.")
CANCELLED = Failed("cancelled", "Loading was cancelled.", "Load again when you like.")


def nothing(*_: object) -> None:
    """Do nothing (by name, so that a script can be sent to another process)."""


@dataclass
class Scripted:
    """Says `text` in pieces of two characters; each piece is a token. Drafting writes three in a round, plain one."""

    text: str = "Drafts are guesses."
    """May be anything, hostile text included."""
    load_failure: Failed | None = None
    reply_failure: Failed | None = None
    fail_after: int = 0
    """Rounds before `reply_failure`."""
    notes: tuple[str, ...] = ()
    delay: float = 0.0
    """Seconds slept in each round."""
    crash: Exception | None = None
    on_reply: Callable[[], None] = nothing
    """Called when a reply begins."""
    accelerated_text: str = ""
    """What is said when a reply starts with drafts, if it is not `text`."""
    margin: float = 1.0
    load_delay: float = 0.0
    """Seconds slept in each step of loading."""
    load_steps: int = 1
    prefill_steps: int = 1
    rejected_text: str = "no"
    """Text of the token that is rejected in each drafting round."""
    survey_failure: Failed | None = None
    machine: Machine = MACHINE
    on_round: Callable[[int], None] = nothing
    """Called with each round's number before it is written; may call `die`, `cancel` or `accelerate`."""
    usage: Usage = USAGE
    """Memory as it is reported after each reply."""
    says: Callable[[Conversation], str] | None = None
    """Chooses the text by the conversation; None: `text`."""
    conversations: list[Conversation] = field(default_factory=list)
    options: list[ReplyOptions] = field(default_factory=list)
    plans: list[LoadPlan] = field(default_factory=list)
    switches: list[bool] = field(default_factory=list)
    """Every call of `accelerate`."""
    closed: bool = False
    cancelled: bool = False
    alive: bool = True
    _drafting: bool = True

    def die(self) -> None:
        """End as a killed engine does: what runs fails, and only loading helps."""
        self.alive = False

    def survey(self, device: str) -> Iterator[SurveyEvent]:
        """The machine of the script."""
        yield self.survey_failure or Surveyed(self.machine)

    def load(self, plan: LoadPlan) -> Iterator[LoadEvent]:
        """Load nothing."""
        self.plans.append(plan)
        self.cancelled, self.alive = False, True
        return self._load(plan)

    def _load(self, plan: LoadPlan) -> Iterator[LoadEvent]:
        for step in range(self.load_steps):
            yield Loading("Loading the target", step + 1, self.load_steps + 1)
            time.sleep(self.load_delay)
            if self.cancelled or not self.alive:
                yield CANCELLED if self.cancelled else DIED
                return
        yield self.load_failure or self.loaded(plan)

    def loaded(self, plan: LoadPlan) -> Loaded:
        """The event that ends loading."""
        draft = "mixed" if plan.draft == "auto" else plan.draft
        settled = replace(
            plan, precision=Precision.FP32, draft=draft, draft_model="small", context=1024, device="cpu", mode=Mode.FAST
        )
        rate = 1 / PLAIN_SECONDS
        return Loaded(
            settled, plan.model, "small", False, 0.0, 16, rate, PLAN, USAGE, (), self.notes, machine=self.machine
        )

    def reply(self, conversation: Conversation, options: ReplyOptions) -> Iterator[ReplyEvent]:
        """Say the text."""
        self.conversations.append(conversation)
        self.options.append(options)
        self.cancelled = False
        self._drafting = options.accelerate
        return self._say(self.says(conversation) if self.says else self.text, options)

    def _say(self, text: str, options: ReplyOptions) -> Iterator[ReplyEvent]:
        self.on_reply()
        if self.crash:
            raise self.crash
        method = options.method or "mixed"
        if self._drafting and method != "off" and self.accelerated_text:
            text = self.accelerated_text
        for step in range(self.prefill_steps):
            yield Prefilling(5 * (step + 1) // self.prefill_steps, 5)
        written: list[Wrote] = []
        stats = GenerationStats(prefill_seconds=0.05, prefilled=5, prompt_tokens=5)
        pieces = [text[at : at + 2] for at in range(0, len(text), 2)]
        while pieces:
            self.on_round(len(written))
            if not self.alive or (self.reply_failure and len(written) == self.fail_after):
                yield (self.reply_failure if self.alive else None) or DIED
                return
            if self.cancelled or (options.max_tokens and stats.tokens >= options.max_tokens):
                break
            time.sleep(self.delay)
            drafting = self._drafting and method != "off"
            said, pieces = (pieces[:3], pieces[3:]) if drafting else (pieces[:1], pieces[1:])
            written.append(self._wrote(len(written), said, "lookup" if drafting else ""))
            stats = stats + written[-1].round
            yield written[-1]
        yield Memory(self.usage)
        yield Finished(self._reply(written, stats, options, method))

    def accelerate(self, on: bool) -> None:
        """Switch from the next round on."""
        self.switches.append(on)
        self._drafting = on

    def cancel(self) -> None:
        """End at the next round or step."""
        self.cancelled = True

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    def _wrote(self, index: int, pieces: list[str], source: str) -> Wrote:
        accepted = len(pieces) - 1
        origins = (source,) * accepted + (Origin.CORRECTION if source else Origin.PLAIN,)
        round_ = Round(
            index=index,
            tokens=tuple(map(token, pieces)),
            origins=origins,
            rejected=(1,) if source else (),
            drafted=accepted + 1 if source else 0,
            accepted=accepted,
            depth_drafted=(1,) * (accepted + 1) if source else (),
            depth_accepted=(1,) * accepted + (0,) if source else (),
            source=source,
            width=4 if source else 1,
            decision=Decision(False, f"{source}, {accepted + 1} deep" if source else "", 2.0 if source else 1.0),
            draft_seconds=0.001 if source else 0.0,
            verify_seconds=PLAIN_SECONDS,
            host_seconds=0.0,
            margin=self.margin,
        )
        return Wrote("".join(pieces), round_, tuple(pieces), (self.rejected_text,) if source else ())

    def _reply(self, written: list[Wrote], stats: GenerationStats, options: ReplyOptions, method: str) -> Reply:
        cut = bool(options.max_tokens) and stats.tokens >= options.max_tokens
        ended = StopReason.LENGTH if cut else StopReason.EOS
        accelerated = method != "off" and (options.accelerate or any(wrote.round.source for wrote in written))
        return Reply(
            text="".join(wrote.text for wrote in written),
            token_ids=tuple(token for wrote in written for token in wrote.round.tokens),
            origins=tuple(origin for wrote in written for origin in wrote.round.origins),
            finish_reason=StopReason.CANCELLED if self.cancelled else ended,
            sampling=options.sampling,
            model=self.plans[-1].model if self.plans else "scripted",
            drafter=method if accelerated else "off",
            accelerated=accelerated,
            exact=False,
            stats=stats,
            first_token_seconds=0.06,
            plain_tokens_per_second=1 / PLAIN_SECONDS,
            usage=self.usage,
        )


def token(piece: str) -> int:
    """The id of a piece of text."""
    return sum(map(ord, piece))
