"""A table in a reply."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets._markdown import MarkdownBlock, MarkdownTable, MarkdownTableContent


class Cells(MarkdownTableContent):
    """Without the tooltips, which would be parsed as markup."""

    def compose(self) -> ComposeResult:
        """The cells, headings first."""
        for cell in super().compose():
            cell.tooltip = None
            yield cell


class ReplyTable(MarkdownTable):
    """Grows by rows; a table that loses its last row to what comes after it is made anew."""

    def compose(self) -> ComposeResult:
        """One grid."""
        self._headers, self._rows = self._get_headers_and_rows()
        yield Cells(self._headers, self._rows)

    async def _update_from_block(self, block: MarkdownBlock) -> None:
        if isinstance(block, MarkdownTable) and len(block._get_headers_and_rows()[1]) < max(1, len(self._rows)):
            await MarkdownBlock._update_from_block(self, block)
        else:
            await super()._update_from_block(block)
