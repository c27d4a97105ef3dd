"""Both sides of a race, next to each other: they are replayed and scrolled together."""

from __future__ import annotations

from collections.abc import Iterator

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.markup import escape

from localchat.bench.compare import parting
from localchat.bench.comparison import Race
from localchat.bench.runner import OFF
from localchat.tui.figures import plain
from localchat.tui.race import Track
from localchat.tui.widgets.race_pane import RacePane

_ABOUT = (
    "The reply is written here without drafts, then beside it with drafts: one after the other, on the same device, "
    "with the same seed and empty caches.",
    "Both are then replayed side by side at the times that were measured, and their texts are compared, token for "
    "token.",
)


class RacePanes(Horizontal):
    """Plain at the left, accelerated at the right."""

    DEFAULT_CSS = """
    RacePanes { height: 1fr; min-height: 6; }
    RacePanes RacePane { width: 1fr; height: 1fr; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.plain, self.fast = RacePane("plain"), RacePane("accelerated")
        self._race: Race | None = None

    def compose(self) -> ComposeResult:
        """The two."""
        yield from self._both()

    def _both(self) -> Iterator[RacePane]:
        yield from (self.plain, self.fast)

    def explain(self) -> None:
        """Say what will happen here."""
        for pane, text in zip(self._both(), _ABOUT, strict=True):
            pane.say(text)

    def clear(self) -> None:
        """Show nothing."""
        self._race = None
        self.fast.border_subtitle = ""
        for pane in self._both():
            pane.say("")

    def live(self, method: str, text: str, note: str) -> None:
        """Show a reply that is being measured."""
        (self.plain if method == OFF else self.fast).say(text, note)

    def load(self, race: Race) -> None:
        """Get ready to replay."""
        self._race = race
        parts_at = parting(race.plain.text, race.fast.text)
        self.plain.load(Track(race.plain), parts_at)
        self.fast.load(Track(race.fast), parts_at)
        self.fast.border_title = f"accelerated · {escape(plain(race.fast.drafter))}"
        self.fast.border_subtitle = "colour: drafts · bold: target" if race.fast.accepted else ""

    @property
    def seconds(self) -> float:
        """How long the race took."""
        return max(self._race.plain.seconds, self._race.fast.seconds) if self._race else 0.0

    def at(self, seconds: float) -> None:
        """Show the race as it was after so many seconds; at its end, where the texts part."""
        for pane in self._both():
            pane.at(seconds)
            if seconds >= self.seconds:
                pane.go_to_parting()

    @on(RacePane.Scrolled)
    def _scrolled(self, event: RacePane.Scrolled) -> None:
        event.stop()
        for pane in self._both():
            pane.scroll_rows(event.rows)
