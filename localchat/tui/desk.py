"""What every screen works with, in one place: the engine, the store, the settings and what is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from localchat.chat.events import Failed, Loaded, Surveyed, SurveyEvent
from localchat.chat.store import Store
from localchat.config import File, Resolved
from localchat.models.devices import Machine
from localchat.models.plan import LoadPlan
from localchat.tui.host import Host
from localchat.tui.live import Live


@dataclass(slots=True)
class Desk:
    """Handed to each screen by the app; screens never reach into the app for it."""

    host: Host
    store: Store
    file: File
    """The config file as it was read."""
    resolved: Resolved
    """The settings of this run and where each comes from."""
    plan: LoadPlan
    """What is loaded or is being loaded."""
    system: str = ""
    """The system message of new chats."""
    accelerate: bool = True
    """Drafting in new chats."""
    loaded: Loaded | None = None
    """None until something is loaded, and again once the engine has ended."""
    live: Live = field(default_factory=Live)
    """What the panel shows."""

    def survey(self, device: str, found: Callable[[Machine], None], failed: Callable[[Failed], None]) -> None:
        """Ask what a device is and has free; where there is no such device that is told, and the CPU is asked about."""

        def heard(events: tuple[SurveyEvent, ...]) -> None:
            last = events[-1]
            if isinstance(last, Surveyed):
                found(last.machine)
                return
            failed(last)
            if device != "cpu":
                self.survey("cpu", found, failed)

        self.host.run(lambda backend: backend.survey(device), heard)
