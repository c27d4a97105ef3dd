"""Makes the pictures of screenshots/ from a real run of the built-in pair: `python -m tests.tui.screenshots`."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from localchat import config
from localchat.chat.store import open_store
from localchat.models.plan import LoadPlan
from localchat.tui.app import LocalChat, Start
from localchat.tui.desk import Desk
from localchat.tui.host import Host
from localchat.tui.screens.chat import ChatScreen
from localchat.tui.screens.compare import CompareScreen
from localchat.tui.screens.settings import SettingsScreen
from localchat.tui.screens.tokens import TokensScreen
from localchat.tui.widgets.composer import Composer
from localchat.worker.client import Worker
from tests.support.shelf import stock_hub
from tests.tui.picture import svg
from tests.tui.support import screen_text, started, wait_until

SIZE = (120, 40)
THEMES = ("dark", "light")
FOLDER = Path(__file__).parents[2] / "screenshots"
QUESTIONS = (
    "What is speculative decoding?",
    "How do I use my own model?",
    "What does the acceptance rate tell me?",
)
PATIENCE = 300.0
"""Seconds that a step may take on a slow machine."""


class Tour:
    """Goes through the app and takes pictures."""

    def __init__(self, app: LocalChat, pilot: Pilot[Any], folder: Path) -> None:
        self.app, self.pilot, self.folder = app, pilot, folder

    async def take(self, name: str, *keys: str) -> None:
        """A picture of what is there, or of what the keys open, in each theme."""
        for theme in THEMES:
            self.app.clear_notifications()
            self.app.theme = theme
            await self.pilot.pause(0.5)
            await self.pilot.press(*keys)
            await self.pilot.pause(0.7)
            (self.folder / f"{name}-{theme}.svg").write_text(svg(self.app, "localchat"), encoding="utf-8")
            if keys:
                await self.back()

    async def back(self) -> None:
        """To the chat."""
        await self.pilot.press("escape")
        await self.until(lambda: isinstance(self.app.screen, ChatScreen))

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Wait for it."""
        await wait_until(self.pilot, predicate, seconds=PATIENCE)

    async def says(self, text: str) -> None:
        """Wait for a text on the screen."""
        await self.until(lambda: text in screen_text(self.app))

    async def start(self) -> None:
        """The first start of all: a page of what is there; the guide is taken."""
        await self.says("Qwen3-8B")
        await self.take("start")
        await self.pilot.press("escape")
        await self.until(lambda: self.app.desk.loaded is not None)

    async def chat(self) -> None:
        """A few questions, with the tokens of the last answer; then that answer token by token."""
        await self.pilot.press("f4")
        for number, question in enumerate(QUESTIONS, start=1):
            self.app.screen.query_one(Composer).load_text(question)
            await self.pilot.press("enter")
            await self.until(self._answered(number))
        await self.pilot.pause(1.0)
        await self.take("chat")
        await self.pilot.press("alt+w")
        await self.until(lambda: isinstance(self.app.screen, TokensScreen))
        await self.pilot.press("n")
        await self.take("tokens")
        await self.back()

    def _answered(self, number: int) -> Callable[[], bool]:
        screen = self.app.screen
        assert isinstance(screen, ChatScreen)
        return lambda: screen.talk.count() == 2 * number and not self.app.desk.host.busy

    async def around(self) -> None:
        """What stands beside the chat."""
        await self.take("help", "alt+h")
        await self.take("commands", "ctrl+p")
        await self.pilot.press("alt+s")
        await self.until(lambda: isinstance(self.app.screen, SettingsScreen))
        await self.says("measured")
        screen = self.app.screen
        await self.until(lambda: isinstance(screen, SettingsScreen) and not screen.looking)
        await self.take("settings")
        await self.back()

    async def compare(self) -> None:
        """One prompt, then six kinds of work."""
        await self.pilot.press("alt+c")
        await self.until(lambda: isinstance(self.app.screen, CompareScreen))
        await self.pilot.press("enter")
        await self.says("✓")
        await self.take("compare")
        await self.pilot.press("alt+k", "ctrl+r")
        await self.says("the median of 6 kinds")
        await self.says("✓")
        await self.take("kinds")


async def tour(folder: Path) -> None:
    """All of it, with an engine of its own."""
    file = config.File(Path("config.toml"))
    worker = Worker()
    worker.start()
    desk = Desk(
        Host(worker), open_store(Path("chats.db")).store, file, config.resolve(file, {}, {"seed": 7}), LoadPlan()
    )
    app = started(Start(desk, first=True))
    app.animation_level = "none"
    async with app.run_test(size=SIZE) as pilot:
        made = Tour(app, pilot, folder)
        for step in (made.start, made.chat, made.around, made.compare):
            await step()


def main() -> None:
    """In an empty home, so that nothing of this machine but its name is in a picture."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        for name in [name for name in os.environ if name.startswith("LOCALCHAT_")]:
            del os.environ[name]
        os.environ |= {"LOCALCHAT_HOME": f"{home}/home", "HF_HUB_CACHE": f"{home}/hub", "HOME": home}
        os.chdir(home)
        stock_hub(Path(home, "hub"), "Qwen/Qwen3-8B", "Qwen/Qwen3-4B", "Qwen/Qwen3-0.6B")
        asyncio.run(tour(folder))


if __name__ == "__main__":
    main()
