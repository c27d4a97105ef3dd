"""Plain decoding: the drafter that proposes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from localchat.engine.types import NO_DRAFT, Draft, Needs, Pick, Room, Tapped, Verdict

if TYPE_CHECKING:
    from localchat.engine.target import Target


class Off:
    """Proposes nothing."""

    needs = Needs()
    priors: Mapping[str, tuple[float, ...]] = {}

    def __init__(self, draft_model: Target | None = None) -> None:
        del draft_model

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """Nothing to prepare."""

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """The empty draft."""
        return NO_DRAFT

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """Nothing to learn."""

    def forget(self) -> None:
        """Nothing to forget."""
