"""Medusa: one head per position ahead, all on the state that chose the last token (arXiv:2401.10774).

One forward gives the likeliest tokens of every position; any combination is a path. Which combinations are worth a row
is known before the forward, from how often each rank at each depth was right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush

import torch
from torch import Tensor

from localchat.engine.drafters import Parts
from localchat.engine.heads import Medusa as Heads
from localchat.engine.traffic import upload
from localchat.engine.tree import pruned
from localchat.engine.types import NO_DRAFT, ROOT, Draft, Needs, Pick, Room, Tapped, Verdict

RANKS = 16
"""Classes per depth; class depth * RANKS + rank, both from 0."""
_FIRST = (0.5, 0.15, 0.08, 0.05, 0.03, 0.02)
_FADE = 0.8
"""Acceptance by rank where nothing was measured, and how it fades with each further position."""


class Medusa:
    """Drafts a static tree, chosen by the acceptance of each depth and rank."""

    def __init__(self, parts: Parts) -> None:
        head, target = parts.head, parts.target
        if not isinstance(head, Heads) or target is None:
            raise ValueError("this drafter needs a target and Medusa heads")
        self._head, self._target = head, target
        self.needs = Needs(head.config.taps, rows=1)
        measured = head.acceptance or tuple(
            tuple(rate * _FADE**depth for rate in _FIRST) for depth in range(head.config.depth)
        )
        self._rates = tuple(ranks[:RANKS] for ranks in measured[: head.config.depth])
        flat = (rate for ranks in self._rates for rate in (*ranks, *[0.0] * (RANKS - len(ranks))))
        self.priors: Mapping[str, tuple[float, ...]] = {"medusa": tuple(flat)}
        self._states: tuple[Tensor, ...] = ()
        """[1, hidden] per tapped layer: those that chose the last token."""
        self._tried = self._broken = False

    @property
    def cache_bytes(self) -> int:
        """It has no cache."""
        return 0

    def forget(self) -> None:
        """It remembers nothing but the last states."""
        self._states = ()
        self._tried = self._broken = False

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """The states before the prompt's last token, if the prefill computed them."""
        self._states = _last(tapped)
        self._tried = False

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """The states that chose the last token."""
        self._states = _last(tapped)

    def _candidates(self, room: Room) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return candidates(self._rates, room.limit, RANKS if room.branches else 1)

    def value(self, room: Room) -> float:
        """Expected tokens per second if this round drafts."""
        if not self._states or self._broken:
            return 0.0
        return room.value("medusa", *self._candidates(room), 1)

    @torch.inference_mode()
    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """The nodes worth a row, and the tokens the heads have for them."""
        if not self._states or self._broken:
            return NO_DRAFT
        parents, classes = self._candidates(room)
        keep = room.weigh("medusa", parents, classes, 1).keep
        if not keep:
            return NO_DRAFT
        logits = self._head(self._states, 1 + max(classes[node] for node in keep) // RANKS)
        if not self._tried:  # once a reply: on a GPU the host waits for the answer
            self._tried, self._broken = True, bool(logits.isnan().any())
        if self._broken:
            room.refuse("medusa", "medusa is off: its output is not a number")
            return NO_DRAFT
        kinds = tuple(classes[node] for node in keep)
        return Draft(self._tokens(logits, kinds, pick), pruned(parents, keep), "medusa", kinds, 1)

    def _tokens(self, logits: Tensor, kinds: Sequence[int], pick: Pick) -> Tensor:
        """Ids [n] of nodes of these classes; logits [depth, 1, n]."""
        if self._head.ids is None:
            logits = logits[..., : self._target.vocabulary]
        unknown = torch.empty((1, 0), dtype=torch.int64, device=logits.device)
        found: list[Tensor] = []
        begins: list[int] = []
        for depth, rows in enumerate(logits):
            ranks = 1 + max(kind % RANKS for kind in kinds if kind // RANKS == depth)
            begins.append(sum(map(len, found)))
            found.append(pick.best(rows, depth, unknown, ranks, self._head.ids).ids[0])
        at = [begins[kind // RANKS] + kind % RANKS for kind in kinds]
        return torch.cat(found)[upload(at, logits.device)]


def _last(tapped: Tapped | None) -> tuple[Tensor, ...]:
    return tuple(layer[-1:] for layer in tapped.layers) if tapped else ()


@lru_cache(maxsize=256)
def candidates(rates: tuple[tuple[float, ...], ...], most: int, ranks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The likeliest nodes of the tree of all combinations, with their ancestors.

    Args:
        rates: acceptance by depth and rank.
        most: nodes.
        ranks: most tokens that are considered after one node.

    Returns:
        Parents and classes, as in Draft.
    """
    parents: list[int] = []
    classes: list[int] = []
    waiting: list[tuple[float, int, int, int]] = []

    def offer(parent: int, depth: int, alive: float) -> None:
        for rank, rate in enumerate(rates[depth][:ranks] if depth < len(rates) else ()):
            heappush(waiting, (-alive * rate, depth * RANKS + rank, parent, depth))

    offer(ROOT, 0, 1.0)
    while waiting and len(parents) < most:
        alive, kind, parent, depth = heappop(waiting)
        parents.append(parent)
        classes.append(kind)
        offer(len(parents) - 1, depth + 1, -alive)
    return tuple(parents), tuple(classes)
