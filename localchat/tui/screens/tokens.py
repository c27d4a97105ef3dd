"""A finished reply, token by token, each one explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from localchat.tui import explain
from localchat.tui.figures import MUTED, Line
from localchat.tui.keys import bindings
from localchat.tui.token_text import legend
from localchat.tui.widgets.key_line import KeyLine
from localchat.tui.widgets.lines import Lines
from localchat.tui.widgets.token_view import TokenView

if TYPE_CHECKING:
    from localchat.chat.store import Written


class TokensScreen(Screen[None]):
    """Above the tokens, below what is known of the one under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("tokens")
    CSS = """
    TokensScreen {
        background: $background;
        #reply { height: 2; padding: 0 1; background: $surface; }
        #token { height: 8; padding: 0 1; background: $surface; border-top: hkey $rule; }
    }
    """
    HELP: ClassVar[str] = """\
# Tokens of a reply
Underlined tokens were drafted and accepted, in the colour of their source; slanted ones were copied by lookup. Plain
ones are the target's own. Struck-through ones were drafted and rejected, and the target's correction follows.

The arrows move the cursor. Below stands where its token comes from, what was rejected in its round, why the governor
drafted so much, and what the round took. **margin** is how close the nearest other choice of the round was.
"""

    def __init__(self, written: Written) -> None:
        super().__init__()
        self._written = written
        self._tokens = explain.tokens(written.rounds)

    def compose(self) -> ComposeResult:
        """Figures of the reply, its tokens, and one explained."""
        yield Lines(id="reply")
        yield TokenView(self._tokens)
        yield Lines(id="token")
        yield KeyLine()

    def on_mount(self) -> None:
        """Begin at the first token."""
        self.query_one("#reply", Lines).show_by(self._head)
        self._tell(0)
        self.query_one(TokenView).focus()

    def on_token_view_moved(self, event: TokenView.Moved) -> None:
        """Explain the token under the cursor."""
        self._tell(event.number)

    def action_leave_tokens(self) -> None:
        """Back to the chat."""
        self.dismiss()

    def action_next_rejected(self) -> None:
        """To the next correction."""
        self._go_rejected(range(self._cursor + 1, len(self._tokens)))

    def action_previous_rejected(self) -> None:
        """To the correction before."""
        self._go_rejected(range(self._cursor - 1, -1, -1))

    @property
    def _cursor(self) -> int:
        return self.query_one(TokenView).cursor

    def _go_rejected(self, numbers: range) -> None:
        found = next((number for number in numbers if self._tokens[number].replaces), None)
        if found is not None:
            self.query_one(TokenView).go(found)

    def _head(self, width: int, height: int) -> list[Line]:
        reply = self._written.reply
        sources = tuple(name for name, _ in reply.stats.by_source)
        return [explain.summary(reply, self._written.start, width), legend(sources)]

    def _tell(self, number: int) -> None:
        def lines(width: int, height: int) -> list[Line]:
            if not self._tokens:
                return [(("This reply has no tokens.", MUTED),)]
            return explain.explanation(self._tokens[number], len(self._tokens), width)

        self.query_one("#token", Lines).show_by(lines)
