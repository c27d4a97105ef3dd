"""The conversation: the last messages are mounted, earlier ones when they are scrolled to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.css.query import NoMatches
from textual.widgets import Static

from localchat.chat.conversation import Role
from localchat.chat.store import Node

if TYPE_CHECKING:
    from localchat.tui.widgets.turn import Turn

PAGE = 20
"""Messages mounted at once."""
_MOST = 3 * PAGE
"""More than this and the oldest are taken off while the bottom is in view."""


class Transcript(VerticalScroll):
    """Turns, one of which may be selected."""

    def __init__(self, version: Callable[[Node], tuple[int, int]], earlier: Callable[[Node, int], list[Node]]) -> None:
        """An empty transcript.

        Args:
            version: place and number of a message's versions.
            earlier: the n messages before one.
        """
        super().__init__()
        self._version = version
        self._earlier = earlier
        self._before = 0
        self._paging = False
        # As high as the view at least: an anchored view would push a short conversation to the bottom.
        self._turns = Vertical(classes="turns")

    def compose(self) -> ComposeResult:
        """What the turns are mounted in."""
        yield self._turns

    @property
    def turns(self) -> list[Turn]:
        """What is mounted, in order."""
        return cast("list[Turn]", list(self._turns.query_children("Turn")))

    @property
    def selected(self) -> Turn | None:
        """The selected message."""
        return next((turn for turn in self.turns if turn.has_class("-selected")), None)

    def last(self, role: Role) -> Turn | None:
        """The last message of a role."""
        return next((turn for turn in reversed(self.turns) if turn.node.role is role), None)

    def turn(self, node: int) -> Turn | None:
        """The mounted message with that id."""
        return next((turn for turn in self.turns if turn.node.id == node), None)

    async def show(self, nodes: Sequence[Node], before: int) -> None:
        """Replace everything; `before` messages of the branch are not among the nodes."""
        self._before = before
        async with self.batch():
            await self._turns.remove_children()
            await self._turns.mount_all([self._more(), *map(self._made, nodes)])
        self.anchor()

    def _made(self, node: Node, *, live: bool = False) -> Turn:
        from localchat.tui.widgets.turn import Turn  # with Markdown and its colours: not for the first frame

        return Turn(node, self._version(node), live=live)

    def _more(self) -> Static:
        line = f"↑ {self._before} earlier messages" if self._before else ""
        more = Static(line, markup=False, classes="earlier")
        more.display = bool(line)
        return more

    @property
    def left(self) -> bool:
        """The reader has scrolled away from the end."""
        return self._anchored and self._anchor_released

    async def add(self, node: Node, *, live: bool = False, follow: bool = True) -> Turn:
        """A new message at the end; `follow` takes the reader there."""
        turn = self._made(node, live=live)
        await self._turns.mount(turn)
        if not follow:
            return turn
        self.anchor()
        turns = self.turns
        if len(turns) > _MOST:
            gone = turns[: len(turns) - PAGE]
            self._before += len(gone)
            await self._turns.remove_children(gone)
            self._refresh_more()
        return turn

    async def cut(self, after: int | None) -> bool:
        """Take off everything below a message (all of it for None); False if that message is not mounted."""
        turns = self.turns
        places = [place for place, turn in enumerate(turns) if turn.node.id == after]
        if not places and (after is not None or self._before):
            return False
        await self._turns.remove_children(turns[places[0] + 1 :] if places else turns)
        return True

    def _refresh_more(self) -> None:
        try:
            more = self.query_one(".earlier", Static)
        except NoMatches:
            return
        more.update(f"↑ {self._before} earlier messages")
        more.display = self._before > 0

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """At the top the messages before are fetched."""
        super().watch_scroll_y(old_value, new_value)
        if self._before and not self._paging and new_value < 1 and self.max_scroll_y > 0 and new_value < old_value:
            self._paging = True
            self.call_next(self.page)

    async def page(self) -> None:
        """Mount the messages before the first; what is in view stays in view."""
        self._paging = True
        try:
            turns = self.turns
            count = min(PAGE, self._before)
            if not count:
                return
            nodes = self._earlier(turns[0].node, count)
            below = self.max_scroll_y - self.scroll_y
            self._before -= len(nodes)
            async with self.batch():
                await self._turns.mount_all(list(map(self._made, nodes)), after=0)
            self._refresh_more()
            self.call_after_refresh(lambda: self.scroll_to(y=self.max_scroll_y - below, animate=False))
        finally:
            self.call_after_refresh(self._paged)

    def _paged(self) -> None:
        self._paging = False

    def go_to(self, node: int) -> None:
        """Select a message and bring it into view."""
        turn = self.turn(node)
        if turn is not None:
            self.clear_selection()
            turn.add_class("-selected")
            self.release_anchor()
            self.scroll_to_widget(turn, animate=False)

    async def select(self, step: int) -> None:
        """Move the selection; from nothing it begins at the last message, and past it ends."""
        turns, now = self.turns, self.selected
        place = turns.index(now) + step if now in turns else len(turns) + min(step, 0)
        if place < 0 and self._before:
            await self.page()
            await self.select(step)
            return
        self.clear_selection()
        if 0 <= place < len(turns):
            turns[place].add_class("-selected")
            self.release_anchor()
            self.scroll_to_widget(turns[place], animate=False)
        elif place >= len(turns):
            self.anchor()

    def clear_selection(self) -> None:
        """Nothing is selected."""
        for turn in self.turns:
            turn.remove_class("-selected")
