"""How often drafted tokens were right, by source and class: what the governor expects of the next draft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from localchat.engine.sureness import SURE, middle

_MEMORY = 0.97
"""Weight an acceptance observation keeps after each later one."""
_FIRST_WEIGHT = 3.0
"""Observations that an expectation counts as before anything was seen."""
_CARRIED = 3.0
"""Observations that all earlier replies count as."""
_CONFIDENCE = 0.9
"""How much of a network's own confidence to believe before anything was seen."""


@dataclass(slots=True)
class _Estimate:
    """Acceptance of one class: a prior that observations outweigh and later ones outweigh again."""

    accepted: float
    seen: float

    @property
    def rate(self) -> float:
        return self.accepted / self.seen

    def observe(self, hit: bool) -> None:  # noqa: FBT001
        self.accepted = self.accepted * _MEMORY + hit
        self.seen = self.seen * _MEMORY + 1.0


@dataclass(slots=True)
class Acceptance:
    """Moving averages, kept over many replies."""

    _rates: dict[tuple[str, int], _Estimate] = field(default_factory=dict)
    _priors: dict[str, tuple[float, ...]] = field(default_factory=dict)
    _known: dict[tuple[str, int], float] = field(default_factory=dict)
    """Rates worked out since the last observation."""

    def trust(self, priors: Mapping[str, tuple[float, ...]]) -> None:
        """Acceptance to expect of each class of a source before anything was seen."""
        self._priors.update(priors)
        self._known.clear()

    def begin_reply(self) -> None:
        """Texts differ more than rounds of one text do: what was seen before counts as a few observations, and each
        rate is drawn back a little to what was expected at first, so that what once did badly is tried again.
        """
        for (source, kind), estimate in self._rates.items():
            rate = (3 * estimate.rate + self._prior(source, kind)) / 4
            estimate.seen = min(estimate.seen, _CARRIED)
            estimate.accepted = rate * estimate.seen
        self._known.clear()

    def _listed(self, source: str) -> tuple[float, ...]:
        return self._priors.get(source) or (0.7,)

    def _prior(self, source: str, kind: int) -> float:
        if kind >= SURE:
            return _CONFIDENCE * middle(kind)
        priors = self._listed(source)
        return priors[min(kind, len(priors) - 1)]

    def rate(self, source: str, kind: int) -> float:
        """Acceptance to expect."""
        rate = self._known.get((source, kind))
        if rate is None:
            rate = self._known[(source, kind)] = self._expected(source, kind)
        return rate

    def _expected(self, source: str, kind: int) -> float:
        """A class past the listed ones is as good as the last one known before it."""
        found = self._rates.get((source, kind))
        if found is None and kind < SURE:
            last = len(self._listed(source)) - 1
            while found is None and kind > last:
                kind -= 1
                found = self._rates.get((source, kind))
        return found.rate if found else self._prior(source, kind)

    def observe(self, source: str, kind: int, hit: bool) -> None:  # noqa: FBT001
        """A token of this class was put to the test."""
        if (source, kind) not in self._rates:
            self._rates[(source, kind)] = _Estimate(_FIRST_WEIGHT * self.rate(source, kind), _FIRST_WEIGHT)
        self._rates[(source, kind)].observe(hit)
        self._known.clear()
