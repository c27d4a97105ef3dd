"""The field a message is written in: Enter sends, long pastes fold, and up and down walk what was sent before."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, cast

from rich.text import Text
from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.document._document import EditResult, Location
from textual.document._edit import Edit
from textual.geometry import Size
from textual.widgets import TextArea

from localchat.tui import clipboard
from localchat.tui.attach import plain
from localchat.tui.folds import Folds, long, size

MOST_LINES = 10
_TYPED = frozenset("\u200c\u200d\u3000")
"""Not printable for Python, yet typed: joiners of Persian and of emoji, and the wide space."""
_HUGE = 50_000
"""Characters that are still comfortable to edit here."""


class _Key(Enum):
    ALT_ENTER = "alt+enter"


# Terminals without extended keys send this for alt+enter, which would be read as Enter alone, and send.
cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)["\x1b\r"] = (_Key.ALT_ENTER,)


class TextBox(TextArea):
    """A text area whose long pastes are labels."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"text-box--label"}
    DEFAULT_CSS = """
    TextBox {
        & > .text-box--label { color: $accent; text-style: bold; }
    }
    """

    def __init__(self, enter: Callable[[], None], placeholder: str = "") -> None:
        super().__init__(compact=True, highlight_cursor_line=False, placeholder=placeholder)
        self._enter = enter
        self.folds = Folds()
        self._sent: list[str] = []
        self._place = -1
        self._unsent = ""

    @property
    def value(self) -> str:
        """The text with every label expanded."""
        return self.folds.expand(self.text)

    def put(self, text: str) -> None:
        """Replace everything; undo brings the old text back."""
        self.replace(self._shown(plain(text)), (0, 0), self.document.end, maintain_selection_offset=False)

    def reset(self, text: str = "") -> None:
        """Start over: no undo, no labels, history from its newest."""
        self.folds = Folds()
        self._place = -1
        self.load_text(self._shown(plain(text)))
        self.move_cursor(self.document.end)

    def _shown(self, text: str) -> str:
        return self.folds.add(f"text · {size(text)}", text) if len(text) > _HUGE else text

    def add(self, title: str, text: str) -> None:
        """Insert a label at the cursor."""
        self._insert(self.folds.add(title, text))

    def set_history(self, sent: list[str]) -> None:
        """What up and down walk through, newest first."""
        self._sent = sent
        self._place = -1

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as the text, within reason."""
        most = max(2, min(MOST_LINES, self.app.size.height // 3))
        return max(1, min(most, self.wrapped_document.height))

    def get_line(self, line_index: int) -> Text:
        """A line, its labels marked."""
        line = super().get_line(line_index)
        for start, end in self.folds.spans(line.plain):
            line.stylize(self.get_component_rich_style("text-box--label", partial=True), start, end)
        return line

    def get_cursor_left_location(self) -> Location:
        """To the left, over a label in one step."""
        return self._edge(super().get_cursor_left_location(), 0)

    def get_cursor_right_location(self) -> Location:
        """To the right, over a label in one step."""
        return self._edge(super().get_cursor_right_location(), 1)

    def edit(self, edit: Edit) -> EditResult:
        """An edit that touches a part of a label takes all of it; one within a label comes behind it."""
        top, bottom = edit.top, edit.bottom
        end = self._edge(bottom, 1)
        start = end if top == bottom else self._edge(top, 0)
        return super().edit(Edit(edit.text, start, end, edit.maintain_selection_offset))

    def _edge(self, location: Location, side: int) -> Location:
        row, column = location
        if row >= self.document.line_count:
            return location
        return row, self.folds.around(self.document[row], column)[side]

    def _insert(self, text: str) -> None:
        self.replace(text, *self.selection, maintain_selection_offset=False)

    def paste(self, text: str) -> None:
        """Insert text from outside, as a label if it is long."""
        text = plain(text)
        if long(text):
            self.add(f"pasted {size(text)}", text)
        elif text:
            self._insert(text)

    async def _on_key(self, event: events.Key) -> None:
        key, character = event.key, event.character or ""
        if key == "enter":
            self._enter()  # at once: a message would come after keys that wait already, and send them too
        elif key.endswith("\r"):  # Enter with a modifier, as xterm and tmux send it and textual does not name it
            self._insert("\n")
        elif character in _TYPED:
            self._insert(character)
        elif character and unicodedata.category(character[0]) == "Zs":
            self._insert(" ")
        else:
            if key.startswith("alt+"):  # carries its letter in some terminals, which would be typed
                event.prevent_default()
            return
        self._restart_blink()
        event.stop()
        event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.paste(event.text)

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        """Alt and a letter is a command, not text."""
        return not key.startswith("alt+") and super().check_consume_key(key, character)

    def action_paste(self) -> None:
        """Insert what was copied here."""
        self.paste(self.app.clipboard)

    def action_copy(self) -> None:
        """Copy what is selected, labels expanded."""
        if not self.selected_text:
            return super().action_copy()
        self.notify(clipboard.copy(self.app, self.folds.expand(self.selected_text)))
        return None

    def action_cut(self) -> None:
        """Copy and delete what is selected, or the line."""
        start, end = self.selection
        result = self._delete_cursor_line() if start == end else self._delete_via_keyboard(start, end)
        if result is not None and result.replaced_text:
            self.notify(clipboard.copy(self.app, self.folds.expand(result.replaced_text)))

    def action_cursor_up(self, select: bool = False) -> None:  # noqa: FBT001
        """Up a line; from the first one, to what was sent before."""
        at_top = self.wrapped_document.location_to_offset(self.cursor_location).y == 0
        if select or not at_top or not self._walk(1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:  # noqa: FBT001
        """Down a line; from the last one, to what was sent after."""
        offset = self.wrapped_document.location_to_offset(self.cursor_location)
        if select or offset.y < self.wrapped_document.height - 1 or not self._walk(-1):
            super().action_cursor_down(select)

    def _walk(self, step: int) -> bool:
        """Show an older (1) or newer (-1) message; False if there is none."""
        place = self._place + step
        if not -1 <= place < len(self._sent):
            return False
        if self._place == -1:
            self._unsent = self.text
        self._place = place
        if place == -1:
            self.replace(self._unsent, (0, 0), self.document.end, maintain_selection_offset=False)
        else:
            self.put(self._sent[place])
        if step == 1:
            self.move_cursor((0, len(self.document[0])))
        return True
