"""Every screen over a scripted engine: how it is reached, at a fixed moment and on a fixed machine."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.screen import Screen

from localchat import config
from localchat.chat.conversation import Conversation
from localchat.chat.events import Failed, Loaded
from localchat.chat.store import open_store
from localchat.models.plan import LoadPlan
from localchat.tui import race
from localchat.tui.app import LocalChat, Start
from localchat.tui.desk import Desk
from localchat.tui.host import Host
from localchat.tui.screens.ask_name import AskName
from localchat.tui.screens.chat import ChatScreen
from localchat.tui.screens.chat_options import ChatOptionsScreen
from localchat.tui.screens.compare import CompareScreen
from localchat.tui.screens.comparisons import ComparisonsScreen
from localchat.tui.screens.help import HelpScreen
from localchat.tui.screens.no_room import NoRoom
from localchat.tui.screens.pick_file import PickFile
from localchat.tui.screens.settings import SettingsScreen
from localchat.tui.screens.start import StartScreen
from localchat.tui.screens.tokens import TokensScreen
from localchat.tui.widgets.composer import Composer
from tests.support.shelf import stock_hub
from tests.tui.stage import BIG, CARD, SMALL, Sized
from tests.tui.support import screen_text, started, wait_until

SIZES = ((80, 24), (120, 40), (200, 50))
NOW = 1_790_000_000.0
"""A Monday in September 2026, 14:13 in UTC."""
QUESTION = "How do I add two numbers?"
ANSWER = """Use the **plus** sign:

```python
def add(a, b):
    return a + b
```

- it works for whole numbers,
- and for fractions.
"""


@dataclass
class Card(Sized):
    """A graphics card with a pair on it, which answers whatever is asked."""

    text: str = ANSWER
    failures: list[Failed | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machine = CARD
        self.says = self._answer

    def loaded(self, plan: LoadPlan) -> Loaded:
        """Its memory stays as it was planned."""
        done = super().loaded(plan)
        self.usage = done.usage
        return done

    def _answer(self, conversation: Conversation) -> str:
        asked = conversation.messages[-1].text
        return ANSWER if asked == QUESTION else "The draft guesses a few words, and the target checks them at once. "


@dataclass
class Visit:
    """An app that is open, and how to move in it."""

    app: LocalChat
    pilot: Pilot[Any]

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)

    async def ask(self, text: str) -> None:
        """Send a message."""
        self.app.screen.query_one(Composer).load_text(text)
        await self.press("enter")

    async def at(self, screen: type[Screen[Any]], *words: str) -> None:
        """Wait until a screen is there, and says this.

        Raises:
            AssertionError: it is not; what is there instead.
        """

        def there() -> bool:
            text = screen_text(self.app)
            return isinstance(self.app.screen, screen) and all(word in text for word in words)

        try:
            await wait_until(self.pilot, there, seconds=30)
        except AssertionError:
            raise AssertionError(f"no {screen.__name__} with {words}: {text_of(self.app)}") from None

    async def settle(self) -> None:
        """Wait until nothing changes any more."""
        same, last = 0, ""
        while same < 3:
            await self.pilot.pause(0.05)
            now = screen_text(self.app)
            same = same + 1 if now == last and not self.app.desk.host.busy else 0
            last = now


async def welcome(visit: Visit) -> None:
    """An empty chat."""
    await visit.at(ChatScreen, "is ready")
    await visit.settle()


async def chat(visit: Visit) -> None:
    """A question and its answer."""
    await welcome(visit)
    await visit.ask(QUESTION)
    await visit.at(ChatScreen, "seed 7")


async def strip(visit: Visit) -> None:
    """The chat with its tokens."""
    await chat(visit)
    await visit.press("alt+t")
    await visit.at(ChatScreen, "rejected")


async def chats(visit: Visit) -> None:
    """The list of chats, after two."""
    await chat(visit)
    await visit.press("ctrl+n")
    await visit.ask("Why?")
    await visit.at(ChatScreen, "seed 7")
    if visit.app.size.width < 150:
        await visit.press("alt+o")
    await visit.at(ChatScreen, "Today")


async def panel(visit: Visit) -> None:
    """The live panel, which a narrow screen shows in place of the chat."""
    await chat(visit)
    if visit.app.size.width < 100:
        await visit.press("alt+l")
    await visit.at(ChatScreen, "governor")


async def tokens(visit: Visit) -> None:
    """A reply token by token."""
    await chat(visit)
    await visit.press("alt+w")
    await visit.at(TokensScreen)
    await visit.press("n")
    await visit.at(TokensScreen, "rejected in this round")


async def settings(visit: Visit) -> None:
    """The settings, everything looked up."""
    await welcome(visit)
    await visit.press("alt+s")
    await visit.at(SettingsScreen, "GiB", "Fit for me")
    screen = visit.app.screen
    await wait_until(visit.pilot, lambda: isinstance(screen, SettingsScreen) and not screen.looking, seconds=30)


async def profile(visit: Visit) -> None:
    """A name for a profile."""
    await settings(visit)
    await visit.press("s")
    await visit.at(AskName)


async def no_room(visit: Visit) -> None:
    """A load that ran out of memory."""
    await settings(visit)
    backend = visit.app.desk.host.backend
    assert isinstance(backend, Card)
    backend.failures = [Failed("fit", "The device ran out of memory.", "Close other programs.")]
    await visit.press("right", "enter")
    await visit.at(NoRoom)


async def start(visit: Visit) -> None:
    """The first start of all."""
    await visit.at(StartScreen, "suggested")


async def compare(visit: Visit) -> None:
    """One prompt, raced."""
    await chat(visit)
    await visit.press("alt+c")
    await visit.at(CompareScreen)
    await visit.press("enter")
    await visit.at(CompareScreen, "✓")


async def kinds(visit: Visit) -> None:
    """Six kinds of work."""
    await welcome(visit)
    await visit.press("alt+c")
    await visit.at(CompareScreen)
    await visit.press("alt+k", "ctrl+r")
    await visit.at(CompareScreen, "✓", "the median of 6 kinds")


async def history(visit: Visit) -> None:
    """Earlier comparisons."""
    await compare(visit)
    await visit.press("alt+o")
    await visit.at(ComparisonsScreen, "2026")


async def helped(visit: Visit) -> None:
    """Help for the composer."""
    await welcome(visit)
    await visit.press("alt+h")
    await visit.at(HelpScreen, "Composer")


async def palette(visit: Visit) -> None:
    """The command palette."""
    await welcome(visit)
    await visit.press("ctrl+p")
    await visit.at(CommandPalette, "Begin a new chat.")


async def options(visit: Visit) -> None:
    """What a chat has of its own."""
    await chat(visit)
    await visit.press("alt+m")
    await visit.at(ChatOptionsScreen, "Temperature")


async def attach(visit: Visit) -> None:
    """A file is chosen."""
    Path("notes.md").write_text("A note.\n", encoding="utf-8")
    Path("letters").mkdir()
    await welcome(visit)
    await visit.press("alt+d")
    await visit.at(PickFile, "notes.md")


SCREENS: dict[str, Callable[[Visit], Awaitable[None]]] = {
    "welcome": welcome, "chat": chat, "strip": strip, "chats": chats, "panel": panel, "tokens": tokens,
    "settings": settings, "profile": profile, "no room": no_room, "start": start, "compare": compare, "kinds": kinds,
    "history": history, "help": helped, "palette": palette, "options": options, "attach": attach,
}  # fmt: skip


class Someday(date):
    """Always the same."""

    @classmethod
    def today(cls) -> Someday:
        """That day."""
        return cls.fromtimestamp(NOW)


def still(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """No clock, time zone, folder or machine of whoever runs the tests is on the screen."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("time.time", lambda: NOW)
    monkeypatch.setattr("localchat.tui.widgets.chat_list.date", Someday)
    for module in ("screens.chat", "screens.engine_view", "reload"):
        monkeypatch.setattr(f"localchat.tui.{module}.monotonic", lambda: 100.0)
    monkeypatch.setattr(race, "replay_speed", lambda _: 1000.0)
    monkeypatch.setenv("HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setenv("HOME", str(home))
    (home / "here").mkdir(parents=True)
    monkeypatch.chdir(home / "here")
    stock_hub(home / "hub", BIG, SMALL)


@asynccontextmanager
async def visiting(name: str, size: tuple[int, int], home: Path) -> AsyncIterator[Visit]:
    """An app that shows the screen of that name, at rest."""
    file = config.read(home / "config.toml")
    resolved = config.resolve(file, {}, {"seed": 7})
    desk = Desk(Host(Card()), open_store(home / "chats.db").store, file, resolved, LoadPlan(model=BIG))
    app = started(Start(desk, first=name == "start"))
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        visit = Visit(app, pilot)
        await SCREENS[name](visit)
        await visit.settle()
        app.clear_notifications()
        await visit.settle()
        yield visit


def text_of(app: App[Any]) -> str:
    """The screen with a line above it that says how wide it is."""
    return f"{'─' * app.size.width}\n{screen_text(app)}\n"
