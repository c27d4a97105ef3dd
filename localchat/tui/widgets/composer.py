"""Where messages are written."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static, TextArea

from localchat.errors import UsageError
from localchat.tui import attach
from localchat.tui.keys import bindings
from localchat.tui.widgets.text_box import TextBox

_PAUSE = 0.5
"""Seconds without typing after which the draft is announced."""
_HINT = "Write here · Ctrl+J: new line"


class Composer(Horizontal):
    """A field that grows with its text; Enter sends."""

    HELP: ClassVar[str] = """\
# Composer

Write here; **Enter** sends, **Ctrl+J** (also Shift+Enter or Alt+Enter) begins a new line.

- **Up** in the first line and **down** in the last walk through what you sent before.
- A long paste stands as one label, such as `[pasted 240 lines]`. It is sent in full; Backspace deletes it as one.
- **Ctrl+G** opens the message in your editor (`$VISUAL` or `$EDITOR`).
- **Ctrl+T** attaches a text file (up to 1 MB).
- **Ctrl+_** or **Alt+U** takes a change back. What you have not sent is kept with the chat.
"""
    BINDINGS = bindings("composer")
    DEFAULT_CSS = """
    Composer {
        height: auto;
        background: $surface;
        border: round $border-blurred;
        padding: 0 1 0 0;
        &:focus-within { border: round $border; }
        #prompt-sign { width: 3; height: 1; padding: 0 1; color: $primary; text-style: bold; }
        TextBox {
            width: 1fr; height: auto; padding: 0; background: transparent;
            scrollbar-size-vertical: 1;
        }
    }
    """

    class Submitted(Message):
        """The user sends a message."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Changed(Message):
        """The unsent text is another one; said once typing pauses."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.box = TextBox(self.send, placeholder=_HINT)
        self._pause: Timer | None = None

    def compose(self) -> ComposeResult:
        """The sign and the field."""
        yield Static("›", id="prompt-sign", markup=False)
        yield self.box

    @property
    def value(self) -> str:
        """The text as it would be sent: labels expanded, blank lines at the ends left out."""
        return self.box.value.strip("\n").rstrip()

    def load_text(self, text: str) -> None:
        """Put a draft or an old message here instead of what stands here."""
        self.box.reset(text)

    def set_history(self, sent: list[str]) -> None:
        """What the user sent, newest first."""
        self.box.set_history(sent)

    def focus(self, scroll_visible: bool = True) -> Composer:  # noqa: FBT001
        """The field gets the keys: at once where it can be, for keys may wait already."""
        if self.box.is_mounted:
            self.screen.set_focus(self.box, scroll_visible)
        if not self.box.has_focus:
            self.box.focus(scroll_visible)
        return self

    def attach(self, path: Path) -> None:
        """Add a text file at the cursor, or say in one sentence why not."""
        try:
            attached = attach.read(path)
        except UsageError as error:
            self.notify(f"{error.message} {error.hint}", severity="warning", markup=False)
            return
        self.box.add(attached.title, attached.text)

    def send(self) -> None:
        """What Enter does; blank text is kept and not sent."""
        text = self.value
        if not text.strip():
            return
        self.box.reset()
        self.post_message(self.Submitted(text))
        self._announce()

    @on(TextArea.Changed)
    def _edited(self, event: TextArea.Changed) -> None:
        event.stop()
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(_PAUSE, self._announce)

    def _announce(self) -> None:
        if self._pause is not None:
            self._pause.stop()
            self._pause = None
        self.post_message(self.Changed(self.value))

    def action_newline(self) -> None:
        """Begin a new line."""
        self.box.paste("\n")

    def action_undo(self) -> None:
        """Take the last change back."""
        self.box.undo()

    def action_redo(self) -> None:
        """Make the change again."""
        self.box.redo()

    def action_attach(self) -> None:
        """Choose a file to attach."""
        from localchat.tui.screens.pick_file import PickFile

        def picked(path: Path | None) -> None:
            if path is not None:
                self.attach(path)
            self.focus()

        self.app.push_screen(PickFile(), picked)

    def action_editor(self) -> None:
        """Write in the user's editor."""
        from localchat.tui import editor

        before = self.value
        try:
            after = editor.edit(self.app, before)
        except UsageError as error:
            self.notify(f"{error.message} {error.hint}", severity="warning", markup=False)
            return
        if after != before:
            self.box.put(after)
