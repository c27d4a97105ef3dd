"""How a head learns: it is run on its own predictions, as far ahead as it will draft, and taught the target's choices.

Training-time test as in EAGLE-3 (arXiv:2503.01840): step j reads the tokens of the text and the states that step j - 1
predicted, and attends to the true pairs before it and to its own chain of guesses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from localchat.engine.heads import AnyHead, Medusa, StateHead
from localchat.engine.layers import Attend
from localchat.train.teacher import Exam, Lesson

FADE = 0.8
"""Weight of each further position ahead: a token counts only if those before it were right."""

PLACES = 20
"""A depth is judged at no fewer than this many places; the first one always is."""

CLOSENESS = 10.0
"""Weight of the distance to the target's state against the cross-entropy."""


class Chain:
    """Attention of unrolled steps.

    Each row of step j sees the true pairs up to its own place, and the guesses of its own chain.
    """

    def __init__(self) -> None:
        self._keys: dict[int, list[Tensor]] = {}
        self._values: dict[int, list[Tensor]] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """See `Attend`; each call of a layer is one step further ahead."""
        keys = self._keys.setdefault(layer, [])
        values = self._values.setdefault(layer, [])
        keys.append(key)
        values.append(value)
        if len(keys) == 1:
            return functional.scaled_dot_product_attention(
                query, key, value, is_causal=True, scale=scale, enable_gqa=True
            )
        batch, heads, count, size = query.shape
        groups = key.shape[1]
        packed = query.view(batch, groups, heads // groups, count, size)
        first, own = keys[0][:, :, :count], [part[:, :, None, :count] for part in keys[1:]]
        scores = torch.einsum("bgrqd,bgkd->bgrqk", packed, first)
        later = torch.ones(count, count, dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
        chain = torch.stack([(packed * part).sum(-1) for part in own], dim=-1)
        weights = (torch.cat((scores, chain), dim=-1).float() * scale).softmax(-1).to(value.dtype)
        out = torch.einsum("bgrqk,bgkd->bgrqd", weights[..., :count], values[0][:, :, :count])
        for step, part in enumerate(values[1:]):
            out = out + weights[..., count + step, None] * part[:, :, None, :count]
        return out.reshape(batch, heads, count, size)


def predictions(head: StateHead, lesson: Lesson, steps: int) -> list[Tensor]:
    """Next states [B, T - 1 - j, hidden] that step j = 0, 1, ... predicts.

    Row i of step j stands for token i + 2 + j and should give what the target says after token i + 1 + j.
    """
    attend: Attend = Chain().attend
    states = head.join(lesson.tapped)[:, :-1]
    found: list[Tensor] = []
    for step in range(steps):
        embeddings = head.read(lesson.embeddings[:, 1 + step :])
        positions = torch.arange(step, step + embeddings.shape[1], device=embeddings.device)
        states = head(embeddings, states, positions, attend, step)
        found.append(states)
        states = states[:, :-1]
    return found


@dataclass(frozen=True, slots=True)
class Guess:
    """What a head makes of one position ahead; row i is about the same starting point at every depth."""

    final: Tensor
    """[B, T', hidden] that the output head reads."""
    logits: Tensor
    """[B, T', n]."""
    offset: int
    """Row i should say what the target says at place i + offset."""

    def of(self, said: Tensor) -> Tensor:
        """The rows of something the target said [B, T, ...] that belong to these."""
        return said[:, self.offset :]


def guesses(head: AnyHead, lesson: Lesson, depth: int) -> Iterator[Guess]:
    """What a head makes of each position ahead."""
    if isinstance(head, Medusa):
        for offset, rows in enumerate(head.ahead(lesson.tapped, depth), start=1):
            final = rows[:, :-offset]
            logits = head.outputs[offset - 1](final) if head.config.own_output else head.score(final)
            yield Guess(final, logits, offset)
        return
    for step, states in enumerate(predictions(head, lesson, depth)):
        final = head.final(states, step)
        yield Guess(final, head.score(final), 1 + step)


def loss(head: AnyHead, lesson: Lesson, depth: int, typical: Tensor) -> Tensor:
    """How far guesses are from the target, deeper ones counting less.

    Cross-entropy with the target's distribution over the draft vocabulary, and the distance to the state that its
    output head reads (EAGLE-1's loss): the second teaches far more per token, the first what matters.

    Args:
        typical: root mean square [hidden] of each dimension of that state.
    """
    total = torch.zeros((), device=lesson.logits.device)
    for ahead, guess in enumerate(guesses(head, lesson, depth)):
        distance = functional.smooth_l1_loss(guess.final.float() / typical, guess.of(lesson.last).float() / typical)
        total = total + FADE**ahead * (entropy(guess.logits, guess.of(lesson.logits)) + CLOSENESS * distance)
    return total / sum(FADE**ahead for ahead in range(depth))


def entropy(logits: Tensor, wanted: Tensor) -> Tensor:
    """Mean cross-entropy of the distribution of logits [..., n] with that of the target's [..., n]."""
    return -(wanted.float().softmax(-1) * logits.float().log_softmax(-1)).sum(-1).mean()


@dataclass(frozen=True, slots=True)
class Marks:
    """How a head did: of `asked[d]` places where all shallower guesses were right, `hits[d][r]` had the target's choice
    as guess number r at depth d."""

    asked: tuple[int, ...] = ()
    hits: tuple[tuple[int, ...], ...] = ()

    def __add__(self, other: Marks) -> Marks:
        if not self.asked:
            return other
        asked = tuple(map(sum, zip(self.asked, other.asked, strict=True)))
        pairs = zip(self.hits, other.hits, strict=True)
        return Marks(asked, tuple(tuple(map(sum, zip(*rows, strict=True))) for rows in pairs))

    @property
    def acceptance(self) -> tuple[tuple[float, ...], ...]:
        """Share of right guesses by depth and rank; a depth that hardly any draft came to is left out, with those
        beyond it: unknown is not never."""
        known = [depth for depth, asked in enumerate(self.asked) if not depth or asked >= PLACES]
        return self._shares[: len(known)]

    @property
    def _shares(self) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(hit / max(asked, 1) for hit in row) for asked, row in zip(self.asked, self.hits, strict=True)
        )

    @property
    def tokens_per_round(self) -> float:
        """Expected tokens of a round that drafts a chain of all depths."""
        total = alive = 1.0
        for row in self._shares:
            alive *= row[0]
            total += alive
        return total


@torch.no_grad()
def judge(head: AnyHead, exam: Exam, depth: int, ranks: int = 4) -> Marks:
    """Compare guesses with the target's choices (`Teacher.exam`), each place as a chain would meet them: a guess is
    asked for only where those before it were right and the text went on with them.
    """

    def compared(guess: Guess) -> tuple[Tensor, Tensor]:
        best = guess.logits.topk(min(ranks, guess.logits.shape[-1]), dim=-1).indices
        return best == guess.of(exam.choice)[..., None], exam.taken[:, guess.offset - 1 :]

    return count(map(compared, guesses(head, exam, depth)))


def count(depths: Iterable[tuple[Tensor, Tensor]]) -> Marks:
    """Marks of chains, depth by depth: which guesses are right [B, T', ranks], and whether the text went on to them
    [B, T' or more]. T' may shrink from depth to depth; row i is about the same starting point at each.
    """
    asked, hits = [], []
    alive: Tensor | None = None
    for right, taken in depths:
        rows = right.shape[1]
        alive = taken[:, :rows] if alive is None else alive[:, :rows] & taken[:, :rows]
        right = right & alive[..., None]
        asked.append(int(alive.sum()))
        hits.append(tuple(int(number) for number in right.sum((0, 1))))
        alive = right[..., 0]
    return Marks(tuple(asked), tuple(hits))
