"""The engine in this process: loads a plan, writes replies, keeps caches and what was learnt between them."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING

import torch

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
    Usage,
    Wrote,
)
from localchat.chat.prompt import Prompt
from localchat.chat.timings import best, keep_timings, read_timings, timings_file
from localchat.engine.calibrate import measure
from localchat.engine.detokenize import Stopper
from localchat.engine.drafters import build
from localchat.engine.generate import generate
from localchat.engine.governor import Governor, Timings
from localchat.engine.sampling import Picker
from localchat.engine.target import Target
from localchat.engine.traffic import settle
from localchat.engine.types import MAX_WIDTH, Drafter, GenerationStats, Round, StopReason
from localchat.errors import FitError, GenerationError, LocalchatError, UsageError
from localchat.models.devices import available_memory
from localchat.models.loader import LoadedModels, load
from localchat.models.plan import LoadPlan, Mode

if TYPE_CHECKING:
    from collections.abc import Generator

_log = logging.getLogger(__name__)

EXACT_WIDTHS = (16, 8, 6, 4)
_EXACT_COST = 0.10
"""Exact mode is the default where it makes plain decoding less than this much slower."""


@dataclass(slots=True)
class _Engine:
    """What a load leaves behind."""

    models: LoadedModels
    prompt: Prompt
    target: Target
    draft: Target | None
    governor: Governor
    info: Loaded
    drafters: dict[str, Drafter] = field(default_factory=dict)

    def drafter(self, method: str) -> Drafter:
        """The drafter of that name; it keeps its memory between replies."""
        if method not in self.drafters:
            self.drafters[method] = build(method, self.draft)
            self.governor.trust(self.drafters[method].priors)
        return self.drafters[method]


class Session:
    """Implements `Backend` in this process. One reply at a time; `cancel` may come from any thread."""

    def __init__(self) -> None:
        self._engine: _Engine | None = None
        self._cancel = threading.Event()

    def load(self, plan: LoadPlan) -> Iterator[LoadEvent]:
        """Load, measure, decide on exact or fast; ends with `Loaded` or `Failed`."""
        self.close()
        self._cancel.clear()
        try:
            yield from self._load(plan)
        except Exception as error:  # noqa: BLE001 - the border: everything becomes an event
            self.close()
            yield failure(error)

    def _load(self, plan: LoadPlan) -> Iterator[LoadEvent]:
        models = yield from _progress(lambda report: load(plan, report, MAX_WIDTH))
        yield Loading("measuring speed")
        context = models.plan.context
        target = Target(models.target_model, context, models.vocab)
        draft = None
        if models.draft_model is not None and models.pairing is not None and models.draft_shape is not None:
            pairing = models.pairing
            room = min(context, models.draft_shape.max_context or context)
            draft = Target(models.draft_model, room, min(pairing.common_vocab, models.vocab), banned=pairing.banned_ids)
            draft.ends = models.eos_ids if draft.device.type == "cpu" else frozenset()
            if 0 < plan.draft_head < draft.vocabulary:
                ends = (token for token in models.eos_ids if token < draft.vocabulary)
                draft.reduce_head(sorted({*range(plan.draft_head), *ends}))
        file = timings_file(_fingerprint(models))
        timings = best(read_timings(file), measure(target, draft, MAX_WIDTH))
        keep_timings(file, timings)
        width, cost = exact_width(timings, models)
        target.fixed_width = width
        prompt = Prompt(models.tokenizer)
        governor = Governor(timings, width or MAX_WIDTH, width)
        info = Loaded(
            plan=replace(models.plan, mode=Mode.EXACT if width else Mode.FAST),
            model_name=models.model_name,
            draft_name=models.draft_name,
            exact=width > 0,
            exact_cost=cost,
            width=width,
            plain_tokens_per_second=1.0 / governor.plain_seconds,
            memory=models.memory,
            usage=_usage(models, target, draft),
            findings=models.pairing.findings if models.pairing else (),
            notes=tuple(filter(None, (*models.notes, prompt.note, models.fast_only, _attention_note(target)))),
        )
        self._engine = _Engine(models, prompt, target, draft, governor, info)
        yield Loading("ready", 1, 1)
        yield info

    def reply(self, conversation: Conversation, options: ReplyOptions) -> Iterator[ReplyEvent]:
        """Write the next assistant message; ends with `Finished` or `Failed`."""
        engine = self._engine
        if engine is None:
            yield failure(GenerationError("No model is loaded.", "Load one first."))
            return
        options = replace(options, stop=(*options.stop, *engine.prompt.stop))
        try:
            ids = engine.prompt.encode(conversation)
        except LocalchatError as error:
            yield failure(error)
            return
        yield from self.complete(ids, options)

    def complete(self, token_ids: Sequence[int], options: ReplyOptions) -> Iterator[ReplyEvent]:
        """Continue raw token ids, without a chat template; the events are those of `reply`."""
        self._cancel.clear()
        engine = self._engine
        if engine is None:
            yield failure(GenerationError("No model is loaded.", "Load one first."))
            return
        try:
            yield from _Writer(engine, list(token_ids), options, self._cancel).write()
        except Exception as error:  # noqa: BLE001 - the border: everything becomes an event
            for model in filter(None, (engine.target, engine.draft)):
                model.truncate(0)
                model.cache.scrub()
            yield failure(error)

    def cancel(self) -> None:
        """Stop the running reply at its next round or prompt chunk."""
        self._cancel.set()

    def close(self) -> None:
        """Give the memory back."""
        self._engine = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


class _Writer:
    """One reply, from token ids to `Finished`."""

    def __init__(self, engine: _Engine, tokens: list[int], options: ReplyOptions, cancelled: threading.Event) -> None:
        self._engine, self._tokens, self._options, self._cancelled = engine, tokens, options, cancelled
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
        method = options.method or engine.info.plan.draft
        self._method = method if options.accelerate else "off"
        self._drafter = engine.drafter(self._method)
        if options.fresh:
            self._drafter.forget()
            for model in filter(None, (engine.target, engine.draft)):
                model.truncate(0)
        self._stopper = Stopper(
            engine.prompt.decode, engine.models.eos_ids, options.stop, options.max_tokens or room + 1
        )
        self._stats = GenerationStats(prompt_tokens=len(tokens))
        self._ids: list[int] = []
        self._origins: list[str] = []
        self._text: list[str] = []

    def write(self) -> Iterator[ReplyEvent]:
        reason = yield from self._prefill()
        if reason is None:
            reason = yield from self._decode()
        tail = self._stopper.flush()
        self._text.append(tail)
        usage = _usage(self._engine.models, self._engine.target, self._engine.draft)
        yield Memory(usage)
        yield Finished(self._reply(reason, usage))

    def _prefill(self) -> Generator[ReplyEvent, None, StopReason | None]:
        target, spent, total = self._engine.target, 0.0, 0
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
            if self._cancelled.is_set():
                return StopReason.CANCELLED
        begun = perf_counter()
        self._drafter.start(self._tokens, target.prompt_tapped())
        self._stats = replace(self._stats, prefilled=total, prefill_seconds=spent + perf_counter() - begun)
        return None

    def _decode(self) -> Generator[ReplyEvent, None, StopReason]:
        engine, options = self._engine, self._options
        target = engine.target
        picker = Picker(options.sampling, self._tokens, target.vocabulary, target.device)
        engine.governor.begin_reply()
        rounds = generate(target, self._drafter, self._tokens, picker, self._stopper, engine.governor)
        for round_ in rounds:
            self._count(round_)
            text = self._stopper.take()
            self._text.append(text)
            if text and self._first is None:
                self._first = perf_counter() - self._begun
            yield Wrote(text, round_)
            if round_.stop is not None:
                return round_.stop
            if self._cancelled.is_set():
                return StopReason.CANCELLED
        return StopReason.CANCELLED

    def _count(self, round_: Round) -> None:
        self._stats = self._stats + round_
        self._ids += round_.tokens
        self._origins += round_.origins

    def _reply(self, reason: StopReason, usage: Usage) -> Reply:
        info = self._engine.info
        host = self._stats.host_seconds / max(self._stats.rounds, 1)
        return Reply(
            text="".join(self._text),
            token_ids=tuple(self._ids),
            origins=tuple(self._origins),
            finish_reason=reason,
            sampling=self._options.sampling,
            model=info.model_name,
            drafter=self._method,
            accelerated=self._method != "off",
            exact=info.exact,
            stats=self._stats,
            first_token_seconds=self._first if self._first is not None else perf_counter() - self._begun,
            plain_tokens_per_second=1.0 / (self._engine.governor.plain_seconds + host),
            usage=usage,
        )


def failure(error: Exception) -> Failed:
    """An exception as an event; one that nobody foresaw goes to the log with all it has."""
    if isinstance(error, LocalchatError):
        return Failed(error.kind, error.message, error.hint)
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        hint = "Close other programs, or load with a smaller --context, --draft off or --precision nf4."
        return Failed(FitError.kind, "The device ran out of memory.", hint)
    _log.error("the engine failed", exc_info=error)
    words = str(error).strip().splitlines() or [type(error).__name__]
    return Failed(GenerationError.kind, f"The engine failed: {words[0]}", "Try again; the log has the details.")


def exact_width(timings: Timings, models: LoadedModels) -> tuple[int, float]:
    """The fixed width to run at (0: fast mode) and what it costs plain decoding (0.04 = 4 %).

    Raises:
        UsageError: exact mode was asked for and this model cannot keep it.
    """
    mode = models.plan.mode
    if models.fast_only:
        if mode is Mode.EXACT:
            raise UsageError(models.fast_only, "Leave --exact out.")
        return 0, 0.0
    costs = [(width, max(0.0, timings.seconds(width) / timings.seconds(1) - 1.0)) for width in EXACT_WIDTHS]
    width, cost = next((pair for pair in costs if pair[1] < _EXACT_COST), min(costs[1:], key=lambda pair: pair[1]))
    if mode is Mode.FAST or (mode is Mode.AUTO and cost >= _EXACT_COST):
        return 0, cost
    return width, cost


def _progress(
    work: Callable[[Callable[[str, int, int], None]], LoadedModels],
) -> Generator[LoadEvent, None, LoadedModels]:
    """Run a loader that reports by callback, and yield its reports as they come."""
    reports: SimpleQueue[Loading | None] = SimpleQueue()
    result: list[LoadedModels] = []
    problem: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work(lambda stage, done, total: reports.put(Loading(stage, done, total))))
        except BaseException as error:  # noqa: BLE001 - carried to the consumer's thread and raised there
            problem.append(error)
        reports.put(None)

    thread = threading.Thread(target=run, name="load", daemon=True)
    thread.start()
    while (report := reports.get()) is not None:
        yield report
    thread.join()
    if problem:
        raise problem[0]
    return result[0]


def _fingerprint(models: LoadedModels) -> tuple[str, ...]:
    plan = models.plan
    device = (
        torch.cuda.get_device_name(plan.device) if plan.device.startswith("cuda") else f"cpu{torch.get_num_threads()}"
    )
    return (torch.__version__, device, models.model_name, plan.precision, models.draft_name, plan.draft_precision)


def _attention_note(target: Target) -> str:
    return "" if target.packed else "This model uses transformers' own attention: slower than ours, same text."


def _usage(models: LoadedModels, target: Target, draft: Target | None) -> Usage:
    free, total = available_memory(models.plan.device)
    cuda = models.plan.device.startswith("cuda")
    return Usage(
        target=models.target_bytes,
        draft=models.draft_bytes,
        target_cache=target.cache.bytes,
        draft_cache=draft.cache.bytes if draft else 0,
        process=torch.cuda.memory_reserved(models.plan.device) if cuda else _resident(),
        device_free=free,
        device_total=total,
    )


def _resident() -> int:
    """Resident bytes of this process, 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except (OSError, ValueError, IndexError):
        return 0
