"""Lookup or draft model, round by round, whichever is expected to give more tokens per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from localchat.engine.drafters.lookup import Lookup
from localchat.engine.drafters.model import ModelDrafter
from localchat.engine.types import Draft, Needs, Pick, Room, Tapped, Verdict

if TYPE_CHECKING:
    from localchat.engine.target import Target


class Mixed:
    """Two sources that compete; the other one gets the round if the first has nothing to say."""

    needs = Needs()
    priors: Mapping[str, tuple[float, ...]] = {**Lookup.priors, **ModelDrafter.priors}

    def __init__(self, draft_model: Target | None) -> None:
        self._lookup, self._model = Lookup(), ModelDrafter(draft_model)

    def forget(self) -> None:
        """Drop what earlier replies taught."""
        self._lookup.forget()

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """A reply begins."""
        self._lookup.start(tokens, tapped)
        self._model.start(tokens, tapped)

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """Ask the source of higher expected value first."""
        looks_up = self._lookup.value(room) >= self._model.value(room)
        first, second = (self._lookup, self._model) if looks_up else (self._model, self._lookup)
        return first.propose(tokens, pick, room) or second.propose(tokens, pick, room)

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """Both keep up with the reply."""
        self._lookup.learn(tokens, verdict, tapped)
        self._model.learn(tokens, verdict, tapped)
