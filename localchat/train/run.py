"""A whole training, from texts to a registered network: a generator of events that can be stopped at any moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from localchat.errors import FitError, ModelError, UsageError
from localchat.models.choice import choose, inspect
from localchat.models.devices import available_memory, resolve_device
from localchat.models.folders import Source, find_model, fingerprint
from localchat.models.gguf import unpack_gguf
from localchat.models.loader import load_tokenizer, load_weights, reply_ends
from localchat.models.plan import LoadPlan, Precision
from localchat.paths import cache_dir
from localchat.train import checkpoint, register, selfwrite, texts
from localchat.train.events import Event, Note, Paused, Stage, Step
from localchat.train.job import WRITING, Identity, Job, Stop, unfinished
from localchat.train.learn import Learner
from localchat.train.loop import lacks_memory
from localchat.train.openings import openings
from localchat.train.plan import CHATS, SELF, TrainPlan, check_free, home, run_folder

ENOUGH = 500_000
"""Tokens after which the target writes no more."""
_ROWS = 128
"""Rows whose whole logits the target computes at once, for the memory plan."""
_SEEDS = 2**63
"""As many as torch knows."""
_MORE_TEXT = "Add more text, or let the target write: --data self."
_MORE_TIME = "Give the target more time to write (--minutes), or add text."


def train(plan: TrainPlan, stop: Stop = lambda: False) -> Iterator[Event]:
    """Train what the plan asks for and register it; ends with `Finished` or `Paused`.

    Args:
        plan: what to train.
        stop: asked between steps; once it is true, the state is saved.

    Raises:
        UsageError: an impossible plan, a name that is in use, or text that cannot be learnt from.
        ModelError: the target cannot be used.
        FitError: it does not fit in memory.
        GenerationError: the loss is no number any more, or the result could not be written.
    """
    plan.check()
    source = find_model(plan.model)
    name = plan.called(source.title)
    try:
        with checkpoint.alone(run_folder(name)):
            yield from _stages(replace(plan, seed=plan.seed % _SEEDS), source, name, stop)
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        raise FitError(
            "Memory ran out.", "Close other programs, use --precision nf4, or choose a smaller target."
        ) from error


def _stages(plan: TrainPlan, source: Source, name: str, stop: Stop) -> Iterator[Event]:
    yield Step(Stage.COLLECTING)
    job = _prepare(plan, source, name)
    yield Step(Stage.LOADING)
    model = _load(job)
    kept = texts.Kept(cache_dir() / "written" / f"{job.identity.fingerprint[:16]}-{job.identity.precision}.jsonl")
    if SELF in plan.data:
        yield from _write(job, model, kept, stop)
    if stop():
        yield Paused(0.0)
        return
    own = kept.texts if SELF in plan.data else []
    more = _MORE_TIME if SELF in plan.data else _MORE_TEXT
    rows = texts.split([*job.given, *own], job.beginning, more)
    yield from Learner(job, model, rows).learn(stop)


def _prepare(plan: TrainPlan, source: Source, name: str) -> Job:
    """Everything that can be said against a plan without loading a model."""
    check_free(name)
    register.clear(home(plan.kind, name))
    device, earlier = resolve_device(plan.device), unfinished(name)
    source = unpack_gguf(source, lambda _stage, _done, _total: None) if source.gguf else source
    side = inspect(source, trust_remote_code=plan.trust_remote_code)
    if plan.kind == "draft" and side.shape.mixture:
        raise ModelError(f"No draft model can be cut out of {source.title}, a mixture of experts.", "Use --kind eagle.")
    # What was settled on by itself stays, however much memory is free after a pause.
    precision = earlier.precision if earlier and plan.precision is Precision.AUTO else plan.precision
    wanted = LoadPlan(plan.model, precision=precision, draft="off", context=0, device=device)
    choice = choose(wanted, side, None, device, _ROWS, available_memory(device))
    tokenizer = load_tokenizer(source.folder, trust_remote_code=plan.trust_remote_code)
    files = tuple(texts.collect([data for data in plan.data if data != CHATS], tokenizer))
    identity = Identity(
        kind=plan.kind,
        sources=tuple(source for source in (SELF, CHATS) if source in plan.data),
        files=texts.digest(files),
        seed=plan.seed,
        precision=choice.request.precision,
        fingerprint=fingerprint(source.folder),
    )
    if earlier and replace(earlier, fingerprint=identity.fingerprint) != identity:
        raise UsageError(
            f"There is an unfinished training of {name} with other data or settings.",
            f"Choose another --name, or remove it with: localchat models rm {name}",
        )
    job = Job(
        plan=plan,
        side=side,
        name=name,
        device=device,
        identity=identity,
        room=max(0, choice.memory.available - choice.memory.total) // 2,
        tokenizer=tokenizer,
        given=(*files, *texts.collect([data for data in plan.data if data == CHATS], tokenizer)),
    )
    if SELF not in plan.data:
        texts.split(job.given, job.beginning, _MORE_TEXT)
    return job


def _load(job: Job) -> Any:
    trust = job.plan.trust_remote_code
    model = load_weights(
        job.side, job.identity.precision, job.device, lambda _done, _total: None, trust_remote_code=trust
    )
    model.set_attn_implementation("sdpa" if model._supports_sdpa else "eager")
    return model


def _write(job: Job, model: Any, kept: texts.Kept, stop: Stop) -> Iterator[Event]:
    """Let the target write until there is enough, or its part of the time is over."""
    plan, rows = job.plan, selfwrite.ROWS
    seconds, ends, saved = 60 * plan.minutes * WRITING, reply_ends(job.side, job.tokenizer), True
    feed: Iterator[tuple[int, ...]] = islice(openings(plan.model, job.tokenizer, plan.seed), len(kept.texts), None)
    while kept.tokens < ENOUGH and kept.seconds < seconds and not stop():
        yield Step(Stage.WRITING, kept.tokens, 60 * plan.minutes - kept.seconds, share=kept.seconds / seconds)
        budget = selfwrite.Budget(1, seconds - kept.seconds)
        begun, begins = time.monotonic(), list(islice(feed, rows))
        try:
            batch = list(selfwrite.write(model, begins, ends, budget, plan.seed + len(kept.texts), stop, rows))
        except (MemoryError, RuntimeError) as error:
            if rows == 1 or not lacks_memory(error):
                raise
            rows //= 2
            feed = chain(begins, feed)
            yield Note(f"Memory ran out: from now on {rows} texts are written at a time.")
            continue
        if not kept.add(batch, time.monotonic() - begun) and saved:
            saved = False
            yield Note("The disk is full: what the target writes is kept in memory alone.")
