"""Choosing a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from localchat.sanitize import clean

MOST = 300
"""Entries shown of one folder; typing narrows them down."""


class PickFile(ModalScreen[Path | None]):
    """Ends with a path, or None if the user leaves. Type a path, or walk the list."""

    HELP: ClassVar[str] = """\
# Attach a file

Type a path, or a part of a name in this folder. **Up** and **down** move in the list, **Tab** completes, **Enter**
opens a folder or takes a file. `~` is your home folder; hidden files show once you type a dot.

Text in UTF-8 up to 1 MB can be attached. It stands in the message as one label and is sent in full.
"""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]
    DEFAULT_CSS = """
    PickFile {
        align: center middle;
        & > Vertical {
            width: 76; max-width: 96%; height: 20; max-height: 90%; padding: 1 2;
            background: $surface; border: round $border;
        }
        Input.-textual-compact { padding: 0 1; margin: 1 0; background: $panel; }
        Label { width: 1fr; text-style: bold; }
        .hint { color: $text-muted; text-style: none; text-wrap: nowrap; text-overflow: ellipsis; }
        OptionList {
            height: 1fr; border: none; padding: 0; background: transparent;
            text-wrap: nowrap; text-overflow: ellipsis;
            & > .option-list--option { padding: 0 1; }
        }
    }
    """

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self._start = folder or _here()
        self._paths: list[Path] = []

    def compose(self) -> ComposeResult:
        """A path to type, and what there is."""
        with Vertical():
            yield Label("Attach a text file")
            yield Input(_shown(self._start), select_on_focus=False, compact=True)
            yield OptionList(markup=False, compact=True)
            yield Label("Enter chooses, Tab completes, Esc leaves.", classes="hint")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        folder, start = _split(event.value)
        self._paths, more, problem = entries(folder, start)
        rows = [Option(Content(clean(path.name) + ("/" if _is_dir(path) else ""))) for path in self._paths]
        if more:
            rows.append(Option(Content(f"… {more:,} more: type a part of the name"), disabled=True))
        if problem or not rows:
            rows = [Option(Content(problem or "Nothing here has that name."), disabled=True)]
        options = self.query_one(OptionList)
        options.set_options(rows)
        options.highlighted = 0 if self._paths else None

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        path = _home(event.value.strip())
        if event.value.strip() and _is_file(path):
            self.dismiss(path)
        else:
            self._choose(self.query_one(OptionList).highlighted)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self._choose(event.option_index)

    def _choose(self, index: int | None) -> None:
        if index is None or index >= len(self._paths):
            return
        path = self._paths[index]
        if _is_dir(path):
            self._go(path)
        else:
            self.dismiss(path)

    def _go(self, path: Path) -> None:
        if clean(str(path)) != str(path):
            self.notify("This name has characters that cannot be shown; rename it first.", severity="warning")
            return
        field = self.query_one(Input)
        field.value = _shown(path) if _is_dir(path) else str(path)
        field.cursor_position = len(field.value)
        field.focus()

    def on_key(self, event: events.Key) -> None:
        """The arrows move in the list while the path has the focus; Tab completes."""
        options = self.query_one(OptionList)
        if not self.query_one(Input).has_focus:
            return
        if event.key == "down":
            options.action_cursor_down()
        elif event.key == "up":
            options.action_cursor_up()
        elif event.key == "tab" and options.highlighted is not None and options.highlighted < len(self._paths):
            self._go(self._paths[options.highlighted])
        else:
            return
        event.stop()
        event.prevent_default()

    def action_leave(self) -> None:
        """No file."""
        self.dismiss(None)


def entries(folder: Path, start: str) -> tuple[list[Path], int, str]:
    """Paths in a folder whose name begins with or else contains `start`: folders first; how many more; a problem.

    Hidden ones only where `start` begins with a dot.
    """
    wanted = start.casefold()
    found: list[tuple[bool, bool, str]] = []
    try:
        with os.scandir(folder) as scan:
            for entry in scan:
                name = entry.name.casefold()
                if wanted in name and (wanted.startswith(".") or not name.startswith(".")):
                    found.append((not name.startswith(wanted), not entry.is_dir(), entry.name))
    except (OSError, ValueError) as error:
        return [], 0, clean(getattr(error, "strerror", "") or "This folder cannot be read.")
    found.sort(key=lambda item: (item[0], item[1], item[2].casefold()))
    return [folder / name for *_, name in found[:MOST]], max(0, len(found) - MOST), ""


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it was deleted
        return Path.home()


def _shown(folder: Path) -> str:
    """The folder, short: what lies in the user's home begins with ~."""
    home = _home("~")
    inside = home != Path("~") and folder.is_relative_to(home)
    return clean(str(Path("~", folder.relative_to(home)) if inside else folder)).rstrip(os.sep) + os.sep


def _split(text: str) -> tuple[Path, str]:
    """The folder of what is typed, and the beginning of a name in it."""
    head, tail = os.path.split(text)
    return _home(head or "."), tail


def _home(text: str) -> Path:
    """The path, with ~ as the shell has it."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False
