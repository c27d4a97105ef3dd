"""The application: what is true on every screen. Screens other than the chat are imported when they are opened."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.actions import ActionParseResult
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.dom import DOMNode
from textual.filter import LineFilter
from textual.screen import Screen

from localchat.errors import LocalchatError
from localchat.tui import theme
from localchat.tui.gate import Gate
from localchat.tui.keymap import OFF, apply, spelled
from localchat.tui.keys import bindings
from localchat.tui.screens.opening import Opening

if TYPE_CHECKING:
    from localchat.models.plan import LoadPlan
    from localchat.tui.desk import Desk
    from localchat.tui.screens.chat import ChatScreen

_ALIVE = 1.0
"""Seconds between two looks at whether the engine still runs."""
_GARBAGE = (10_000, 20, 20)
"""When garbage is looked for: at Python's own thresholds a look at everything took up to 56 ms of a frame."""
_TWICE = 2.0
"""Seconds within which a second ctrl+c quits."""


def _everything() -> type[Provider]:
    from localchat.tui.commands import Everything

    return Everything


@dataclass(frozen=True, slots=True)
class Start:
    """What a run begins with."""

    desk: Desk
    chat: int | None = None
    """A chat to open at once."""
    first: bool = False
    """Nothing was ever chosen: begin with the start page."""
    notices: tuple[str, ...] = ()
    """Sentences to show once."""


class LocalChat(App[LocalchatError]):
    """`localchat`. Ends with what kept it from starting, if something did."""

    TITLE = "localchat"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["look.tcss", "localchat.tcss"]
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_everything}
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = ""
    PAUSE_GC_ON_SCROLL = True
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    desk: Desk
    _chat: ChatScreen

    def __init__(self, prepare: Callable[[], Start], look: str) -> None:
        """The screen of one run.

        Args:
            prepare: called once the first frame is painted; takes as long as the rest of the program does to import.
            look: name of the theme.
        """
        super().__init__()
        self._prepare = prepare
        self._notices = theme.register_all(self, look)
        self._interrupted = -_TWICE
        self._gate = Gate()
        self._entered = False

    def on_mount(self) -> None:
        """The first frame; whatever takes time comes after it."""
        self._catch_signals()
        self.push_screen(Opening())
        self.call_after_refresh(self._begin)

    @work
    async def _begin(self) -> None:
        from localchat.tui.host import FRAME
        from localchat.tui.screens.chat import ChatScreen

        try:
            start = self._prepare()
        except LocalchatError as error:
            self.exit(error)
            return
        self.desk, self._chat = start.desk, ChatScreen(start.desk, start.chat)
        await self.switch_screen(self._chat)
        await self._chat.complete()
        self._entered = True
        gc.enable()
        gc.freeze()
        gc.set_threshold(*_GARBAGE)
        self.set_interval(FRAME, self._frame)
        self.set_interval(_ALIVE, self._look)
        theme.watch(self)
        for notice in (*start.notices, *self._notices, *apply(self, self.desk.file)):
            self.notify(notice, severity="warning", timeout=10, markup=False)
        if start.first:
            self._start()
        else:
            self._chat.load(self.desk.plan)

    def _look(self) -> None:
        if self._chat.composer.is_attached:  # timers outlive the widgets when the app ends
            self._chat.watch_engine()
            self._chat.watch_store()

    async def _frame(self) -> None:
        if not self._chat.composer.is_attached:
            return
        self.desk.host.drain()
        await self._chat.paint()
        box = self._chat.composer.box
        if box.has_focus:  # it moves without a key, and input methods write where the terminal's own cursor is
            self.cursor_position = box.cursor_screen_offset

    @work
    async def _start(self) -> None:
        from localchat.tui.screens.start import StartScreen

        plan = await self.push_screen_wait(StartScreen(self.desk))
        self._chat.load(plan or self.desk.plan)

    def _catch_signals(self) -> None:
        """The end of the session or of the terminal is no crash: everything is saved and the engine goes too."""
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            if number := getattr(signal, name, None):
                with suppress(NotImplementedError):  # Windows
                    loop.add_signal_handler(number, self.exit)

    def _watch_app_focus(self, focus: bool) -> None:  # noqa: FBT001 - as textual has it
        """Another window is used, or this one again. Nothing looks otherwise, so the transcript is not styled anew."""
        screen, left = self.screen, self._last_focused_on_app_blur
        if not focus:
            self._last_focused_on_app_blur = screen.focused
            screen.set_focus(None)
        elif left is not None and left in screen.focus_chain and screen.focused is None:
            screen.set_focus(left, scroll_visible=False, from_app_focus=True)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Whatever a key does: where the store fails it is said, and the key can be pressed again."""
        from localchat.chat.records import StoreError

        if not self._entered:
            return False
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except StoreError as error:
            self._chat.tell_store(error)
            return True

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Nothing reaches the terminal but by the gate."""
        return (*super().get_line_filters(), self._gate)

    def get_key_display(self, binding: Binding) -> str:
        """Keys as people write them, short enough for the foot of a narrow screen."""
        return "" if binding.key == OFF else spelled(binding.key).replace("Ctrl+", "^")

    def action_help(self) -> None:
        """Help for what has the focus."""
        from localchat.tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen.of(self))

    def action_commands(self) -> None:
        """The command palette."""
        self.action_command_palette()

    @work
    async def action_settings(self) -> None:
        """The settings screen."""
        from localchat.tui.screens.settings import SettingsScreen

        if self._on_chat("settings"):
            await self._visit(SettingsScreen(self.desk))
            if self.desk.loaded is not None:
                self._chat.adopt(self.desk.loaded)
            self._chat.show_live()

    @work
    async def action_compare(self) -> None:
        """The comparison."""
        from localchat.tui.screens.compare import CompareScreen

        if self._on_chat("the comparison"):
            await self._visit(CompareScreen(self.desk, self._chat.question()))

    async def _visit(self, screen: Screen[LoadPlan | None] | Screen[None]) -> None:
        await self.push_screen_wait(screen)

    def _on_chat(self, what: str) -> bool:
        """The engine does one thing at a time, and screens open from the chat."""
        if self.screen is not self._chat:
            return False
        if self._chat.writing:
            self.notify(f"A reply is being written; escape stops it, then {what} can open.")
            return False
        return True

    def action_tokens(self) -> None:
        """Show or hide the tokens."""
        if self.screen is self._chat:
            self._chat.toggle_tokens()

    def action_accelerate(self) -> None:
        """Switch drafting."""
        if self.screen is self._chat:
            self._chat.switch_acceleration()

    def action_suspend(self) -> None:
        """Into the background."""
        self.action_suspend_process()

    def action_help_quit(self) -> None:
        """Ctrl+c: once may be a slip, twice is meant."""
        if monotonic() - self._interrupted < _TWICE:
            self.exit()
            return
        self._interrupted = monotonic()
        if self._chat.talk.writing is not None:
            self._chat.action_stop()
        self.notify("Press ctrl+c again to leave.", timeout=_TWICE)

    async def on_unmount(self) -> None:
        """Save what is on the way and give the memory back."""
        if not self._entered:
            return
        steps: tuple[Callable[[], None], ...] = (self._chat.close, self.desk.host.close, self.desk.store.close)
        for step in steps:
            await asyncio.to_thread(step)
