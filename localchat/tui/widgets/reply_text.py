"""A reply's Markdown, its code in the theme's colours."""

from __future__ import annotations

from textual.widgets import Markdown

from localchat.tui.syntax import Fence


class ReplyText(Markdown):
    """Links are text: nothing a model writes opens a program."""

    BLOCKS = {**Markdown.BLOCKS, "fence": Fence, "code_block": Fence}  # noqa: RUF012 - as textual has it

    def __init__(self) -> None:
        super().__init__("", open_links=False, classes="body")
