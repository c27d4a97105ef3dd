"""What forwards and drafts cost on this machine, measured once after loading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

import torch

from localchat.engine.governor import Timings
from localchat.engine.sampling import Picker
from localchat.engine.sizes import WIDTHS
from localchat.engine.target import Target
from localchat.engine.traffic import settle
from localchat.engine.tree import depths
from localchat.engine.types import NO_DRAFT, ROOT, Draft, Drafter, Sampling, Tapped, Verdict, Weighed

_CONTEXT = 128
_PROMPT = 64
_LEVELS = 4
"""Depth of a draft in a rehearsal."""
_TRIALS = 5
_WORTH = 0.85
"""More threads must be this much quicker than one."""


def _seconds(works: Sequence[Callable[[], object]], device: torch.device, repeats: int) -> list[float]:
    """Shortest time of each of several works, done in turn; another program can only make one longer."""
    best = [float("inf")] * len(works)
    for repeat in range(repeats + 1):
        for index, work in enumerate(works):
            begun = perf_counter()
            work()
            settle(device)
            if repeat:
                best[index] = min(best[index], perf_counter() - begun)
    return best


def _chain(width: int, device: torch.device) -> Draft:
    count = width - 1
    if count == 0:
        return NO_DRAFT
    ids = torch.arange(1, width, device=device)
    return Draft(ids, tuple(range(ROOT, count - 1)), "measure", (0,) * count)


def measure(target: Target, drafters: Mapping[str, Drafter], max_width: int, repeats: int = 5) -> Timings:
    """Time the target at each width and each drafter's steps; the target's cache is left empty, drafters forget.

    Verification times include choosing the tokens, as they do in a round.
    """
    context = min(_CONTEXT, target.context // 2)
    for _ in target.prefill([0] * context):
        pass
    fixed, target.fixed_width = target.fixed_width, 0

    def verify(width: int) -> None:
        target.forward(0, _chain(width, target.device)).logits.topk(2, dim=-1)

    widths = [width for width in WIDTHS if width <= max_width]
    times = _seconds([partial(verify, width) for width in widths], target.device, repeats)
    target.fixed_width = fixed
    target.truncate(0)
    room = Rehearsal()
    for drafter in drafters.values():
        for _ in range(repeats + 1):
            _rehearse(target, drafter, room)
        drafter.forget()
    return Timings(tuple(zip(widths, times, strict=True)), tuple(room.steps.items()), tuple(room.reading.items()))


def choose_threads(target: Target, most: int) -> None:
    """On a CPU, use `most` threads, or one where more are not worth it.

    The threads of a small model mostly wait for each other, and all of them wait while another program (the screen)
    has one of their cores. What is computed is the same either way.
    """
    if target.device.type != "cpu" or most < 2:
        return

    def seconds(threads: int) -> float:
        torch.set_num_threads(threads)
        works = [partial(target.forward, 0, _chain(width, target.device)) for width in (1, 8)]
        return sum(_seconds(works, target.device, _TRIALS))

    times = [[seconds(threads) for threads in (1, most)] for _ in range(2)]
    one, all_ = (min(column) for column in zip(*times, strict=True))
    torch.set_num_threads(most if all_ < _WORTH * one else 1)
    target.truncate(0)


@dataclass(slots=True)
class Rehearsal:
    """A `Room` in which everything pays, to see what it costs."""

    limit: int = _LEVELS
    branches: bool = False
    steps: dict[str, float] = field(default_factory=dict)
    """Least seconds per forward of a drafting network, by source."""
    reading: dict[str, float] = field(default_factory=dict)
    """Least seconds per prompt token."""

    def weigh(self, source: str, parents: Sequence[int], classes: Sequence[int], steps: int) -> Weighed:
        """Keep all."""
        return Weighed(tuple(range(len(parents))), max(depths(parents), default=0) < self.limit)

    def value(self, source: str, parents: Sequence[int], classes: Sequence[int], steps: int | None) -> float:
        """All sources are alike."""
        return 1.0

    def repays(self, source: str, pending: int) -> bool:
        """Reading pays."""
        return True

    def refuse(self, source: str, reason: str) -> None:
        """Nobody looks."""

    def prepared(self, source: str, count: int, seconds: float) -> None:
        """Note the time."""
        self.reading[source] = min(seconds / count, self.reading.get(source, seconds))

    def drafted(self, draft: Draft, seconds: float) -> None:
        """Note the time."""
        if draft.steps:
            each = seconds / draft.steps
            self.steps[draft.source] = min(each, self.steps.get(draft.source, each))


def _rehearse(target: Target, drafter: Drafter, room: Rehearsal) -> None:
    """A reply of two rounds after a prompt of nothing, with states of nothing."""

    def states(rows: int) -> Tapped | None:
        shape = (rows, target.config.hidden_size)
        nothing = torch.zeros(shape, dtype=target.dtype, device=target.device)
        return Tapped((nothing,) * len(drafter.needs.hidden_layers)) if drafter.needs.hidden_layers else None

    tokens = [0] * min(_PROMPT, target.context // 2)
    picker = Picker(Sampling(), tokens, target.vocabulary, target.device)
    drafter.start(tokens, states(len(tokens) - 1))
    for reads_first in (True, False):
        begun = perf_counter()
        draft = drafter.propose(tokens, picker, room)
        settle(target.device)
        if not reads_first:
            room.drafted(draft, perf_counter() - begun)
        tokens.append(0)
        picker.learn((0,))
        drafter.learn(tokens, Verdict((), (0,)), states(1))
