"""The training proper: judged, saved and ended in time, and gone on with after an interruption."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from localchat.chat.codec import decode, encode_fields
from localchat.errors import FitError
from localchat.models.loader import reply_ends
from localchat.train import checkpoint, worth
from localchat.train.batches import Batches
from localchat.train.checkpoint import NotSavedError, Progress
from localchat.train.events import Began, Event, Finished, Judged, Note, Paused, Stage, Step
from localchat.train.job import WRITING, Job, Stop, state_file, unfinished
from localchat.train.loop import Loop
from localchat.train.plan import SELF, home
from localchat.train.pupil import RECIPES, draft_ids, new_pupil
from localchat.train.register import Trained
from localchat.train.texts import Rows

_SAVES = 20
"""Checkpoints in the time of a training, but no two in less than the least seconds or more than the most apart."""
_SAVE_LEAST, _SAVE_MOST = 1.0, 60.0
_SAVE_PART = 20
"""Times as long as a checkpoint takes there is none."""
_UNREADABLE = "What there was of this training cannot be gone on with"
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
        trust = plan.trust_remote_code
        self._pupil = new_pupil(plan.kind, job.side, model, self._ids, job.room, trust_remote_code=trust)
        self._batch = recipe.tokens
        batches = Batches(rows.training, recipe.tokens, plan.seed)
        seconds = 60 * plan.minutes * (1 - WRITING if SELF in plan.data else 1)
        self._loop = Loop(self._pupil, batches, recipe.rate, seconds, device, plan.seed)
        self._every = min(max(seconds / _SAVES, _SAVE_LEAST), _SAVE_MOST)
        self._saving = 0.0
        """Seconds that the last checkpoint took."""
        self._best: dict[str, Tensor] = {}
        self._judged: Judged | None = None
        if found and not self._restored(*found):
            self._start_anew(_UNREADABLE)
        self._costs = self._pupil.costs()

    def _found(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """An earlier state of the same training; one that is of no use is removed."""
        job, earlier = self._job, unfinished(self._job.name)
        if earlier == job.identity and (found := checkpoint.load(state_file(job.name), job.device)):
            return found
        if job.folder.exists():
            self._start_anew(_UNREADABLE if earlier in (None, job.identity) else "The target has changed")
        return None

    def _restored(self, tensors: dict[str, Tensor], notes: dict[str, Any]) -> bool:
        """Go on from an earlier state; False if it does not fit."""
        try:
            progress = decode(Progress, notes.get("progress"))
        except ValueError:
            return False
        if not self._loop.restore(tensors, progress):
            return False
        best = checkpoint.load(self._job.folder / "best.safetensors", self._job.device)
        if best and best[0].keys() == self._loop.parameters.keys():
            with suppress(ValueError):
                self._judged = decode(Judged, best[1])
                self._best = best[0]
        return True

    def _start_anew(self, why: str) -> None:
        self._notes.append(f"{why}: training starts anew.")
        shutil.rmtree(self._job.folder, ignore_errors=True)

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
        try:
            yield from self._steps(stop)
        except FitError:
            yield from self._save()
            raise
        yield from self._save()
        yield self._register() if loop.done else Paused(loop.progress.seconds)

    def _steps(self, stop: Stop) -> Iterator[Event]:
        """Train until it is done or to stop."""
        loop = self._loop
        shown, saved = 0.0, time.monotonic()
        if not loop.progress.seconds:
            yield Step(Stage.BEGINNING, seconds_left=loop.left)
            loop.begin(_FIRST)
        while not loop.done:
            if stop():
                return
            loop.step()
            now = time.monotonic()
            if now - shown >= _SHOW:
                shown = now
                yield Step(Stage.TRAINING, loop.progress.tokens, loop.left, loop.progress.loss, loop.share)
            if loop.due:
                yield from self._judge()
            yield from self._say()
            if now - saved >= max(self._every, _SAVE_PART * self._saving):
                yield from self._save()
                saved = time.monotonic()
        if self._judged is None:
            yield from self._judge()

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
        notes = {"identity": encode_fields(self._job.identity), "progress": encode_fields(self._loop.progress)}
        begun = time.monotonic()
        try:
            checkpoint.save(state_file(self._job.name), {**self._loop.state(), **ids}, notes)
        except NotSavedError as error:
            yield Note(f"The state could not be saved ({error}): the last one is kept.")
        self._saving = time.monotonic() - begun

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
                fingerprint=job.identity.fingerprint,
                hidden=shape.hidden,
                layers=len(shape.windows),
                vocab=shape.vocab,
                precision=job.identity.precision.value,
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
