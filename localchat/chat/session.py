"""The engine in this process: loads a plan, writes replies, keeps caches and what was learnt between them."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import NamedTuple

import torch

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import (
    Failed,
    Loaded,
    LoadEvent,
    Loading,
    Prefilling,
    ReplyEvent,
    Surveyed,
    SurveyEvent,
)
from localchat.chat.prompt import Prompt
from localchat.chat.timings import best, keep_timings, read_timings, timings_file
from localchat.chat.trim import trimmed
from localchat.chat.writer import Engine, Wishes, Writer, measured_usage
from localchat.engine.calibrate import choose_threads, measure
from localchat.engine.drafters import DRAFTERS, Parts, build, suits
from localchat.engine.governor import Governor, Timings
from localchat.engine.sizes import MAX_WIDTH
from localchat.engine.target import Target
from localchat.errors import FitError, GenerationError, LocalchatError, ModelError, UsageError
from localchat.models.devices import survey
from localchat.models.loader import LoadedModels, load
from localchat.models.plan import LoadPlan, Mode

_log = logging.getLogger(__name__)

EXACT_WIDTHS = (16, 8, 6, 4)
_THREADS = torch.get_num_threads()
"""As many as torch would use; each load may choose fewer."""
_EXACT_COST = 0.10
"""Exact mode is the default where it makes plain decoding less than this much slower."""


class Asked(NamedTuple):
    """A prompt as the model gets it."""

    ids: Sequence[int]
    cut: int
    """Messages left out of it."""
    options: ReplyOptions


class Session:
    """Implements `Backend` in this process: one job at a time; `cancel` and `accelerate` may come from any thread."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._wishes = Wishes()

    @property
    def alive(self) -> bool:
        """It lives as long as this process."""
        return True

    def survey(self, device: str) -> Iterator[SurveyEvent]:
        """What a device is and has free; ends with `Surveyed` or `Failed`."""
        try:
            yield Surveyed(survey(device))
        except Exception as error:  # noqa: BLE001 - the border: everything becomes an event
            yield failure(error)

    def load(self, plan: LoadPlan) -> Iterator[LoadEvent]:
        """Load, measure, decide on exact or fast; ends with `Loaded` or `Failed`."""
        self._wishes = Wishes()
        return self._loading(plan, self._wishes)

    def _loading(self, plan: LoadPlan, wishes: Wishes) -> Iterator[LoadEvent]:
        self.close()
        try:
            yield from self._load(plan, wishes)
        except Exception as error:  # noqa: BLE001 - the border: everything becomes an event
            self.close()
            yield failure(error)

    def _load(self, plan: LoadPlan, wishes: Wishes) -> Iterator[LoadEvent]:
        torch.set_num_threads(_THREADS)
        machine = survey(plan.device)
        plan, memory = replace(plan, device=machine.device), (machine.free, machine.total)
        models = yield from _progress(lambda report: load(plan, report, MAX_WIDTH, memory), wishes)
        yield Loading("measuring speed")
        wishes.check()
        target, parts = wrapped(models)
        drafters = {name: build(name, parts) for name in DRAFTERS if suits(name, parts)}
        choose_threads(target, _THREADS)
        file = timings_file(_fingerprint(models))
        sources = {name: one for name, one in drafters.items() if not DRAFTERS[name].needs_either}
        timings = best(read_timings(file), measure(target, sources, MAX_WIDTH))
        keep_timings(file, timings)
        width, cost = exact_width(timings, models)
        target.fixed_width = width
        prompt = Prompt(models.tokenizer)
        governor = Governor(timings, width or MAX_WIDTH, width)
        for drafter in drafters.values():
            governor.trust(drafter.priors)
        info = Loaded(
            plan=replace(models.plan, mode=Mode.EXACT if width else Mode.FAST),
            model_name=models.model_name,
            draft_name=models.draft_name,
            draft_kind=models.head.config.kind if models.head else "model" if parts.draft else "",
            exact=width > 0,
            exact_cost=cost,
            width=width,
            plain_tokens_per_second=1.0 / governor.plain_seconds,
            memory=models.memory,
            usage=measured_usage(models, parts, drafters),
            findings=models.pairing.findings if models.pairing else (),
            notes=tuple(filter(None, (*models.notes, prompt.note, models.fast_only, _attention_note(target)))),
            machine=machine,
        )
        wishes.check()
        self._engine = Engine(models, prompt, target, parts, governor, info, drafters)
        yield info

    def reply(self, conversation: Conversation, options: ReplyOptions) -> Iterator[ReplyEvent]:
        """Write the next assistant message; ends with `Finished` or `Failed`."""

        def encoded(engine: Engine) -> Asked:
            prompt = engine.prompt
            asked = replace(options, stop=(*options.stop, *prompt.stop))
            if not options.trim:
                return Asked(prompt.encode(conversation), 0, asked)
            context = engine.target.context
            return Asked(*trimmed(conversation, prompt.encode, context - context // 4, context // 4), asked)

        self._wishes = Wishes(options.accelerate)
        return self._writing(encoded, self._wishes)

    def complete(self, token_ids: Sequence[int], options: ReplyOptions) -> Iterator[ReplyEvent]:
        """Continue raw token ids, without a chat template; the events are those of `reply`."""
        self._wishes = Wishes(options.accelerate)
        return self._writing(lambda _: Asked(token_ids, 0, options), self._wishes)

    def _writing(self, encoded: Callable[[Engine], Asked], wishes: Wishes) -> Iterator[ReplyEvent]:
        engine = self._engine
        if engine is None:
            yield failure(GenerationError("No model is loaded.", "Load one first."))
            return
        try:
            asked = encoded(engine)
            if asked.cut:
                yield Prefilling(0, len(asked.ids), asked.cut)
            yield from Writer(engine, list(asked.ids), asked.options, wishes).write()
        except Exception as error:  # noqa: BLE001 - the border: everything becomes an event
            if not isinstance(error, UsageError | ModelError):
                engine.scrub()
            yield failure(error)

    def accelerate(self, on: bool) -> None:  # noqa: FBT001
        """Switch drafting in the running reply from its next round on."""
        self._wishes.drafting = on

    def cancel(self) -> None:
        """Stop a reply at its next round or prompt chunk, loading at its next step."""
        self._wishes.cancelled = True

    def close(self) -> None:
        """Give the memory back."""
        self._engine = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


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


def wrapped(models: LoadedModels) -> tuple[Target, Parts]:
    """The models with their caches: the target, and what drafters are made of."""
    context = models.plan.context
    target = Target(models.target_model, context, models.vocab)
    target.ends = models.eos_ids
    if models.draft_model is None or models.pairing is None or models.draft_shape is None:
        return target, Parts(target, head=models.head)
    pairing = models.pairing
    room = min(context, models.draft_shape.max_context or context)
    draft = Target(models.draft_model, room, min(pairing.common_vocab, models.vocab), banned=pairing.banned_ids)
    draft.ends = models.eos_ids
    if scored := _scored(models, draft):
        draft.reduce_head(scored)
    return target, Parts(target, draft)


def _scored(models: LoadedModels, draft: Target) -> list[int]:
    """Tokens the draft model scores, ascending: as many as the plan says, or those it was trained for. Empty: all."""
    if not 0 < models.plan.draft_head < draft.vocabulary:
        return list(getattr(draft.config, "draft_ids", None) or ())
    ends = (token for token in models.eos_ids if token < draft.vocabulary)
    return sorted({*range(models.plan.draft_head), *ends})


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
    work: Callable[[Callable[[str, int, int], None]], LoadedModels], wishes: Wishes
) -> Generator[LoadEvent, None, LoadedModels]:
    """Run a loader that reports by callback, yield its reports as they come, and end it at a report if so wished."""
    reports: SimpleQueue[Loading | None] = SimpleQueue()
    result: list[LoadedModels] = []
    problem: list[BaseException] = []

    def report(stage: str, done: int, total: int) -> None:
        wishes.check()
        reports.put(Loading(stage, done, total))

    def run() -> None:
        try:
            result.append(work(report))
        except BaseException as error:  # noqa: BLE001 - carried to the consumer's thread and raised there
            problem.append(error)
        reports.put(None)

    thread = threading.Thread(target=run, name="load", daemon=True)
    thread.start()
    while (step := reports.get()) is not None:
        yield step
    thread.join()
    if problem:
        raise problem[0]
    return result[0]


def _fingerprint(models: LoadedModels) -> tuple[str, ...]:
    plan = models.plan
    device = (
        torch.cuda.get_device_name(plan.device) if plan.device.startswith("cuda") else f"cpu{torch.get_num_threads()}"
    )
    drafts = (models.draft_name, plan.draft_precision, str(models.head.config) if models.head else "")
    return (torch.__version__, device, models.model_name, plan.precision, *drafts)


def _attention_note(target: Target) -> str:
    return "" if target.packed else "This model uses transformers' own attention: slower than ours, same text."
