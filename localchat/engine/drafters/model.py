"""A small model of the same family drafts, picking with the target's own noise.

Its cache lags behind by a token or two; what it lacks is read together with the first step of the next draft.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from localchat.engine.traffic import settle
from localchat.engine.types import NO_DRAFT, ROOT, Draft, Needs, Pick, Room, Tapped, Verdict

if TYPE_CHECKING:
    from localchat.engine.target import Target

_CATCH_UP = 32
"""More unread tokens than this must first be likely to pay for being read."""


class ModelDrafter:
    """Drafts a chain, one forward of the draft model per token."""

    needs = Needs()
    priors: Mapping[str, tuple[float, ...]] = {"model": (0.75,)}

    def __init__(self, draft_model: Target | None) -> None:
        if draft_model is None:
            raise ValueError("this drafter needs a draft model")
        self._model = draft_model

    def forget(self) -> None:
        """The draft model learns nothing from replies."""

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """Keep what the cache shares with the prompt; reading the rest waits until it pays."""
        self._model.reuse(tokens[:-1])

    def value(self, room: Room) -> float:
        """Expected tokens per second if this round drafts."""
        return room.value("model", range(room.limit))

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """Draft as deep as pays, once the prompt is read."""
        model = self._model
        room_left = min(room.limit, model.context - len(tokens))
        if room_left <= 0 or not self._caught_up(tokens, room):
            return NO_DRAFT
        depth = room.depth("model", range(room_left))
        if not depth:
            return NO_DRAFT
        logits = model.extend(tokens[len(model.tokens) :])
        ids: list[torch.Tensor] = []
        while True:
            ids.append(pick.one(logits, ids, model.head_ids))
            if len(ids) == depth or (model.ends and int(ids[-1]) in model.ends):
                break
            logits = model.follow(ids[-1])
        return Draft(torch.stack(ids), tuple(range(ROOT, len(ids) - 1)), "model", tuple(range(len(ids))))

    def _caught_up(self, tokens: Sequence[int], room: Room) -> bool:
        unread = len(tokens) - len(self._model.tokens)
        if unread <= _CATCH_UP:
            return True
        if not room.repays("model", unread):
            return False
        begun = perf_counter()
        for _ in self._model.prefill(tokens[:-1]):
            pass
        settle(self._model.device)
        room.prepared("model", unread, perf_counter() - begun)
        return True

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """Keep the rows of accepted proposals, drop the rest."""
        self._model.settle(tokens[len(self._model.tokens) :], len(verdict.path))
