"""The foot of a screen that is not the chat: its own keys, and none of those that only work in the chat."""

from __future__ import annotations

from localchat.tui import keymap
from localchat.tui.figures import MUTED, Line, width_of
from localchat.tui.keys import ACTIONS
from localchat.tui.widgets.lines import Lines

_EVERYWHERE = ("help", "commands")
"""The app's actions that work on every screen."""


class KeyLine(Lines):
    """The screen's actions that belong into a foot, and the way to the rest, as many as there is room for."""

    DEFAULT_CSS = "KeyLine { height: 1; background: $footer-background; padding: 0 1; }"

    def draw(self, width: int, height: int) -> list[Line]:
        """One line."""
        shown = {action.name for action in ACTIONS if action.footer}
        pieces: list[tuple[str, str]] = []
        for command in keymap.commands(self.app, self.screen):
            here = command.node is self.screen or command.name in _EVERYWHERE
            if not here or command.name not in shown or not command.keys:
                continue
            piece = [(f" {keymap.spelled(command.keys[0])} ", "bold $accent"), (f"{command.label} ", MUTED)]
            if width_of((*pieces, *piece)) <= width:
                pieces += piece
        return [tuple(pieces)]
