"""The first frame: the chat's outline, while the rest of the program is imported."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Static


class Opening(Screen[None]):
    """Looks like an empty chat; what is typed meanwhile waits for it."""

    DEFAULT_CSS = """
    Opening {
        #name { height: 1; padding: 0 1; background: $surface; color: $primary; text-style: bold; }
        #room { height: 1fr; }
        #line { height: 3; margin: 0 1; padding: 0 1; border: round $border; background: $surface; color: $muted; }
        #foot { height: 1; background: $surface; }
    }
    """

    def compose(self) -> ComposeResult:
        """Name, room, a place to write."""
        yield Static("localchat", id="name")
        yield Static(id="room")
        yield Static("› Write here", id="line")
        yield Static(id="foot")
