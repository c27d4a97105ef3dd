"""What forwards and drafts cost on this machine, measured once after loading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

import torch

from localchat.engine.governor import Timings
from localchat.engine.target import Target
from localchat.engine.traffic import settle
from localchat.engine.types import NO_DRAFT, PREFILL_CHUNK, ROOT, WIDTHS, Draft

_CONTEXT = 128
_PROMPT = 64
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


def measure(target: Target, draft: Target | None, max_width: int, repeats: int = 5) -> Timings:
    """Time the target at each width and the draft model's step; both caches are left empty.

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
    return Timings(tuple(zip(widths, times, strict=True)), *(_draft_costs(draft, repeats) if draft else ((), ())))


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


def _draft_costs(draft: Target, repeats: int) -> tuple[tuple[tuple[str, float], ...], tuple[tuple[str, float], ...]]:
    prompt: Sequence[int] = [0] * min(_PROMPT, draft.context // 2, PREFILL_CHUNK)
    token = torch.zeros((), dtype=torch.int64, device=draft.device)

    def read() -> None:
        draft.truncate(0)
        for _ in draft.prefill(prompt):
            pass

    reading, step = _seconds([read, lambda: draft.follow(token).topk(2)], draft.device, repeats)
    draft.truncate(0)
    return (("model", step),), (("model", reading / len(prompt)),)
