"""A reply's Markdown, its code in the theme's colours."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from textual import on
from textual.await_complete import AwaitComplete
from textual.layout import Layout
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownBlock

from localchat.sanitize import clean
from localchat.tui.markup import MOST_TOKENS, Reader
from localchat.tui.syntax import Fence
from localchat.tui.widgets.reply_table import ReplyTable


class ReplyText(Markdown):
    """Links are text: nothing a model writes opens a program. A click on one copies its address and shows it."""

    BLOCKS = {  # noqa: RUF012 - as textual has it
        **Markdown.BLOCKS,
        "fence": Fence,
        "code_block": Fence,
        "table_open": ReplyTable,
    }

    def __init__(self) -> None:
        super().__init__("", parser_factory=lambda: self._reader, open_links=False, classes="body")

    @cached_property
    def _reader(self) -> Reader:
        return Reader()

    def pre_layout(self, layout: Layout) -> None:
        """The stream layout overlooks a block of which only a part has changed: a code block that grew would be cut."""
        changed = self.screen._layout_widgets
        changed.get(self, set()).update(block for block in self.children if block in changed)

    def update(self, markdown: str) -> AwaitComplete:
        """Show this text instead."""
        self._reader.room = MOST_TOKENS
        return super().update(markdown)

    def append(self, markdown: str) -> AwaitComplete:
        """Show more text; what is there already takes of the room."""
        self._reader.room = MOST_TOKENS - 3 * sum(1 for _ in self.walk_children())  # at most three tokens a widget
        return super().append(markdown)

    def torn(self) -> bool:
        """What was appended bit by bit stands here otherwise than the whole text would."""
        self._reader.room = MOST_TOKENS
        found: dict[str, Any] = {}
        tokens = self._reader.parse(self.source, found)
        if "references" in found or any(token.type == "table_open" for token in tokens):
            return True  # what came before them was laid out without them
        whole = [token.type for token in tokens if token.level == 0 and token.nesting >= 0]
        return whole != [child._token.type for child in self.children if isinstance(child, MarkdownBlock)]

    @on(Markdown.LinkClicked)
    def _clicked(self, event: Markdown.LinkClicked) -> None:
        from localchat.tui import clipboard

        event.stop()
        address = clean(event.href)
        shown = f"{address[:200]}…" if len(address) > 200 else address
        self.notify(f"{shown}\n{clipboard.copy(self.app, address)}", title="A link's address", markup=False)
