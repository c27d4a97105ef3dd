"""A tiny target on disk, plans for it that take about a second, and a pupil that learns a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from localchat.engine.governor import Timings
from localchat.train.batches import Batches
from localchat.train.events import Began, Event, Finished, Judged, Note
from localchat.train.loop import Loop
from localchat.train.plan import TrainPlan
from localchat.train.register import Trained
from localchat.train.run import train
from localchat.train.unroll import Marks
from tests.support.models import save_tiny

WORDS = "the quick brown fox jumps over the lazy dog while seven wizards box with a jolly liquid "


def text_file(folder: Path, repeats: int = 60) -> Path:
    """A text of many rows, each a little different."""
    path = folder / "text.txt"
    path.write_text("\n".join(f"{number}: {WORDS}" for number in range(repeats)), encoding="utf-8")
    return path


def tiny_plan(folder: Path, kind: str = "medusa", **fields: object) -> TrainPlan:
    """A training of about half a second on a text file for a tiny model in `folder`, made if it is not there."""
    target = folder / "target"
    if not target.exists():
        save_tiny(target, layers=3)
    values: dict[str, object] = {"data": (str(text_file(folder)),), "minutes": 0.01, "device": "cpu", "name": "tiny"}
    return TrainPlan(kind=kind, model=str(target), **{**values, **fields})  # type: ignore[arg-type]


def run(plan: TrainPlan, stop: Callable[[], bool] = lambda: False) -> list[Event]:
    """All events of a training."""
    return list(train(plan, stop))


def finished(events: list[Event]) -> Finished:
    """The end of a training that came to its end."""
    last = events[-1]
    assert isinstance(last, Finished), last
    return last


def began(events: list[Event]) -> Began:
    """What was trained."""
    return next(event for event in events if isinstance(event, Began))


def notes(events: list[Event]) -> list[str]:
    """What the user was told."""
    return [event.text for event in events if isinstance(event, Note)]


def judgements(events: list[Event]) -> list[Judged]:
    """How it did, time by time."""
    return [event for event in events if isinstance(event, Judged)]


def after(events: int) -> Callable[[], bool]:
    """A wish to stop that comes true when it has been asked about so often."""
    asked: Iterator[bool] = iter([False] * events)
    return lambda: next(asked, True)


def never(*_: object, **__: object) -> None:
    """In the place of what must not be called."""
    raise AssertionError("called")


class Line:
    """A pupil that learns to say the next token from this one; `lacks` calls of its loss run out of memory, or of its
    beginning, and `spare` times it can give some back."""

    steps = None

    def __init__(self, lacks: int = 0, most: int = 1000, broken: bool = False, spare: int = 0) -> None:
        torch.manual_seed(1)
        self.module: nn.Module = nn.Sequential(nn.Embedding(64, 8), nn.Linear(8, 64))
        self.rows: list[int] = []
        """Rows of each call that had room."""
        self.begun = 0
        self._lacks, self._most, self._broken, self._spare = lacks, most, broken, spare

    def begin(self, batches: Iterable[Tensor]) -> None:
        """Count the texts."""
        found = list(batches)
        self._take(max(found, key=len))
        self.begun = sum(tokens.numel() for tokens in found)

    def release(self) -> bool:
        """So often."""
        self._spare -= 1
        return self._spare >= 0

    def _take(self, tokens: Tensor) -> None:
        if self._lacks and len(tokens) > self._most:
            self._lacks -= 1
            raise torch.OutOfMemoryError("out of memory")

    def loss(self, tokens: Tensor) -> Tensor:
        """Cross-entropy."""
        self._take(tokens)
        self.rows.append(len(tokens))
        logits = self.module(tokens[:, :-1]).float()
        value = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        return value * float("nan") if self._broken else value

    def judge(self, tokens: Tensor) -> Marks:
        """Right guesses of the next token."""
        with torch.no_grad():
            right = self.module(tokens[:, :-1]).argmax(-1) == tokens[:, 1:]
        return Marks((right.numel(),), ((int(right.sum()),),))

    def costs(self) -> Timings:
        """Everything takes a second."""
        return Timings(draft=(("trained", 0.1),))

    def keep(self, folder: Path, about: Trained) -> None:
        """Nowhere."""


def rows(count: int = 24, length: int = 16) -> list[tuple[int, ...]]:
    """Rows that count upwards."""
    return [tuple((start + step) % 64 for step in range(length)) for start in range(count)]


def loop(pupil: Line, seconds: float = 1000.0, seed: int = 0) -> Loop:
    """A loop over `rows`."""
    return Loop(pupil, Batches(rows(), 64, seed), 1e-2, seconds, torch.device("cpu"), seed)
