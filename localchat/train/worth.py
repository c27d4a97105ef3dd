"""What a trained network is worth on this machine: its acceptance on unseen text against what its drafts cost here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from localchat.engine.calibrate import measure
from localchat.engine.drafters import Parts, build
from localchat.engine.governor import Governor, Timings
from localchat.engine.heads import AnyHead
from localchat.engine.packed import pack
from localchat.engine.sizes import MAX_WIDTH
from localchat.engine.target import Target
from localchat.engine.types import ROOT
from localchat.models.quantization import repacks

_SOURCE = "trained"
_CONTEXT = 512
_RANKS = 16
"""Classes set aside for each depth; see `speedup`."""


@contextmanager
def _as_in_use(model: Any) -> Iterator[Target]:
    """The model as the engine runs it; afterwards it attends as transformers' own models do again."""
    before = model.config._attn_implementation
    target = Target(model, _CONTEXT)
    try:
        yield target
    finally:
        target.tap((), 0)
        model.set_attn_implementation(before)


def cost_of_head(model: Any, head: AnyHead) -> Timings:
    """Seconds of the target's forwards by width and of a forward of a head, whose weights may be random."""
    kind = head.config.kind
    _packed(model, head)
    with _as_in_use(model) as target:
        return _named(measure(target, {kind: build(kind, Parts(target, head=head))}, MAX_WIDTH), kind)


def cost_of_model(model: Any, draft_model: Any, ids: Tensor | None) -> Timings:
    """The same for a draft model that scores the tokens `ids` (None: all)."""
    with _as_in_use(model) as target, _as_in_use(draft_model) as draft:
        if ids is not None:
            draft.reduce_head(ids.tolist())
        _packed(model, draft_model)
        return _named(measure(target, {"model": build("model", Parts(target, draft=draft))}, MAX_WIDTH), "model")


def _packed(model: Any, network: nn.Module) -> None:
    """Lay weights out as they are in use."""
    if model.device.type == "cpu" and repacks():
        pack(network)


def _named(timings: Timings, source: str) -> Timings:
    """The timings under our source's name; no width costs more than a wider one, whatever else ran meanwhile."""
    verify: list[tuple[int, float]] = []
    for width, seconds in reversed(timings.verify):
        verify.insert(0, (width, min([seconds, *(wider for _, wider in verify)])))
    return replace(timings, verify=tuple(verify), draft=((_SOURCE, dict(timings.draft)[source]),))


def speedup(timings: Timings, acceptance: Sequence[Sequence[float]], steps: int | None) -> float:
    """Expected speed against plain decoding, the draft as deep and wide as pays; never below 1, since drafting is off
    where it does not.

    Args:
        acceptance: by depth and rank; each depth's first guess is gone on from.
        steps: forwards that a draft takes in all; None: one per depth.
    """
    room = Governor(timings, MAX_WIDTH)
    room.trust({_SOURCE: tuple(rate for ranks in acceptance for rate in (*ranks, *[0.0] * (_RANKS - len(ranks))))})
    room.open(MAX_WIDTH - 1)
    parents: list[int] = []
    classes: list[int] = []
    first = ROOT
    for depth, ranks in enumerate(acceptance):
        parents += [first] * len(ranks)
        first = len(classes)
        classes += [_RANKS * depth + rank for rank in range(len(ranks))]
    return max(1.0, room.value(_SOURCE, parents, classes, steps) / room.plain_rate)
