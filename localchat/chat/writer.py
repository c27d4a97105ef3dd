"""One reply, from token ids to `Finished`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

import torch

from localchat.chat.backend import ReplyOptions
from localchat.chat.events import Finished, Loaded, Memory, Prefilling, Reply, ReplyEvent, Usage, Wrote
from localchat.chat.prompt import Prompt
from localchat.engine.detokenize import Stopper
from localchat.engine.drafters import Parts
from localchat.engine.generate import generate
from localchat.engine.governor import Governor
from localchat.engine.sampling import Picker
from localchat.engine.target import Target
from localchat.engine.traffic import settle
from localchat.engine.types import Drafter, GenerationStats, Round, StopReason
from localchat.errors import CancelledError, UsageError
from localchat.models.devices import available_memory
from localchat.models.loader import LoadedModels


@dataclass(slots=True)
class Engine:
    """What a load leaves behind."""

    models: LoadedModels
    prompt: Prompt
    target: Target
    parts: Parts
    governor: Governor
    info: Loaded
    drafters: dict[str, Drafter]
    """All that can be made of the parts; each keeps its memory between replies."""

    def drafter(self, method: str) -> Drafter:
        """The drafter of that name.

        Raises:
            UsageError: what it needs is not loaded.
        """
        if method not in self.drafters:
            raise UsageError(f"Nothing that is loaded drafts by {method}.", "Load with a draft model or head for it.")
        return self.drafters[method]

    def scrub(self) -> None:
        """Forget every turn, and whatever a forward that was broken off left in the caches."""
        for drafter in self.drafters.values():
            drafter.forget()
        for model in filter(None, (self.target, self.parts.draft)):
            model.truncate(0)
            model.cache.scrub()


@dataclass(slots=True)
class Wishes:
    """What was asked of a job since it was called for; any thread may set it."""

    drafting: bool = True
    cancelled: bool = False

    def check(self) -> None:
        """Raises: CancelledError: the user does not want it any more."""
        if self.cancelled:
            raise CancelledError("Loading was cancelled.", "Load again when you like.")


class Writer:
    """One reply, from token ids to `Finished`."""

    def __init__(self, engine: Engine, tokens: list[int], options: ReplyOptions, wishes: Wishes) -> None:
        self._engine, self._tokens, self._options, self._wishes = engine, tokens, options, wishes
        self._begun = perf_counter()
        self._first: float | None = None
        room = engine.target.context - len(tokens)
        if not tokens:
            raise UsageError("The prompt is empty.", "Write something to reply to.")
        if room <= 0:
            raise UsageError(
                f"The prompt has {len(tokens)} tokens; the context holds {engine.target.context}.",
                "Shorten it, or load with a larger --context.",
            )
        self._method = options.method or engine.info.plan.draft
        self._accelerated = options.accelerate
        self._drafter = engine.drafter(self._method)
        if options.fresh:
            self._drafter.forget()
            for model in filter(None, (engine.target, engine.parts.draft)):
                model.truncate(0)
        self._stopper = Stopper(
            engine.prompt.decode, engine.models.eos_ids, options.stop, options.max_tokens or room + 1
        )
        self._stats = GenerationStats(prompt_tokens=len(tokens))
        self._ids: list[int] = []
        self._origins: list[str] = []
        self._text: list[str] = []

    def write(self) -> Iterator[ReplyEvent]:
        """The reply's events."""
        reason = yield from self._prefill()
        if reason is None:
            reason = yield from self._decode()
        tail = self._stopper.flush()
        self._text.append(tail)
        usage = measured_usage(self._engine.models, self._engine.parts, self._engine.drafters)
        yield Memory(usage)
        yield Finished(self._reply(reason, usage))

    def _prefill(self) -> Generator[ReplyEvent, None, StopReason | None]:
        target, spent, total = self._engine.target, 0.0, 0
        target.tap(self._drafter.needs.hidden_layers, self._drafter.needs.rows)
        chunks = target.prefill(self._tokens[:-1])
        while True:
            begun = perf_counter()
            progress = next(chunks, None)
            settle(target.device)
            spent += perf_counter() - begun
            if progress is None:
                break
            done, total = progress
            self._stats = replace(self._stats, prefilled=done, prefill_seconds=spent)
            yield Prefilling(done, total)
            if self._wishes.cancelled:
                return StopReason.CANCELLED
        begun = perf_counter()
        self._drafter.start(self._tokens, target.prompt_tapped())
        self._stats = replace(self._stats, prefilled=total, prefill_seconds=spent + perf_counter() - begun)
        return None

    def _decode(self) -> Generator[ReplyEvent, None, StopReason]:
        engine, target, governor = self._engine, self._engine.target, self._engine.governor
        picker = Picker(self._options.sampling, self._tokens, target.vocabulary, target.device)
        governor.begin_reply()
        governor.allowed, self._accelerated = self._wishes.drafting, False
        for round_ in generate(target, self._drafter, self._tokens, picker, self._stopper, governor):
            self._accelerated |= governor.allowed
            self._count(round_)
            text = self._stopper.take()
            self._text.append(text)
            if text and self._first is None:
                self._first = perf_counter() - self._begun
            yield Wrote(text, round_, engine.prompt.pieces(round_.tokens), engine.prompt.pieces(round_.rejected))
            if round_.stop is not None:
                return round_.stop
            if self._wishes.cancelled:
                break
            governor.allowed = self._wishes.drafting
        return StopReason.CANCELLED

    def _count(self, round_: Round) -> None:
        self._stats = self._stats + round_
        self._ids += round_.tokens
        self._origins += round_.origins

    def _reply(self, reason: StopReason, usage: Usage) -> Reply:
        info = self._engine.info
        host = self._stats.host_seconds / max(self._stats.rounds, 1)
        accelerated = self._accelerated and self._method != "off"
        return Reply(
            text="".join(self._text),
            token_ids=tuple(self._ids),
            origins=tuple(self._origins),
            finish_reason=reason,
            sampling=self._options.sampling,
            model=info.model_name,
            drafter=self._method if accelerated else "off",
            accelerated=accelerated,
            exact=info.exact,
            stats=self._stats,
            first_token_seconds=self._first if self._first is not None else perf_counter() - self._begun,
            plain_tokens_per_second=1.0 / (self._engine.governor.plain_seconds + host),
            usage=usage,
        )


def measured_usage(models: LoadedModels, parts: Parts, drafters: Mapping[str, Drafter]) -> Usage:
    """What the process has allocated, and what the device has left."""
    free, total = available_memory(models.plan.device)
    cuda = models.plan.device.startswith("cuda")
    return Usage(
        target=models.target_bytes,
        draft=models.draft_bytes,
        target_cache=parts.target.cache.bytes if parts.target else 0,
        draft_cache=(parts.draft.cache.bytes if parts.draft else 0) + sum(one.cache_bytes for one in drafters.values()),
        process=torch.cuda.memory_reserved(models.plan.device) if cuda else resident(),
        device_free=free,
        device_total=total,
    )


def resident() -> int:
    """Resident bytes of this process, 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except (OSError, ValueError, IndexError):
        return 0
