"""The training proper: judged, saved and ended in time, and gone on with after an interruption."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from localchat.chat.codec import decode, encode_fields
from localchat.models.loader import reply_ends
from localchat.train import checkpoint, worth
from localchat.train.batches import Batches
from localchat.train.checkpoint import NotSavedError, Progress
from localchat.train.events import Began, Event, Finished, Judged, Note, Paused, Stage, Step
from localchat.train.job import WRITING, Job, Stop
from localchat.train.loop import Loop
from localchat.train.plan import SELF, home
from localchat.train.pupil import RECIPES, draft_ids, new_pupil
from localchat.train.register import Trained
from localchat.train.texts import Rows

_SAVES = 20
"""Checkpoints in the time of a training, but no two in less than the least seconds or more than the most apart."""
_SAVE_LEAST, _SAVE_MOST = 1.0, 60.0
_FIRST = 40_000
"""Tokens that a network begins with before it is trained."""
_SHOW = 0.5
"""Seconds between two reports."""


class Learner:
    """One network that learns from rows.

    Args:
        job: what was asked for.
        model: the target.
        rows: texts to learn from and to judge on.
    """

    def __init__(self, job: Job, model: object, rows: Rows) -> None:
        plan, recipe = job.plan, RECIPES[job.plan.kind]
        self._job, self._rows, self._model = job, rows, model
        self._notes: list[str] = []
        found = self._found()
        device = torch.device(job.device)
        ids = found[0].get("ids") if found else self._draft_ids()
        self._ids = None if ids is None else ids.to(device)
        torch.manual_seed(plan.seed)
        self._pupil = new_pupil(plan.kind, job.side, model, self._ids, job.room)
        self._batch = recipe.tokens
        batches = Batches(rows.training, recipe.tokens, plan.seed)
        seconds = 60 * plan.minutes * (1 - WRITING if SELF in plan.data else 1)
        self._loop = Loop(self._pupil, batches, recipe.rate, seconds, device, plan.seed)
        self._every = min(max(seconds / _SAVES, _SAVE_LEAST), _SAVE_MOST)
        self._best: dict[str, Tensor] = {}
        self._judged: Judged | None = None
        if found and self._loop.restore(found[0], decode(Progress, found[1]["progress"])):
            best = checkpoint.load(job.folder / "best.safetensors", job.device)
            if best:
                self._best, self._judged = best[0], decode(Judged, best[1])
        self._costs = self._pupil.costs()

    def _found(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """An earlier state of the same training; one of another is removed."""
        job = self._job
        found = checkpoint.load(job.folder / "checkpoint.safetensors", job.device)
        if found is None or found[1].get("identity") == job.identity:
            return found
        changed = found[1].get("identity", {}).get("fingerprint") != job.fingerprint
        self._notes.append(f"{'The target has' if changed else 'Data or settings have'} changed: training starts anew.")
        shutil.rmtree(job.folder, ignore_errors=True)
        return None

    def _draft_ids(self) -> Tensor | None:
        job = self._job
        ids = draft_ids(self._rows.training, job.side.shape.vocab, reply_ends(job.side, job.tokenizer))
        return None if ids is None else torch.tensor(ids)

    def learn(self, stop: Stop) -> Iterator[Event]:
        """Train until the time is over or nothing is gained any more; ends with `Finished` or `Paused`."""
        loop, job = self._loop, self._job
        yield Began(
            name=job.name,
            kind=job.plan.kind,
            target=job.side.source.title,
            parameters=sum(value.numel() for value in loop.parameters.values()),
            texts=len(self._rows.training),
            tokens=self._rows.tokens,
            held_out=self._rows.judged,
            resumed_seconds=loop.progress.seconds,
        )
        shown, saved = 0.0, time.monotonic()
        if not loop.progress.seconds:
            yield Step(Stage.BEGINNING, seconds_left=loop.left)
            loop.begin(_FIRST)
        while not loop.done:
            if stop():
                yield from self._save()
                yield Paused(loop.progress.seconds)
                return
            loop.step()
            now = time.monotonic()
            if now - shown >= _SHOW:
                shown = now
                yield Step(Stage.TRAINING, loop.progress.tokens, loop.left, loop.progress.loss, loop.share)
            if loop.due:
                yield from self._judge()
            yield from self._say()
            if now - saved >= self._every:
                yield from self._save()
                saved = time.monotonic()
        if self._judged is None:
            yield from self._judge()
        yield from self._save()
        yield self._register()

    def _say(self) -> Iterator[Note]:
        for lines in (self._notes, self._loop.notes):
            yield from map(Note, lines)
            lines.clear()

    def _judge(self) -> Iterator[Event]:
        loop = self._loop
        yield Step(Stage.JUDGING, loop.progress.tokens, loop.left, loop.progress.loss, loop.share)
        marks = loop.judge(self._rows.held_out, self._batch)
        judged = Judged(
            seconds=loop.progress.seconds,
            loss=loop.progress.loss,
            acceptance=marks.acceptance,
            tokens_per_round=marks.tokens_per_round,
            speedup=worth.speedup(self._costs, marks.acceptance, self._pupil.steps),
        )
        yield judged
        if loop.judged(judged.tokens_per_round) or not self._best:
            self._judged = judged
            self._best = {name: value.detach().clone() for name, value in loop.parameters.items()}
            try:
                checkpoint.save(self._job.folder / "best.safetensors", self._best, encode_fields(judged))
            except NotSavedError as error:
                yield Note(f"The best state so far could not be saved ({error}).")

    def _save(self) -> Iterator[Note]:
        ids = {} if self._ids is None else {"ids": self._ids}
        notes = {"identity": self._job.identity, "progress": encode_fields(self._loop.progress)}
        try:
            checkpoint.save(self._job.folder / "checkpoint.safetensors", {**self._loop.state(), **ids}, notes)
        except NotSavedError as error:
            yield Note(f"The state could not be saved ({error}): the last one is kept, and training goes on.")

    def _register(self) -> Finished:
        """Keep the best state for good; the unfinished one is removed."""
        job, loop = self._job, self._loop
        judged = self._judged
        assert judged is not None
        for name, value in loop.parameters.items():
            value.data.copy_(self._best[name])
        folder, shape = home(job.plan.kind, job.name), job.side.shape
        self._pupil.keep(
            folder,
            Trained(
                name=job.name,
                kind=job.plan.kind,
                target=job.target,
                fingerprint=job.fingerprint,
                hidden=shape.hidden,
                layers=len(shape.windows),
                vocab=shape.vocab,
                precision=job.precision.value,
                data=job.sources,
                seed=job.plan.seed,
                seconds=loop.progress.seconds,
                tokens=loop.progress.tokens,
                texts=len(self._rows.training),
                parameters=sum(value.numel() for value in loop.parameters.values()),
                judged=judged,
            ),
        )
        shutil.rmtree(job.folder, ignore_errors=True)
        return Finished(
            job.name, job.plan.model, folder, loop.reason, loop.progress.seconds, loop.progress.tokens, judged
        )
