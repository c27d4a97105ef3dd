"""The loop. Read this first.

A generator, so the consumer may stop at any round. Plain decoding is the same loop with the drafter that proposes
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import torch

from localchat.engine.detokenize import Stopper
from localchat.engine.governor import Governor, tested
from localchat.engine.sampling import Picker
from localchat.engine.target import Target
from localchat.engine.traffic import download
from localchat.engine.tree import depths
from localchat.engine.types import Draft, Drafter, Origin, Round, StopReason, Verdict
from localchat.engine.verify import verify
from localchat.errors import GenerationError


def generate(
    target: Target, drafter: Drafter, tokens: list[int], picker: Picker, stopper: Stopper, governor: Governor
) -> Iterator[Round]:
    """Continue `tokens`, whose last is not yet in the target's cache while all others are.

    Args:
        tokens: the prompt; grows by the reply.

    Yields:
        One round at a time, cut at the stop. The cache is valid whenever the consumer has control.

    Raises:
        GenerationError: the model's output is not a number.
    """
    index, stop = 0, None
    while stop is None:
        begun = perf_counter()
        governor.open(min(stopper.left - 1, room_left(target, len(tokens))))
        draft = drafter.propose(tokens, picker, governor)
        decision = governor.decide(draft)
        drafted = perf_counter()
        output = target.forward(tokens[-1], draft)
        picks, margins = picker.rows(output.logits, draft)
        proposed, picked, gaps = read(draft, picks, margins)
        verified = perf_counter()
        verdict = verify(proposed, draft.parents, picked)
        rows = [0, *(node + 1 for node in verdict.path)]
        check(gaps, rows, len(tokens))
        count, stop = stopper.scan(verdict.tokens)
        emitted, path = verdict.tokens[:count], verdict.path[:count]
        target.keep(tokens[-1], path, emitted[: len(path)])
        tokens += emitted
        picker.learn(emitted)
        drafter.learn(tokens, verdict, target.tapped(rows[: len(path) + 1], output))
        governor.learn(draft, verdict, drafted - begun, verified - drafted)
        if stop is None and len(tokens) >= target.context:
            stop = StopReason.CONTEXT
        scored = score(draft, proposed, verdict, count)
        yield Round(
            index=index,
            tokens=emitted,
            origins=origins(draft, path, count),
            source=draft.source,
            width=max(len(draft) + 1, target.fixed_width),
            decision=decision,
            margin=min((gaps[row] for row in rows[:count]), default=math.inf),
            stop=stop,
            draft_seconds=drafted - begun,
            verify_seconds=verified - drafted,
            host_seconds=perf_counter() - verified,
            accepted=len(path),
            rejected=scored.rejected,
            drafted=scored.drafted,
            depth_drafted=scored.depth_drafted,
            depth_accepted=scored.depth_accepted,
        )
        index += 1


def room_left(target: Target, length: int) -> int:
    """Draft tokens that fit the context and, in exact mode, the cache bucket that the round begins in."""
    room = target.context - length - 1
    return min(room, target.cache.bucket_room) if target.fixed_width else room


def read(draft: Draft, picks: torch.Tensor, margins: torch.Tensor) -> tuple[list[int], list[int], list[float]]:
    """Proposals, picks and margins, on the host."""
    known = () if draft.ids is None else (draft.ids,)
    picked, gaps, *proposed = download((picks, margins, *known), picks.device)
    return [int(token) for token in (proposed[0] if proposed else ())], [int(token) for token in picked], gaps


def check(gaps: Sequence[float], rows: Sequence[int], length: int) -> None:
    """Stop at the first emitted token whose logits are not numbers."""
    for offset, row in enumerate(rows):
        if math.isnan(gaps[row]):
            raise GenerationError(
                f"The model's output is not a number at position {length + offset}.",
                "Its weights may be damaged, or the precision too low: try --precision bf16 or fp32.",
            )


def origins(draft: Draft, path: Sequence[int], count: int) -> tuple[str, ...]:
    """Where each of `count` emitted tokens comes from."""
    names = [draft.source] * len(path)
    if count > len(path):
        whole = len(path) == max(depths(draft.parents), default=0)
        names.append(Origin.PLAIN if not draft else Origin.BONUS if whole else Origin.CORRECTION)
    return tuple(names)


class Score(NamedTuple):
    """Counts of one draft, over the part of the round before a stop."""

    drafted: int
    rejected: tuple[int, ...]
    depth_drafted: tuple[int, ...]
    depth_accepted: tuple[int, ...]


def score(draft: Draft, proposed: Sequence[int], verdict: Verdict, count: int) -> Score:
    """Count what was drafted and rejected among the first `count` positions."""
    depth = depths(draft.parents)
    inside = [node for node in range(len(draft)) if depth[node] <= count]
    hits = set(verdict.path[:count])
    asked = [0] * max((depth[node] for node in inside), default=0)
    passed = asked.copy()
    for node, hit in tested(draft.parents, verdict.path):
        if depth[node] <= count:
            asked[depth[node] - 1] = 1
            passed[depth[node] - 1] |= hit
    rejected = tuple(proposed[node] for node in inside if node not in hits)
    return Score(len(inside), rejected, tuple(asked), tuple(passed))
