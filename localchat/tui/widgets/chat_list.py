"""The list of chats: search, open, rename, delete and bring back."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on, work
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from localchat.errors import LocalchatError
from localchat.tui.keymap import keys_of, spelled
from localchat.tui.keys import ACTIONS, bindings
from localchat.tui.listing import LONGEST, around, day, line

if TYPE_CHECKING:
    from localchat.chat.store import Hit, Store

PAGE = 200
"""Chats shown before more are asked for."""
_MORE = "more"
_PAUSE = 0.15
"""Seconds without typing after which a search begins."""
_RESTORE = next(action for action in ACTIONS if action.id == "restore-chat")


def _way_back(app: App[Any]) -> str:
    keys = keys_of(app, _RESTORE)
    return spelled(keys[0]) if keys else f"“{_RESTORE.meaning}” in the command palette"


class ChatList(Vertical):
    """Search on top, then chats grouped by day."""

    HELP: ClassVar[str] = """\
# Chats

**Enter** opens a chat. **Ctrl+E** gives it another name, **Ctrl+D** (or Delete) deletes it and **Ctrl+U** brings the
last deleted one back.

Just type to search in titles and messages; **down** goes to what was found, **Esc** empties the search box.
"""
    BINDINGS: ClassVar[list[BindingType]] = bindings("chat-list")
    DEFAULT_CSS = """
    ChatList {
        width: 28;
        background: $surface;
        & > Input.-textual-compact { padding: 0 1; margin: 0 0 1 0; background: $panel; }
        & > #rename-chat { dock: bottom; margin: 0; }
        OptionList {
            height: 1fr; border: none; padding: 0; background: transparent;
            text-wrap: nowrap; text-overflow: ellipsis; scrollbar-size-vertical: 1;
            & > .option-list--option { padding: 0 1; }
            & > .option-list--option-disabled { color: $text-muted; text-style: bold; }
        }
    }
    """

    class Opened(Message):
        """A chat was chosen, perhaps at one of its messages."""

        def __init__(self, chat_id: int, node_id: int | None = None) -> None:
            super().__init__()
            self.chat_id = chat_id
            self.node_id = node_id

    class Removed(Message):
        """A chat was deleted; it can still be brought back."""

        def __init__(self, chat_id: int) -> None:
            super().__init__()
            self.chat_id = chat_id

    class Renamed(Message):
        """A chat has another title."""

        def __init__(self, chat_id: int, title: str) -> None:
            super().__init__()
            self.chat_id = chat_id
            self.title = title

    def __init__(self, store: Store, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._store = store
        self._current: int | None = None
        self._limit = PAGE
        self._deleted: list[int] = []
        self._renaming: int | None = None
        self._pause: Timer | None = None
        self._answered = ""
        self._open_next = False

    def compose(self) -> ComposeResult:
        """The search box, the list, and the box for a new name."""
        yield Input(placeholder="Search chats", id="search-chats", select_on_focus=False, compact=True)
        yield OptionList(markup=False, compact=True)
        name = Input(placeholder="New name", id="rename-chat", max_length=LONGEST, compact=True)
        name.display = False
        yield name

    @property
    def rows(self) -> OptionList:
        """The list itself."""
        return self.query_one(OptionList)

    @property
    def _search_box(self) -> Input:
        return self.query_one("#search-chats", Input)

    @property
    def _name_box(self) -> Input:
        return self.query_one("#rename-chat", Input)

    def focus_list(self) -> None:
        """The list gets the keys."""
        self.rows.focus()

    def refresh_chats(self, current: int | None) -> None:
        """Show the chats anew; `current` is the one that is open."""
        self._current = current
        if self._search_box.value.strip():
            return
        try:
            chats = self._store.chats(self._limit + 1)
        except LocalchatError as error:
            self._tell(error)
            return
        options: list[Option] = []
        heading, today = "", date.today()
        for chat in chats[: self._limit]:
            if (name := day(chat.updated, today)) != heading:
                heading = name
                options.append(Option(Content(heading), disabled=True))
            options.append(Option(self._row(chat.id, chat.title), id=str(chat.id)))
        if len(chats) > self._limit:
            options.append(Option(Content("… more"), id=_MORE))
        if not options:
            options.append(Option(Content("No chats yet."), disabled=True))
        self._show(options)

    def _row(self, chat: int, title: str) -> Content:
        """A title, marked if it is the chat that is open."""
        text = line(title) or "New chat"
        if chat == self._current:
            return Content.assemble(("▸ ", "$primary"), (text, "bold"))
        return Content(f"  {text}")

    def _show(self, options: list[Option]) -> None:
        """Replace the rows and stay at the chat that was under the cursor, or go to the one that is open."""
        rows = self.rows
        before, place = rows.highlighted_option, rows.highlighted
        wanted = before.id if before is not None else str(self._current)
        rows.set_options(options)
        ids = [option.id for option in options]
        usable = [index for index, option in enumerate(options) if not option.disabled]
        if wanted in ids:
            rows.highlighted = ids.index(wanted)
        elif usable:
            rows.highlighted = min(usable, key=lambda index: abs(index - (place or 0)))

    # -- search

    @on(Input.Changed, "#search-chats")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(_PAUSE, self._look)

    def _look(self) -> None:
        self._open_next = False
        if query := self._search_box.value.strip():
            self._find(query)
        else:
            self._answered = ""
            self.refresh_chats(self._current)

    @work(thread=True, exclusive=True, group="search", exit_on_error=False)
    def _find(self, query: str) -> None:
        """Search beside the screen, so that typing is never held up."""
        try:
            hits = self._store.search(query)
        except LocalchatError as error:
            self.app.call_from_thread(self._tell, error)
            return
        self.app.call_from_thread(self._found, query, hits)

    def _found(self, query: str, hits: list[Hit]) -> None:
        if query != self._search_box.value.strip():  # typed on meanwhile
            return
        self._answered = query
        options: dict[str, Option] = {}  # the list refuses to have a place twice
        order = list(dict.fromkeys(hit.chat for hit in hits))
        seen: set[int] = set()
        for hit in sorted(hits, key=lambda hit: order.index(hit.chat)):
            lines = [] if hit.chat in seen else [self._row(hit.chat, hit.title)]
            seen.add(hit.chat)
            snippet = line(hit.snippet)
            if not snippet.startswith(line(hit.title)):  # the message that the title comes from
                lines.append(Content.styled(f"    {around(snippet, query.split()[0])}", "$text-muted"))
            if lines:
                place = str(hit.chat) if hit.node is None else f"{hit.chat} {hit.node}"
                options[place] = Option(Content("\n").join(lines), id=place)
        self._show(list(options.values()) or [Option(Content("Nothing found."), disabled=True)])
        self.rows.action_first()
        if self._open_next:
            self._open_next = False
            self.rows.action_select()

    @on(Input.Submitted, "#search-chats")
    def _open_first(self, event: Input.Submitted) -> None:
        event.stop()
        query = self._search_box.value.strip()
        if query and query != self._answered:  # what is shown answers another question
            self._open_next = True
            self._find(query)
        elif self.rows.highlighted_option is not None:
            self.rows.action_select()

    def on_key(self, event: events.Key) -> None:
        """Down and up between the boxes and the list; escape leaves a box; what is typed in the list is searched."""
        name, search = self._name_box.has_focus, self._search_box.has_focus
        if event.key == "escape" and name:
            self._stop_renaming()
        elif event.key == "escape" and search and self._search_box.value:
            self._search_box.value = ""
        elif event.key == "down" and search:
            self.rows.focus()
        elif event.key == "up" and self.rows.has_focus and self._at_top():
            self._search_box.focus()
        elif self._is_text(event):
            self._search_box.insert(event.character or "", len(self._search_box.value))
            self.action_search_chats()
        else:
            return
        event.stop()
        event.prevent_default()

    def _is_text(self, event: events.Key) -> bool:
        """Something typed in the list, and no command."""
        return event.is_printable and not event.key.startswith("alt+") and event.key not in self.screen.active_bindings

    def _at_top(self) -> bool:
        first = next((index for index, option in enumerate(self.rows.options) if not option.disabled), None)
        return first is None or self.rows.highlighted in (None, first)

    # -- a chat

    def _chosen(self) -> int | None:
        option = self.rows.highlighted_option
        if option is None or option.id is None or option.id == _MORE:
            return None
        return int(option.id.split(" ")[0])

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option.id == _MORE:
            self._limit += 5 * PAGE
            self.refresh_chats(self._current)
            return
        if event.option.id is not None:
            chat, _, node = event.option.id.partition(" ")
            self.post_message(self.Opened(int(chat), int(node) if node else None))

    def action_search_chats(self) -> None:
        """Go to the search box."""
        self.screen.set_focus(self._search_box)  # at once: `focus` is put off until after keys that wait already

    def action_rename_chat(self) -> None:
        """Ask for another name, at the foot of the list."""
        if (chat := self._chosen()) is None:
            return
        try:
            title = self._store.chat(chat).title
        except LocalchatError as error:
            self._tell(error)
            return
        self._renaming = chat
        self._name_box.display = True
        self._name_box.value = line(title)
        self.screen.set_focus(self._name_box)

    @on(Input.Submitted, "#rename-chat")
    def _renamed(self, event: Input.Submitted) -> None:
        event.stop()
        title = line(event.value)
        if self._renaming is not None and title:
            try:
                self._store.save(replace(self._store.chat(self._renaming), title=title))
                self.post_message(self.Renamed(self._renaming, title))
            except LocalchatError as error:
                self._tell(error)
        self._stop_renaming()
        self._look()

    @on(events.DescendantBlur)
    def _left(self) -> None:
        if self._name_box.display and not self._name_box.has_focus:
            self._renaming = None
            self._name_box.display = False

    def _stop_renaming(self) -> None:
        self.focus_list()
        self._renaming = None
        self._name_box.display = False

    def action_delete_chat(self) -> None:
        """Delete at once; it can be brought back."""
        if (chat := self._chosen()) is None:
            return
        try:
            title = line(self._store.chat(chat).title) or "New chat"
            self._store.delete(chat)
        except LocalchatError as error:
            self._tell(error)
            return
        self._deleted.append(chat)
        self.post_message(self.Removed(chat))
        self._look()
        self.notify(f"Deleted “{title[:40]}”. {_way_back(self.app)} brings it back.", markup=False)

    def action_restore_chat(self) -> None:
        """Bring back what was deleted last."""
        if not self._deleted:
            self.notify("Nothing was deleted since localchat started.")
            return
        try:
            self._store.restore(self._deleted.pop())
        except LocalchatError as error:
            self._tell(error)
        self._look()

    def _tell(self, error: LocalchatError) -> None:
        self.notify(f"{error.message} {error.hint}", severity="warning", markup=False)
