"""What forwards and drafts cost on this machine, measured once after loading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter

import torch

from localchat.engine.governor import Timings
from localchat.engine.target import Target
from localchat.engine.types import NO_DRAFT, PREFILL_CHUNK, ROOT, WIDTHS, Draft

_CONTEXT = 128
_PROMPT = 64


def _seconds(work: Callable[[], object], repeats: int) -> float:
    """Median time of `work`, the first call not counted."""
    times = []
    for _ in range(repeats + 1):
        begun = perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(perf_counter() - begun)
    return median(times[1:])


def _chain(width: int, device: torch.device) -> Draft:
    count = width - 1
    if count == 0:
        return NO_DRAFT
    ids = torch.arange(1, width, device=device)
    return Draft(ids, tuple(range(ROOT, count - 1)), "measure", (0,) * count)


def measure(target: Target, draft: Target | None, max_width: int, repeats: int = 3) -> Timings:
    """Time the target at each width and the draft model's step; both caches are left empty.

    Verification times include choosing the tokens, as they do in a round.
    """
    context = min(_CONTEXT, target.context // 2)
    for _ in target.prefill([0] * context):
        pass
    fixed, target.fixed_width = target.fixed_width, 0

    def verify(width: int) -> None:
        target.forward(0, _chain(width, target.device)).logits.topk(2, dim=-1)

    verify(max_width)
    times: list[tuple[int, float]] = []
    for width in (w for w in WIDTHS if w <= max_width):
        seconds = _seconds(lambda width=width: verify(width), repeats)  # type: ignore[misc]
        times.append((width, seconds))
    target.fixed_width = fixed
    target.truncate(0)
    return Timings(tuple(times), *(_draft_costs(draft, repeats) if draft else ((), ())))


def _draft_costs(draft: Target, repeats: int) -> tuple[tuple[tuple[str, float], ...], tuple[tuple[str, float], ...]]:
    prompt: Sequence[int] = [0] * min(_PROMPT, draft.context // 2, PREFILL_CHUNK)
    token = torch.zeros((), dtype=torch.int64, device=draft.device)

    def read() -> None:
        draft.truncate(0)
        for _ in draft.prefill(prompt):
            pass

    reading = _seconds(read, repeats)
    step = _seconds(lambda: draft.follow(token).topk(2), repeats + 2)
    draft.truncate(0)
    return (("model", step),), (("model", reading / len(prompt)),)
