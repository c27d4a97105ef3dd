"""Lookup or what else there is to draft with, round by round, whichever is expected to give more tokens per second."""

from __future__ import annotations

from collections.abc import Sequence

from localchat.engine.drafters import Parts, build
from localchat.engine.types import NO_DRAFT, Draft, Pick, Room, Tapped, Verdict


class Mixed:
    """Sources that compete; the next one gets the round if the first has nothing to say."""

    def __init__(self, parts: Parts) -> None:
        names = [parts.head.config.kind] if parts.head else ["model"] if parts.draft else []
        self._drafters = [build(name, parts) for name in ("lookup", *names)]
        self.needs = self._drafters[-1].needs
        self.priors = {source: rates for one in self._drafters for source, rates in one.priors.items()}

    @property
    def cache_bytes(self) -> int:
        """Allocated by all together."""
        return sum(drafter.cache_bytes for drafter in self._drafters)

    def forget(self) -> None:
        """Drop what earlier replies taught."""
        for drafter in self._drafters:
            drafter.forget()

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """A reply begins."""
        for drafter in self._drafters:
            drafter.start(tokens, tapped)

    def value(self, room: Room) -> float:
        """Expected tokens per second of the best source."""
        return max(drafter.value(room) for drafter in self._drafters)

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """Ask the source of the highest expected value first."""
        for drafter in sorted(self._drafters, key=lambda one: -one.value(room)):
            if draft := drafter.propose(tokens, pick, room):
                return draft
        return NO_DRAFT

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """All keep up with the reply."""
        for drafter in self._drafters:
            drafter.learn(tokens, verdict, tapped)
