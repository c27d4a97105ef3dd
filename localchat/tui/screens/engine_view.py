"""The chat screen's way to the engine: loading, its end, and the figures that follow it."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from textual.screen import Screen

from localchat.chat.events import Event, Failed, Loaded
from localchat.models.plan import LoadPlan
from localchat.tui.desk import Desk
from localchat.tui.keymap import worded
from localchat.tui.widgets.banner import Banner
from localchat.tui.widgets.title_bar import TitleBar
from localchat.tui.widgets.welcome import Welcome

if TYPE_CHECKING:
    from localchat.tui.widgets.panel import Panel
    from localchat.tui.widgets.status_line import StatusLine
    from localchat.tui.widgets.token_strip import TokenStrip

_WAYS = {
    "engine": "{restart} starts the engine again.",
    "fit": "{settings} opens the settings.",
    "model": "{settings} opens the settings.",
}


class EngineView(Screen[None]):
    """Loads, hears and shows."""

    desk: Desk
    title_bar: TitleBar
    banner: Banner
    welcome: Welcome
    panel: Panel
    status_line: StatusLine
    token_strip: TokenStrip
    completed = False
    """What follows the first frame is there."""

    def load(self, plan: LoadPlan) -> None:
        """Load a plan; the chat can be used meanwhile."""
        self.desk.plan, self.desk.loaded = plan, None
        self.desk.host.run(lambda backend: backend.load(plan), self._loading, self._load_ended)

    def _loading(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self.hear(event)
            if isinstance(event, Loaded):
                self.adopt(event)
                self._tell_notes(event)
            elif isinstance(event, Failed):
                self.told_failure(event)
        self.show_live()

    def _load_ended(self, error: Exception | None) -> None:
        if error is not None:
            self.told_failure(Failed("engine", f"Loading failed: {error}", "The log has the details."))

    def adopt(self, loaded: Loaded) -> None:
        """Something has been loaded, here or on the settings screen."""
        self.desk.loaded, self.desk.plan = loaded, loaded.plan
        self.welcome.told(loaded)
        self.show_live()

    def _tell_notes(self, loaded: Loaded) -> None:
        """The welcome page has them, if it is there."""
        if not self.welcome.display:
            for note in loaded.notes:
                self.notify(note, timeout=10, markup=False)

    def action_restart(self) -> None:
        """Start the engine again."""
        if not self.desk.host.busy:
            self.banner.dismiss()
            self.load(self.desk.plan)

    def watch_engine(self) -> None:
        """Called once a second: an engine that ended by itself is told at once, not at the next question."""
        self.desk.live = self.desk.live.tick(monotonic())
        if self.desk.loaded and not self.desk.host.busy and not self.desk.host.backend.alive:
            self.told_failure(Failed("engine", "The engine has ended by itself.", "The chat is kept."))

    def told_failure(self, failed: Failed) -> None:
        """Say what went wrong and the way on."""
        if failed.kind == "engine":
            self.desk.loaded = None
        way = _WAYS.get(failed.kind) or ("" if self.desk.loaded else _WAYS["model"])
        hint = " ".join(filter(None, (failed.hint, way)))
        self.hear(replace(failed, hint=worded(self.app, hint)))
        self.banner.tell(failed.title, hint, problem=True)
        self.show_live()

    def hear(self, event: Event) -> None:
        """Fold an event into the figures."""
        self.desk.live = self.desk.live.hear(event, monotonic())

    def show_live(self) -> None:
        """Bring every figure on the screen up to date."""
        live = self.desk.live
        self.title_bar.show(live)
        if self.completed:
            self.status_line.show(live)
            self.panel.show(live)
        if self.has_class("-tokens"):
            self.token_strip.show(live)
