"""A whole training, from texts to a registered network: a generator of events that can be stopped at any moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from localchat.errors import FitError, ModelError
from localchat.models.choice import choose, inspect
from localchat.models.devices import available_memory, resolve_device
from localchat.models.folders import find_model, fingerprint
from localchat.models.gguf import unpack_gguf
from localchat.models.loader import load_tokenizer, load_weights, reply_ends
from localchat.models.plan import LoadPlan
from localchat.paths import cache_dir
from localchat.train import selfwrite, texts
from localchat.train.events import Event, Note, Paused, Stage, Step
from localchat.train.job import WRITING, Job, Stop
from localchat.train.learn import Learner
from localchat.train.loop import lacks_memory
from localchat.train.openings import openings
from localchat.train.plan import SELF, TrainPlan

ENOUGH = 500_000
"""Tokens after which the target writes no more."""
_ROWS = 128
"""Rows whose whole logits the target computes at once, for the memory plan."""


def train(plan: TrainPlan, stop: Stop = lambda: False) -> Iterator[Event]:
    """Train what the plan asks for and register it; ends with `Finished` or `Paused`.

    Args:
        plan: what to train.
        stop: asked between steps; once it is true, the state is saved.

    Raises:
        UsageError: an impossible plan, or text that cannot be learnt from.
        ModelError: the target cannot be used.
        FitError: it does not fit in memory.
        GenerationError: the loss is no number any more, or the result could not be written.
    """
    plan.check()
    try:
        yield from _stages(plan, stop)
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        raise FitError(
            "Memory ran out.", "Close other programs, use --precision nf4, or choose a smaller target."
        ) from error


def _stages(plan: TrainPlan, stop: Stop) -> Iterator[Event]:
    yield Step(Stage.COLLECTING)
    job = _prepare(plan)
    yield Step(Stage.LOADING)
    model = _load(job)
    kept = texts.Kept(cache_dir() / "written" / f"{job.fingerprint[:16]}-{job.precision}.jsonl")
    if SELF in plan.data:
        yield from _write(job, model, kept, stop)
    if stop():
        yield Paused(0.0)
        return
    own = kept.texts if SELF in plan.data else []
    rows = texts.split([*job.given, *own], job.beginning)
    yield from Learner(job, model, rows).learn(stop)


def _prepare(plan: TrainPlan) -> Job:
    """Everything that can be said against a plan without loading a model."""
    device, source = resolve_device(plan.device), find_model(plan.model)
    source = unpack_gguf(source, lambda _stage, _done, _total: None) if source.gguf else source
    side = inspect(source, trust_remote_code=plan.trust_remote_code)
    if plan.kind == "draft" and side.shape.mixture:
        raise ModelError(f"No draft model can be cut out of {source.title}, a mixture of experts.", "Use --kind eagle.")
    wanted = LoadPlan(plan.model, precision=plan.precision, draft="off", context=0, device=device)
    choice = choose(wanted, side, None, device, _ROWS, available_memory(device))
    tokenizer = load_tokenizer(source.folder, trust_remote_code=plan.trust_remote_code)
    job = Job(
        plan=plan,
        side=side,
        name=plan.called(source.title),
        device=device,
        precision=choice.request.precision,
        fingerprint=fingerprint(source.folder),
        room=max(0, choice.memory.available - choice.memory.total) // 2,
        tokenizer=tokenizer,
        given=tuple(texts.collect(plan.data, tokenizer)),
    )
    if SELF not in plan.data:
        texts.split(job.given, job.beginning)
    return job


def _load(job: Job) -> Any:
    trust = job.plan.trust_remote_code
    model = load_weights(job.side, job.precision, job.device, lambda _done, _total: None, trust_remote_code=trust)
    model.set_attn_implementation("sdpa" if model._supports_sdpa else "eager")
    return model


def _write(job: Job, model: Any, kept: texts.Kept, stop: Stop) -> Iterator[Event]:
    """Let the target write until there is enough, or its part of the time is over."""
    plan, rows = job.plan, selfwrite.ROWS
    seconds, ends, saved = 60 * plan.minutes * WRITING, reply_ends(job.side, job.tokenizer), True
    while kept.tokens < ENOUGH and kept.seconds < seconds and not stop():
        yield Step(Stage.WRITING, kept.tokens, 60 * plan.minutes - kept.seconds, share=kept.seconds / seconds)
        budget = selfwrite.Budget(1, seconds - kept.seconds)
        feed = islice(openings(plan.model, job.tokenizer, plan.seed), len(kept.texts), None)
        begun = time.monotonic()
        try:
            batch = list(selfwrite.write(model, feed, ends, budget, plan.seed + len(kept.texts), stop, rows))
        except (MemoryError, RuntimeError) as error:
            if rows == 1 or not lacks_memory(error):
                raise
            rows //= 2
            yield Note(f"Memory ran out: from now on {rows} texts are written at a time.")
            continue
        if not kept.add(batch, time.monotonic() - begun) and saved:
            saved = False
            yield Note("The disk is full: what the target writes is kept in memory alone.")
