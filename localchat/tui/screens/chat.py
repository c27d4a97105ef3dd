"""The chat: list, transcript, composer, live panel. It shows what `Talk` does and passes on what the user wants."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from localchat.chat.conversation import Role
from localchat.chat.events import Failed, Prefilling, ReplyEvent, Wrote
from localchat.chat.store import Node, StoreError, Totals
from localchat.tui.desk import Desk
from localchat.tui.keys import bindings
from localchat.tui.screens.engine_view import EngineView
from localchat.tui.screens.message_actions import MessageActions
from localchat.tui.talk import Talk
from localchat.tui.widgets.banner import Banner
from localchat.tui.widgets.composer import Composer
from localchat.tui.widgets.title_bar import TitleBar
from localchat.tui.widgets.transcript import PAGE, Transcript
from localchat.tui.widgets.welcome import Welcome

if TYPE_CHECKING:
    from localchat.tui.widgets.chat_list import ChatList
    from localchat.tui.widgets.turn import Turn

NARROW, WIDE = 100, 150
_FAR = 400
"""Messages mounted at most to show one that was searched for."""
_MORE_ROOM = "They stay in the chat; {settings} gives the model a longer context, {new-chat} begins a new chat."


class ChatScreen(EngineView, MessageActions):
    """Implements `talk.View`."""

    HELP: ClassVar[str] = """# Chat

Write below and press `enter`; `ctrl+j` begins a new line. While a reply is written you can go on writing: what you
send waits in line. `escape` stops the reply, and what is there stays.

`F5` (or `alt+a`) switches drafting on and off, even in the middle of a reply. The text does not change; only the speed
does. `alt+v` proves it: the reply is written again the other way and compared.
"""
    BINDINGS: ClassVar[list[BindingType]] = bindings("chat")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW, "-medium"), (WIDE, "-wide")]  # noqa: RUF012 - as textual has it

    def __init__(self, desk: Desk, chat: int | None = None) -> None:
        super().__init__()
        self.desk = desk
        self.talk = Talk(desk, self)
        self.transcript = Transcript(self.talk.version, self.talk.before)
        self.composer = Composer()
        """Where the user writes."""
        self.title_bar, self.banner, self.welcome = TitleBar(), Banner(), Welcome()
        self._first = chat
        self._turn: Turn | None = None
        self._unwritten: list[str] = []
        self._dirty = False
        self._stopping = False
        self._follow = True

    def compose(self) -> ComposeResult:
        """What the first frame needs; the rest follows it."""
        yield self.title_bar
        with Horizontal(id="middle"), Vertical(id="centre"):
            yield self.welcome
            yield self.transcript
            yield self.banner
            yield Static("", id="waiting", markup=False)
            yield self.composer

    async def on_mount(self) -> None:
        """Show what there is first; the model is loaded once it is on the screen."""
        self.composer.focus()
        if self._first is not None:
            with self.telling():
                await self.open_chat(self._first)
        else:
            await self._show_nothing()

    async def complete(self) -> None:
        """Everything else; what does not fit a narrow screen is hidden, not left out."""
        from textual.widgets import Footer

        from localchat.tui.widgets.chat_list import ChatList
        from localchat.tui.widgets.panel import Panel
        from localchat.tui.widgets.status_line import StatusLine
        from localchat.tui.widgets.token_strip import TokenStrip

        self.chat_list, self.panel = ChatList(self.desk.store), Panel()
        self.token_strip, self.status_line = TokenStrip(), StatusLine()
        middle, centre = self.query_one("#middle"), self.query_one("#centre")
        with self.app.batch_update():
            await middle.mount(self.chat_list, before=centre)
            await middle.mount(self.panel)
            await centre.mount(self.token_strip, before="#waiting")
            await centre.mount(self.status_line, before=self.composer)
            await self.mount(Footer(compact=True, show_command_palette=False))
        self.completed = True
        self.show_live()
        self._settle()

    def _settle(self) -> None:
        if not self.completed:
            return
        with self.telling():
            self.chat_list.refresh_chats(self.talk.chat.id if self.talk.chat else None)
            self.composer.set_history(self.desk.store.history())

    # -- a chat

    async def open_chat(self, chat: int, node: int | None = None) -> None:
        """Show a chat; `node` is a message to go to."""
        if self._busy_elsewhere(chat):
            self.composer.focus()
            return
        self.keep_draft(self.composer.value)
        self.editing = None
        self.talk.open(chat)
        with self.telling():
            self.tell_cut_off(self.talk.settle())
        if node is not None:
            self.talk.go_to(node)
        await self.show_branch(node)
        if self.talk.chat:
            self.composer.load_text(self.talk.draft)
        self._settle()
        self.composer.focus()

    def _busy_elsewhere(self, chat: int | None) -> bool:
        if self.writing and (self.talk.chat is None or chat != self.talk.chat.id):
            self.notify("A reply is being written; escape stops it.")
        return self.writing

    async def show_branch(self, at: int | None = None) -> None:
        """Show the branch that the chat is at: its end, or from a message on."""
        chat = self.talk.chat
        nodes = self.talk.shown(max(PAGE, min(self.talk.distance(at), _FAR) + PAGE // 2))
        before = max(0, self.talk.count() - len(nodes))
        self._empty(not nodes)
        await self.transcript.show(nodes, before)
        totals = self.desk.store.totals(chat.id) if chat else Totals(0, 0, 0.0)
        live = self.desk.live.chat(saved_seconds=totals.saved_seconds, tokens=totals.tokens)
        self.desk.live = live.switched(on=self.talk.accelerated)
        self.show_live()
        self._show_context()
        if at is not None:
            self.call_after_refresh(self.transcript.go_to, at)

    def _empty(self, empty: bool) -> None:  # noqa: FBT001
        self.welcome.display = empty
        self.transcript.display = not empty

    async def _show_nothing(self) -> None:
        self.editing = None
        self.talk.new()
        await self.show_branch()
        self.composer.load_text(self.talk.draft)

    async def action_new_chat(self) -> None:
        """Begin a new chat."""
        if self._busy_elsewhere(None):
            return
        self.keep_draft(self.composer.value)
        await self._show_nothing()
        self._settle()
        self.composer.focus()

    async def on_chat_list_opened(self, message: ChatList.Opened) -> None:
        """A chat was chosen."""
        if self.has_class("-narrow"):
            self.remove_class("-chats")
        with self.telling():
            await self.open_chat(message.chat_id, message.node_id)

    def on_chat_list_renamed(self) -> None:
        """A chat has another title."""
        self.talk.reread()

    async def on_chat_list_removed(self, message: ChatList.Removed) -> None:
        """A chat was deleted."""
        if self.talk.chat and self.talk.chat.id == message.chat_id:
            self._stopping = self.talk.stop()
            with self.telling():
                await self._show_nothing()

    # -- writing

    @on(Composer.Changed)
    def _changed(self, _: Composer.Changed) -> None:
        self.keep_draft(self.composer.value)  # not the message's text: another chat may be open by now

    @on(Composer.Submitted)
    async def _submitted(self, message: Composer.Submitted) -> None:
        if self.writing and self.editing is not None:
            self.notify("A reply is being written; escape stops it, then the change can be sent.")
            self.composer.load_text(message.text)
        elif self.writing:
            self.talk.waiting.append(message.text)
            self.show_waiting()
        else:
            editing, self.editing = self.editing, None
            await self._send(message.text, editing)

    async def _send(self, text: str, editing: Node | None = None) -> None:
        self.banner.dismiss()
        try:
            if editing is None:
                self.talk.send(text)
            else:
                node = self.talk.say_instead(editing, text)
                if node.role is Role.ASSISTANT:
                    await self.show_branch()
        except StoreError as error:
            self.banner.tell(f"The message cannot be stored: {error}", f"It is back below. {error.hint}", problem=True)
            self.editing = editing
            self.hand_back(text)
            return
        if editing is not None:
            self.composer.load_text(self.talk.draft)  # what was being written before the change
        self.keep_draft(self.composer.value)

    def load_into_composer(self, node: Node) -> None:
        """Begin to change a message."""
        self.keep_draft(self.composer.value)
        self.editing = node
        self.banner.tell("You change a message: enter makes a new version, escape leaves it as it is.")
        self.composer.load_text(node.text)
        self.composer.focus()

    def began(self, node: Node, start: str) -> None:
        """A reply is asked for."""
        self._stopping, self._turn, self._unwritten = False, None, []
        self.desk.live = self.desk.live.begin(accelerate=self.talk.accelerated, now=monotonic())
        self.show_live()
        self.call_next(self._begin, node, start)

    async def _begin(self, node: Node, start: str) -> None:
        self._empty(False)
        with self.telling():
            await self._show_up_to(node)
        self.transcript.clear_selection()
        turn = await self.transcript.add(node, live=True, follow=self._follow)
        self._follow = True
        turn.begin()
        self._unwritten.insert(0, start)
        self._turn = turn
        self._settle()

    async def _show_up_to(self, node: Node) -> None:
        """Have the messages before a reply on the screen, and none after them."""
        if await self.transcript.cut(node.parent):
            return
        path = self.talk.shown(PAGE)[:-1]
        mounted = {turn.node.id for turn in self.transcript.turns}
        fresh = [said for said in path if said.id not in mounted]
        if len(fresh) == 1 and await self.transcript.cut(fresh[0].parent):
            await self.transcript.add(fresh[0], follow=self._follow)
        elif fresh and fresh[-1] is path[-1]:
            await self.transcript.show(path, max(0, self.talk.count() - 1 - len(path)))

    def heard(self, node: Node, events: tuple[ReplyEvent, ...]) -> None:
        """Some of a reply came; it is painted with the next frame."""
        for event in events:
            self.hear(event)
            if isinstance(event, Wrote):
                self._unwritten.append(event.text)
            elif isinstance(event, Prefilling) and event.cut:
                self.banner.tell(f"The context is full: the oldest {event.cut} messages are left out.", _MORE_ROOM)
        self._dirty = True

    async def paint(self) -> None:
        """One frame: the text and all figures at once, so that the screen is laid out once."""
        if not self._dirty:
            return
        self._dirty = False
        with self.app.batch_update():
            await self._write_out()
            self.show_live()
            self._show_context()

    def _show_context(self) -> None:
        """How much of the context this chat uses, on the composer's frame."""
        if self.talk.writing is not None:
            return
        loaded, used = self.desk.loaded, self.desk.live.context_used or self.talk.context_used()
        total = loaded.plan.context if loaded else 0
        full = total and used >= total * 3 // 4
        words = f"{used:,} of {total:,} tokens" + (" · the oldest are left out soon" if full else "")
        self.composer.border_subtitle = words if used and total else ""

    async def _write_out(self) -> None:
        if self._turn is not None:
            text, self._unwritten = "".join(self._unwritten), []
            self._turn.progress(self._progress())
            await self._turn.write(text)

    def _progress(self) -> str:
        stats = self.desk.live.stats
        prefill = self.desk.live.prefill
        if prefill and prefill.done < prefill.total and not stats.tokens:
            return f"reading {prefill.done} of {prefill.total} tokens"
        state = "stopping · " if self._stopping else ""
        return f"{state}{stats.tokens} tokens · {stats.tokens_per_second:.0f} tok/s · escape stops"

    def ended(self, node: Node | None, failed: Failed | None) -> None:
        """A reply is over."""
        self.ending = True
        self.call_next(self._end, node, failed)

    async def _end(self, node: Node | None, failed: Failed | None) -> None:
        await self._write_out()
        turn, self._turn = self._turn, None
        if turn is not None:
            await self._lay_out(turn, node)
        self.ending = False
        self.desk.live = self.desk.live.over()
        if failed is not None:
            self.told_failure(failed)
        self.show_live()
        self._settle()
        if self.talk.waiting and (failed is not None or self._stopping):
            self.hand_back()
        elif self.talk.waiting:
            self._follow = not self.transcript.left  # nobody asked for this one just now
            await self._send(self.talk.waiting.popleft())
        self.show_waiting()

    async def _lay_out(self, turn: Turn, node: Node | None) -> None:
        if node is not None and turn.is_attached:
            await turn.finish(node, self.talk.version(node))
            return
        await turn.remove()
        last = self.transcript.turns[-1:]
        with self.telling():
            if not last or not self.talk.chat or last[0].node.id != self.talk.chat.leaf:
                await self.show_branch()  # an older version is still there, or its chat was deleted

    # -- keys

    def action_stop(self) -> None:
        """Escape: the nearest thing that can be left."""
        if self.talk.writing is not None:
            self._stopping = True
            self.talk.stop()
            self.desk.live = self.desk.live.stopping()
            if self._turn:
                self._turn.progress("stopping …")
            self.show_live()
        elif self.editing is not None:
            self.editing = None
            self.banner.dismiss()
            self.composer.load_text(self.talk.draft)
        elif not self.talk.stop() and not self.banner.dismiss():
            self.transcript.clear_selection()
            self.remove_class("-chats", "-figures")
            self.composer.focus()

    def question(self) -> str:
        """What a comparison would ask: what is typed, or the last thing that was asked."""
        last = self.transcript.last(Role.USER)
        return self.composer.value.strip() or (last.text if last else "")

    def switch_acceleration(self) -> None:
        """F5."""
        on = not self.talk.accelerated
        with self.telling():
            self.talk.accelerate(on=on)
        self.desk.live = self.desk.live.switched(on=on)
        self.show_live()

    def toggle_tokens(self) -> None:
        """F4."""
        self.toggle_class("-tokens")
        self.show_live()

    def action_chats(self) -> None:
        """Show or hide the list of chats: beside the chat, or in its place where there is no room."""
        self.toggle_class("-chats")
        if self.has_class("-chats"):
            self.chat_list.focus_list()
        else:
            self.composer.focus()

    def action_panel(self) -> None:
        """Show or hide the live panel: beside the chat, or in its place where there is no room."""
        self.toggle_class("-figures")
