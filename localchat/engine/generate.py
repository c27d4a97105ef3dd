"""The loop. Read this first.

A generator, so the consumer may stop at any round. Plain decoding is the same loop with the drafter that proposes
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from localchat.engine.detokenize import Stopper
from localchat.engine.governor import Governor, tested
from localchat.engine.sampling import Picker
from localchat.engine.sizes import padded
from localchat.engine.target import Output, Target
from localchat.engine.traffic import Stopwatch, download
from localchat.engine.tree import depths
from localchat.engine.types import NO_DRAFT, ROOT, Decision, Draft, Drafter, Origin, Round, StopReason, Verdict
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
        watch = Stopwatch(target.device)
        governor.open(min(stopper.left - 1, room_left(target, len(tokens))))
        draft = drafter.propose(tokens, picker, governor)
        draft = draft.trunk() if target.fixed_width else draft
        decision = governor.decide(draft)
        watch.split()
        answer = ask(target, picker, tokens[-1], draft)
        draft = answer.draft
        draft_seconds, verify_seconds = watch.stop()
        begun = perf_counter()
        verdict = verify(answer.proposed, draft.parents, answer.picks)
        rows = [0, *(node + 1 for node in verdict.path)]
        count, stop = stopper.scan(verdict.tokens)
        used = rows[: count + (stop is StopReason.EOS)]
        margin = check(answer.gaps, used, len(tokens))
        emitted, path = verdict.tokens[:count], verdict.path[:count]
        target.keep(tokens[-1], path, emitted[: len(path)])
        tokens += emitted
        if stop is not None:
            target.truncate(len(tokens) - 1)  # as plain decoding leaves it
        elif len(tokens) >= target.context:
            stop = StopReason.CONTEXT
        picker.learn(emitted)
        drafter.learn(tokens, verdict, target.tapped(rows[: len(path) + 1], answer.output))
        governor.learn(draft, verdict, draft_seconds, verify_seconds)
        seconds = (draft_seconds, verify_seconds, perf_counter() - begun)
        width = max(padded(len(draft) + 1), target.fixed_width)
        yield describe(index, answer, verdict, count, stop, decision, margin, width, seconds)
        index += 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What the target says to a draft, on the host."""

    draft: Draft
    output: Output
    proposed: Sequence[int]
    picks: Sequence[int]
    gaps: Sequence[float]
    """How far each pick was ahead of the next best, in units of logits; NaN where the logits are not numbers."""


def ask(target: Target, picker: Picker, token: int, draft: Draft) -> Answer:
    """One verification and one transfer: the round's only synchronisation.

    A draft that leads to values that are not numbers is dropped, so that a guess can never end a reply.
    """
    output = target.forward(token, draft)
    picks, margins = picker.rows(output.logits, draft)
    known = () if draft.ids is None else (draft.ids,)
    picked, gaps, *proposed = download((picks, margins, *known), picks.device)
    if draft and any(map(math.isnan, gaps)):
        target.cache.scrub()
        return ask(target, picker, token, NO_DRAFT)
    ids = [int(token) for token in proposed[0]] if proposed else []
    return Answer(draft, output, ids, [int(pick) for pick in picked], gaps)


def room_left(target: Target, length: int) -> int:
    """Draft tokens that fit the context and, in exact mode, the cache bucket that the round begins in."""
    room = target.context - length - 1
    return min(room, target.cache.bucket_room) if target.fixed_width else room


def check(gaps: Sequence[float], rows: Sequence[int], length: int) -> float:
    """The smallest margin of the rows; stop at the first whose logits are not numbers."""
    for offset, row in enumerate(rows):
        if math.isnan(gaps[row]):
            raise GenerationError(
                f"The model's output is not a number at position {length + offset}.",
                "Its weights may be damaged, or the precision too low: try --precision bf16 or fp32.",
            )
    return min(gaps[row] for row in rows)


def origins(draft: Draft, path: Sequence[int], count: int) -> tuple[str, ...]:
    """Where each of `count` emitted tokens comes from."""
    names = [draft.source] * len(path)
    if count > len(path):
        whole = (path[-1] if path else ROOT) not in draft.parents
        names.append(Origin.PLAIN if not draft else Origin.BONUS if whole else Origin.CORRECTION)
    return tuple(names)


def describe(
    index: int,
    answer: Answer,
    verdict: Verdict,
    count: int,
    stop: StopReason | None,
    decision: Decision,
    margin: float,
    width: int,
    seconds: tuple[float, float, float],
) -> Round:
    """The round's record; of a draft, what lies beyond a stop is not counted.

    Args:
        count: tokens emitted.
        margin: see Round.
        width: rows of the forward, padding included.
        seconds: spent drafting, verifying and on all else.
    """
    draft, depth = answer.draft, depths(answer.draft.parents)
    reach = len(draft) if stop is None else count
    inside = [node for node in range(len(draft)) if depth[node] <= reach]
    path = verdict.path[:count]
    asked = [0] * max((depth[node] for node in inside), default=0)
    passed = asked.copy()
    for node, hit in tested(draft.parents, verdict.path):
        if depth[node] <= reach:
            asked[depth[node] - 1] = 1
            passed[depth[node] - 1] |= hit
    return Round(
        index=index,
        tokens=verdict.tokens[:count],
        origins=origins(draft, path, count),
        rejected=tuple(answer.proposed[node] for node in inside if node not in path),
        drafted=len(inside),
        accepted=len(path),
        depth_drafted=tuple(asked),
        depth_accepted=tuple(passed),
        source=draft.source,
        width=width,
        decision=decision,
        draft_seconds=seconds[0],
        verify_seconds=seconds[1],
        host_seconds=seconds[2],
        margin=margin,
        stop=stop,
    )
