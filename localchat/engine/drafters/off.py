"""Plain decoding: the drafter that proposes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localchat.engine.drafters import Parts
from localchat.engine.types import NO_DRAFT, Draft, Needs, Pick, Room, Tapped, Verdict


class Off:
    """Proposes nothing."""

    needs = Needs()
    priors: Mapping[str, tuple[float, ...]] = {}

    def __init__(self, parts: Parts | None = None) -> None:
        del parts

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """Nothing to prepare."""

    def value(self, room: Room) -> float:
        """It adds nothing."""
        return 0.0

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """The empty draft."""
        return NO_DRAFT

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """Nothing to learn."""

    @property
    def cache_bytes(self) -> int:
        """It has no cache."""
        return 0

    def forget(self) -> None:
        """Nothing to forget."""
