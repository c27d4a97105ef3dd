"""Where a new head begins: at the best linear guess of the states to come, found in closed form.

The target's states are so regular that least squares over a few thousand tokens beats minutes of training from random
weights; what a head learns afterwards is the rest. Gemma 3 270M, 40,000 tokens: 35 % of next tokens right before the
first step, which training from scratch reached after a quarter of an hour on one core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from localchat.engine.heads import AnyHead, Eagle, Medusa
from localchat.train.teacher import Lesson, Teacher
from localchat.train.unroll import guesses

_RIDGE = 0.01
"""Added to the diagonal, as a part of it: what few tokens say of a dimension is not believed in full."""
_LEAST = 1e-3
"""Smallest size of a dimension that is told from nothing."""
_FIRST = 4
"""Tokens at the start of a text whose states are like no others."""


class Fit:
    """Least squares for a linear layer, from what it reads to what it should say."""

    def __init__(self, layer: nn.Linear, offset: int) -> None:
        self.offset = offset
        self._layer = layer
        self._inputs: Tensor | None = None
        self._hook = layer.register_forward_pre_hook(self._see)
        wide = layer.in_features
        self._square = torch.zeros(wide, wide, device=layer.weight.device)
        self._cross = torch.zeros(wide, layer.out_features, device=layer.weight.device)

    def _see(self, _layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._inputs = inputs[0].detach().float() if self._inputs is None else self._inputs

    def learn(self, wanted: Tensor) -> None:
        """What the rows that were just seen should have given [B, T, out]; the first of them count."""
        assert self._inputs is not None
        seen = self._inputs[:, : wanted.shape[1]].flatten(0, 1)
        self._square += seen.T @ seen
        self._cross += seen.T @ wanted.flatten(0, 1)
        self._inputs = None

    def close(self) -> None:
        """Look at the layer no longer."""
        self._hook.remove()

    def finish(self) -> None:
        """Set the layer's weights."""
        ridge = (_RIDGE * self._square.diagonal()).clamp_min(_LEAST).diag()
        self._layer.weight.data.copy_(torch.linalg.solve(self._square + ridge, self._cross).T)


def _fits(head: AnyHead) -> Iterator[Fit]:
    """The layers that begin as linear guesses, and how many places ahead each guesses."""
    if isinstance(head, Medusa):
        for offset, mix in enumerate(head.mixes, start=1):
            assert isinstance(mix, nn.Linear)
            yield Fit(mix, offset)
        return
    first = head.fc if isinstance(head, Eagle) else head.steps[0].eh_proj
    assert isinstance(first, nn.Linear)
    yield Fit(first, 1)


def _silence(head: AnyHead) -> None:
    """Everything after the linear guess begins by adding nothing."""
    for name, value in head.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(value)
    if isinstance(head, Medusa):
        for blocks in head.blocks:
            for value in list(blocks.children())[-1].parameters():
                nn.init.zeros_(value)


@torch.no_grad()
def begin(head: AnyHead, teacher: Teacher, batches: Iterable[Tensor]) -> Tensor:
    """Set a new head of our own layout (scaled, with a final norm) to its linear guess.

    Args:
        batches: texts int64 [B, T]; some ten thousand tokens in all.

    Returns:
        Root mean square [hidden] of each dimension of the state that the output head reads.
    """
    texts = list(batches)
    sizes, typical = _typical(teacher, texts)
    head.scales.copy_(1 / torch.stack(sizes))
    norms = [head.norm] if isinstance(head, Eagle | Medusa) else [step.norm for step in head.steps]
    for norm in norms:
        norm.weight.copy_(typical)  # type: ignore[union-attr,operator]
    fits = list(_fits(head))
    try:
        for tokens in texts:
            _show(head, teacher.lesson(tokens), fits, typical)
        for fit in fits:
            fit.finish()
    finally:
        for fit in fits:
            fit.close()
    _silence(head)
    return typical


def _typical(teacher: Teacher, texts: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """Root mean square [hidden] of each dimension: of what a head reads (see `Shared.scales`), of the last state."""
    squares = []
    for lesson in map(teacher.lesson, texts):
        states = [state[:, _FIRST:] for state in (*lesson.tapped, lesson.last)]
        squares.append([part.float().square().mean((0, 1)) for part in (*states, lesson.embeddings)])
    *tapped, last, embedding = (
        torch.stack(parts).mean(0).sqrt().clamp_min(_LEAST) for parts in zip(*squares, strict=True)
    )
    return [*tapped, embedding], last


def _show(head: AnyHead, lesson: Lesson, fits: list[Fit], typical: Tensor) -> None:
    with torch.autocast(typical.device.type, dtype=torch.bfloat16):
        for _ in guesses(head, lesson, max(fit.offset for fit in fits)):
            pass
    for fit in fits:
        fit.learn(lesson.last[:, fit.offset :].float() / typical)
