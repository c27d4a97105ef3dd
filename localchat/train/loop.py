"""The training loop: AdamW, a rate that rises, stays and falls, and steps that survive a lack of memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor

from localchat.errors import FitError, GenerationError
from localchat.train.batches import Batches, Row, grouped
from localchat.train.checkpoint import Progress
from localchat.train.pupil import Pupil
from localchat.train.unroll import Marks

WARM_UP = 100
"""Steps in which the rate rises."""
FALL = 0.4
"""Last part of the training in which the rate falls to nothing: most of the gain comes there."""
JUDGEMENTS = 20
"""Times it is judged in the time it was given."""
PATIENCE = 3
"""So many judgements in a row that are no better than the one before them make the rate fall."""
EARLY = 0.2
"""First part of the training in which a lack of gains means nothing."""
_GAIN = 0.005
"""Better is at least this part more tokens per round."""
_SMOOTH, _SMOOTH_PACE = 0.98, 0.9

T = TypeVar("T")


class Loop:
    """One training in this process; its state is `progress`, the pupil's parameters and the optimizer's moments.

    Args:
        pupil: what is trained.
        batches: in their order.
        rate: highest learning rate.
        seconds: for the whole training.
        device: on which it runs.
        seed: of anything random in a step.
    """

    def __init__(
        self, pupil: Pupil, batches: Batches, rate: float, seconds: float, device: torch.device, seed: int
    ) -> None:
        self.pupil, self.batches, self.device = pupil, batches, device
        self.progress = Progress()
        self.notes: list[str] = []
        """What the user should know; whoever says it empties the list."""
        self._rate, self._seconds, self._seed = rate, seconds, seed
        self._rereading, self._asks_again = 0, False
        named = pupil.module.named_parameters()
        self.parameters = {name: value for name, value in named if value.requires_grad}
        groups = [
            {
                "params": [value for value in self.parameters.values() if (value.dim() > 1) is decays],
                "weight_decay": decay,
            }
            for decays, decay in ((True, 0.01), (False, 0.0))
        ]
        self._optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=True)
        for value in self.parameters.values():
            # As the first step would, but nothing is half made where memory runs out in it.
            moments = {key: torch.zeros_like(value) for key in ("exp_avg", "exp_avg_sq")}
            self._optimizer.state[value] = {"step": torch.zeros((), device=value.device), **moments}

    @property
    def left(self) -> float:
        """Seconds until the end, if nothing is learnt that ends it earlier."""
        return max(0.0, self._end - self.progress.seconds)

    @property
    def done(self) -> bool:
        """The rate has fallen to nothing."""
        return self.progress.step > 0 and self.left == 0

    @property
    def share(self) -> float:
        """How much of the training is done, 0 to 1."""
        return min(1.0, self.progress.seconds / self._end)

    @property
    def reason(self) -> str:
        """Why it ends, as a sentence."""
        return "Acceptance on held-out text no longer rose." if self.progress.stalled else "The time was up."

    @property
    def _end(self) -> float:
        """Seconds at which it ends; what falls early falls for as long as in a training that ends there by its time."""
        stalled = self.progress.stalled
        return min(self._seconds, stalled / (1 - FALL)) if stalled else self._seconds

    def factor(self) -> float:
        """Part of the highest rate that this step has."""
        rising = min(1.0, (self.progress.step + 1) / WARM_UP)
        return rising * min(1.0, self.left / (FALL * self._end))

    def step(self) -> None:
        """One step.

        Raises:
            FitError: memory does not suffice for a single row.
            GenerationError: the loss is no number any more.
        """
        begun, progress = time.monotonic(), self.progress
        rows = self.batches[progress.step]
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate * self.factor()
        value = self._with_room(len(rows), partial(self._update, rows))
        progress.step += 1
        progress.tokens += sum(map(len, rows))
        progress.loss = value if progress.step == 1 else _SMOOTH * progress.loss + (1 - _SMOOTH) * value
        self._count(time.monotonic() - begun, sum(map(len, rows)))

    def _count(self, seconds: float, tokens: int) -> None:
        """Count a step's time. After an interruption texts have to be read again: until all are, a step counts no more
        than it did before."""
        progress = self.progress
        if self._rereading and progress.pace:
            self._rereading -= 1
            seconds = min(seconds, progress.pace * tokens)
        else:
            old = progress.pace or seconds / tokens
            progress.pace = _SMOOTH_PACE * old + (1 - _SMOOTH_PACE) * seconds / tokens
        progress.seconds += seconds

    def _update(self, rows: Sequence[Row], size: int) -> float:
        """Learn from a batch, computed `size` rows at a time, and return its loss."""
        torch.manual_seed((self._seed * 1_000_003 + self.progress.step) % 2**63)
        self._optimizer.zero_grad()
        total = 0.0
        for part in self._parts(rows, size):
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                loss = self.pupil.loss(part) * (len(part) / len(rows))
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        if not math.isfinite(total):
            raise GenerationError("Training failed: the loss is no number any more.", "Try another --seed.")
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), 1.0)
        self._optimizer.step()
        return total

    def _marks(self, rows: Sequence[Row], size: int) -> Marks:
        marks = Marks()
        for part in self._parts(rows, size):
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                marks += self.pupil.judge(part)
        return marks

    def _parts(self, rows: Sequence[Row], size: int) -> Iterator[Tensor]:
        for start in range(0, len(rows), size):
            yield torch.tensor(rows[start : start + size], device=self.device)

    def _with_room(self, rows: int, work: Callable[[int], T]) -> T:
        """Work on batches of so many rows, with as many of them at a time as memory allows: where it runs out, what can
        be spared is given back, and then half as many are taken from then on."""
        while True:
            size = -(-rows // self.progress.parts)
            try:
                return work(size)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not lacks_memory(error):
                    raise
            self._optimizer.zero_grad()
            released = self.pupil.release()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            if released:
                self.notes.append("Memory ran out: from now on texts that come again are read again, which is slower.")
                continue
            if size == 1:
                raise FitError(
                    "Memory ran out while training, even with one text at a time.",
                    "Close other programs and run the same command again: it goes on where it stopped.",
                )
            self.progress.parts *= 2
            self.notes.append(
                f"Memory ran out: from now on {-(-size // 2)} texts are computed at a time instead of {size}."
            )

    def judge(self, rows: Sequence[Row], tokens: int) -> Marks:
        """How the pupil does on rows, in batches of so many tokens.

        The time counts as training, unless the target had to be asked again after an interruption.
        """
        begun, marks = time.monotonic(), Marks()
        for batch in grouped(rows, tokens):
            marks += self._with_room(len(batch), partial(self._marks, batch))
        self.progress.seconds += 0.0 if self._asks_again else time.monotonic() - begun
        self._asks_again = False
        return marks

    def judged(self, value: float) -> bool:
        """Take note of a judgement in tokens per round. Returns whether it is the best so far."""
        progress, falls = self.progress, (1 - FALL) * self._seconds
        better = value > max((judged for _, judged in progress.judged), default=0.0)
        progress.judged.append((progress.seconds, value))
        values = [judged for seconds, judged in progress.judged if seconds >= EARLY * self._seconds]
        last = values[-PATIENCE - 1 :]
        if len(last) > PATIENCE and max(last[1:]) < (1 + _GAIN) * last[0] and progress.seconds < falls:
            progress.stalled = progress.stalled or progress.seconds
        return better

    @property
    def due(self) -> bool:
        """It is time for a judgement."""
        last = self.progress.judged[-1][0] if self.progress.judged else 0.0
        return self.progress.seconds - last >= self._seconds / JUDGEMENTS or (
            self.done and self.progress.seconds > last
        )

    def begin(self, tokens: int) -> None:
        """Let the pupil start from about so many tokens of its texts; the time counts as training."""
        begun, first = time.monotonic(), [self.batches[0]]
        while sum(map(len, chain(*first))) < tokens and len(first) < self.batches.count:
            first.append(self.batches[len(first)])

        def work(size: int) -> None:
            self.pupil.begin(part for rows in first for part in self._parts(rows, size))

        self._with_room(max(map(len, first)), work)
        self.progress.seconds += time.monotonic() - begun

    def state(self) -> dict[str, Tensor]:
        """Values and moments of the parameters, and what else there is to the pupil."""
        tensors = {f"value.{name}": value for name, value in self._values().items()}
        for name, value in self.parameters.items():
            tensors |= {f"{key}.{name}": moment for key, moment in self._optimizer.state[value].items()}
        return tensors

    def _values(self) -> dict[str, Tensor]:
        """Everything but what belongs to the target."""
        frozen = {name for name, value in self.pupil.module.named_parameters() if not value.requires_grad}
        return {name: value for name, value in self.pupil.module.state_dict().items() if name not in frozen}

    def restore(self, tensors: Mapping[str, Tensor], progress: Progress) -> bool:
        """Go on from an earlier state; False if it is not one of this network."""
        own = self.state()
        if any(name not in tensors or tensors[name].shape != value.shape for name, value in own.items()):
            return False
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(tensors[name])
        self.progress = progress
        self._rereading, self._asks_again = self.batches.count, True
        return True


def lacks_memory(error: BaseException) -> bool:
    """True for what torch raises where memory runs out."""
    words = ("can't allocate memory", "out of memory", "not enough memory")
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(part in str(error) for part in words)
