"""Writing to the terminal: answers and listings on stdout, all else on stderr, everything cleaned."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from localchat.sanitize import clean, to_json

if TYPE_CHECKING:
    from rich.table import Table

GIB = 2**30


def write(text: str) -> None:
    """Text on stdout as it is, but cleaned, at once."""
    sys.stdout.write(clean(text))
    sys.stdout.flush()


def line(text: str) -> None:
    """One line on stdout."""
    write(f"{text}\n")


def say(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()


def emit(value: object) -> None:
    """One line of JSON on stdout."""
    sys.stdout.write(f"{to_json(value)}\n")
    sys.stdout.flush()


def gib(size: float) -> str:
    """Bytes in words."""
    return f"{size / GIB:.2f} GiB" if size >= GIB / 10 else f"{size / 2**20:.1f} MiB"


def count(parameters: int) -> str:
    """Parameters in words."""
    return f"{parameters / 1e9:.1f} B" if parameters >= 1e9 else f"{parameters / 1e6:.1f} M"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A table on stdout; columns whose name starts with ">" are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid: Table = Table(box=box.SIMPLE_HEAD, header_style="", pad_edge=False)
    if title:
        line(title)
    for name in columns:
        grid.add_column(Text(name.removeprefix(">")), justify="right" if name.startswith(">") else "left")
    for row in rows:
        grid.add_row(*(Text(clean(cell)) for cell in row))
    # Where nobody looks at a screen no line is broken, so that grep finds what it looks for.
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 1000)
    console.print(grid)


class Progress:
    """One line on stderr that is replaced and wiped; nothing where stderr is not a terminal."""

    def __init__(self) -> None:
        self._shown = 0

    def show(self, text: str) -> None:
        """Replace the line."""
        if sys.stderr.isatty():
            text = clean(text).replace("\n", " ")[:78]
            sys.stderr.write(f"\r{text.ljust(self._shown)}")
            sys.stderr.flush()
            self._shown = len(text)

    def clear(self) -> None:
        """Wipe the line."""
        if self._shown:
            sys.stderr.write(f"\r{' ' * self._shown}\r")
            sys.stderr.flush()
            self._shown = 0
