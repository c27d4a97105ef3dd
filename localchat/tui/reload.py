"""One Apply: loads a plan and, if that fails or is stopped, what worked before. All on the screen's thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from localchat.chat.events import Failed, Loaded, LoadEvent, Loading
from localchat.models.plan import LoadPlan
from localchat.tui.desk import Desk
from localchat.tui.host import Job

_TWICE = 1.0
"""Seconds in which a second press is taken for the first."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended."""

    wanted: LoadPlan
    loaded: Loaded | None
    """What is loaded now; None if nothing is."""
    failed: Failed | None
    """Why the wanted plan is not loaded; None if it is."""
    seconds: float

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        if self.failed is None:
            return f"Loaded in {self.seconds:.1f} s."
        if self.failed.kind == "cancelled":
            return "Cancelled. What was loaded before is back." if self.loaded else "Cancelled. Nothing is loaded now."
        after = "What worked before is loaded again." if self.loaded else "Nothing is loaded now."
        return f"{self.failed.title} {after} {self.failed.hint}".strip()


class Reload:
    """Does it, step by step, as the engine reports."""

    def __init__(self, desk: Desk, heard: Callable[[], None], ended: Callable[[Outcome], None]) -> None:
        self._desk, self._heard, self._ended = desk, heard, ended
        self._job: Job[LoadEvent] | None = None
        self._wanted = self._now = desk.plan
        self._before: LoadPlan | None = None
        self._failed: Failed | None = None
        self._last: LoadEvent | None = None
        self._began = 0.0

    @property
    def busy(self) -> bool:
        """Something is being loaded."""
        return self._job is not None

    @property
    def returning(self) -> bool:
        """It is what worked before."""
        return self._failed is not None

    @property
    def step(self) -> Loading:
        """What the engine does just now."""
        return self._last if isinstance(self._last, Loading) else Loading("waiting for the engine")

    @property
    def seconds(self) -> float:
        """Since this load was asked for."""
        return monotonic() - self._began

    def start(self, plan: LoadPlan) -> None:
        """Load a plan; what is loaded now is what to return to."""
        self._before = self._desk.loaded.plan if self._desk.loaded else None
        self._wanted, self._failed = plan, None
        self._load(plan)

    def cancel(self) -> None:
        """Stop loading; a key pressed twice does not stop the way back too."""
        if self._job is not None and not (self.returning and self.seconds < _TWICE):
            self._desk.host.drop(self._job)

    def _load(self, plan: LoadPlan) -> None:
        self._now, self._last, self._began = plan, None, monotonic()
        if self.returning:  # it did fit: that other programs took a little since is no reason to end with nothing
            plan = replace(plan, force=True)
        self._desk.plan, self._desk.loaded = plan, None
        self._job = self._desk.host.run(lambda backend: backend.load(plan), self._hear, self._end)

    def _hear(self, events: tuple[LoadEvent, ...]) -> None:
        for event in events:
            self._desk.live = self._desk.live.hear(event, monotonic())
            self._last = event
        self._heard()

    def _end(self, error: Exception | None) -> None:
        last, dropped = self._last, self._job is not None and self._job.dropped
        self._job = None
        if isinstance(last, Loaded):
            plan = replace(last.plan, force=self._now.force)
            self._desk.plan, self._desk.loaded = plan, replace(last, plan=plan)
            self._ended(Outcome(self._wanted, self._desk.loaded, self._failed, self.seconds))
            return
        failed = last if isinstance(last, Failed) else _silent(error, dropped=dropped)
        if self._before is None or self.returning:
            self._desk.live = self._desk.live.hear(failed, monotonic())
            self._ended(Outcome(self._wanted, None, self._failed or failed, self.seconds))
            return
        self._failed = failed
        self._load(self._before)


def _silent(error: Exception | None, *, dropped: bool) -> Failed:
    """A load that ended without saying how."""
    if dropped:
        return Failed("cancelled", "Loading was cancelled.", "")
    return Failed("engine", f"Loading failed: {error or 'the engine said nothing'}.", "The log has the details.")
