"""A small model of the same family drafts, picking with the target's own noise.

Its cache lags behind by a token or two; what it lacks is read together with the first step of the next draft.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localchat.engine.drafters import Parts
from localchat.engine.drafters.growth import NOTHING, caught_up, grow, worth
from localchat.engine.types import NO_DRAFT, Draft, Needs, Pick, Room, Tapped, Verdict


class ModelDrafter:
    """Grows a draft, one forward of the draft model per level."""

    needs = Needs()
    priors: Mapping[str, tuple[float, ...]] = {"model": (0.75,)}

    def __init__(self, parts: Parts) -> None:
        if parts.draft is None:
            raise ValueError("this drafter needs a draft model")
        self._model = parts.draft
        self._grown = NOTHING

    @property
    def cache_bytes(self) -> int:
        """The cache is the draft model's."""
        return 0

    def forget(self) -> None:
        """The draft model learns nothing from replies."""

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """Keep what the cache shares with the prompt; reading the rest waits until it pays."""
        self._grown = NOTHING
        self._model.reuse(tokens[:-1])

    def value(self, room: Room) -> float:
        """Expected tokens per second if this round drafts."""
        return worth("model", room)

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """Draft what pays, once the prompt is read."""
        most = min(room.limit, self._model.context - len(tokens))
        unread = len(tokens) - len(self._model.tokens)
        if most <= 0 or not caught_up("model", unread, room, self._model.device, lambda: self._read(tokens)):
            return NO_DRAFT
        self._grown = grow("model", self._model, tokens, pick, room, most)
        return self._grown.draft

    def _read(self, tokens: Sequence[int]) -> None:
        for _ in self._model.prefill(tokens[:-1]):
            pass

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """Keep the rows of accepted proposals, drop the rest."""
        rows = self._grown.kept(verdict.path)
        self._model.settle(rows, tokens[len(self._model.tokens) :][: len(rows)])
        self._grown = NOTHING
