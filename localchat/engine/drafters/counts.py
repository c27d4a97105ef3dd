"""Counts: what most often followed the last two tokens, or the last one, in everything written so far.

A trigram model that learns as the reply grows and remembers earlier ones. Where lookup copies one earlier passage, this
asks all of them at once, so it knows how sure it is. Idea: adaptive n-grams for speculation (arXiv:2404.08698).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

import torch

from localchat.engine.drafters import Parts
from localchat.engine.sureness import sureness
from localchat.engine.types import NO_DRAFT, ROOT, Draft, Needs, Pick, Room, Tapped, Verdict, common_prefix

_RANKS = 3
"""Most tokens that may follow each."""
_UNSEEN = 0.5
"""Observations that stand for all that was never seen."""
_CAPACITY = 1 << 15
"""Contexts that are remembered; beyond them everything is forgotten."""


class Counts:
    """Drafts a tree from counts."""

    needs = Needs()
    priors: Mapping[str, tuple[float, ...]] = {"counts": (0.3,)}

    def __init__(self, parts: Parts) -> None:
        del parts
        self._seen: dict[tuple[int, ...], Counter[int]] = {}
        self._text: list[int] = []

    @property
    def cache_bytes(self) -> int:
        """It has no cache."""
        return 0

    def forget(self) -> None:
        """Count from nothing."""
        self._seen, self._text = {}, []

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """Count what is new in the prompt."""
        if len(self._seen) > _CAPACITY:
            self._seen = {}
        self._text = self._text[: common_prefix(self._text, tokens)]
        self._count(tokens)

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """Count what was emitted."""
        self._count(tokens)

    def _count(self, tokens: Sequence[int]) -> None:
        for at in range(len(self._text), len(tokens)):
            for size in (1, 2):
                if at >= size:
                    self._seen.setdefault(tuple(tokens[at - size : at]), Counter())[tokens[at]] += 1
        self._text = list(tokens)

    def _after(self, context: tuple[int, ...]) -> list[tuple[int, float]]:
        """The likeliest tokens and their shares."""
        for start in range(len(context)):
            found = self._seen.get(context[start:])
            if found:
                total = found.total() + _UNSEEN
                return [(token, count / total) for token, count in found.most_common(_RANKS)]
        return []

    def _tree(self, room: Room) -> tuple[list[int], list[int], list[int]]:
        """Tokens, parents and classes of the likeliest continuations."""
        ids: list[int] = []
        parents: list[int] = []
        classes: list[int] = []
        waiting: list[tuple[float, int, int, float, tuple[int, ...]]] = []

        def offer(parent: int, alive: float, context: tuple[int, ...]) -> None:
            for token, share in self._after(context)[: _RANKS if room.branches else 1]:
                heappush(waiting, (-alive * share, parent, token, share, context))

        offer(ROOT, 1.0, tuple(self._text[-2:]))
        while waiting and len(ids) < room.limit:
            alive, parent, token, share, context = heappop(waiting)
            ids.append(token)
            parents.append(parent)
            classes.append(sureness(share))
            offer(len(ids) - 1, -alive, (*context, token)[-2:])
        return ids, parents, classes

    def value(self, room: Room) -> float:
        """Expected tokens per second if this round drafts."""
        _, parents, classes = self._tree(room)
        return room.value("counts", parents, classes, 0) if parents else 0.0

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """The part of the tree that pays."""
        ids, parents, classes = self._tree(room)
        keep = room.weigh("counts", parents, classes, 0).keep if ids else ()
        if not keep:
            return NO_DRAFT
        place = {node: at for at, node in enumerate(keep)}
        above = tuple(place.get(parents[node], ROOT) for node in keep)
        return Draft(torch.tensor([ids[node] for node in keep]), above, "counts", tuple(classes[node] for node in keep))
