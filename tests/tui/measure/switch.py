"""F5 at a random round: the text must be the one without the switch. The whole application over the real starter.

Run: python -m tests.tui.measure.switch [REPLIES]
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
from pathlib import Path

from localchat import config
from localchat.bench.hear import load, reply
from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation, Role
from localchat.chat.store import open_store
from localchat.engine.types import Sampling
from localchat.models.plan import LoadPlan, Mode
from localchat.tui.app import Start
from localchat.tui.desk import Desk
from localchat.tui.host import Host
from localchat.tui.screens.chat import ChatScreen
from localchat.worker.client import Worker
from tests.tui.support import started

QUESTIONS = (
    "What is speculative decoding?",
    "Why is the text the same with drafts?",
    "What does the governor do?",
    "Tell me a story about a fox and a river.",
    "What is a bonus token, and what is a correction?",
    "How much memory does a draft model take?",
    "Write a short poem about waiting.",
    "How do I use my own model?",
    "What is exact mode, and what does it cost?",
    "Explain acceptance by position.",
)
TEMPERATURE = 0.8
LONGEST = 200
PLAN = LoadPlan(mode=Mode.EXACT)


def expected(count: int) -> list[str]:
    """The texts without a switch."""
    worker = Worker()
    load(worker, PLAN, lambda _: None)
    texts = []
    for number in range(count):
        asked = Conversation().user(QUESTIONS[number % len(QUESTIONS)])
        options = ReplyOptions(Sampling(TEMPERATURE, seed=number), LONGEST)
        texts.append(reply(worker, asked, options).reply.text)
    worker.close()
    return texts


async def switched(count: int, home: Path) -> tuple[list[str], list[int]]:
    """The same replies, each with F5 pressed at a random round; the texts, and the rounds of the switches."""
    store = open_store(home / "chats.db").store
    file = config.File(home / "config.toml")
    keys = {"temperature": TEMPERATURE, "max_tokens": LONGEST, "mode": "exact"}
    desk = Desk(Host(Worker()), store, file, config.resolve(file, {}, keys), PLAN)
    app = started(Start(desk))
    dice = random.Random(5)
    texts, rounds = [], []
    async with app.run_test(size=(120, 40)) as pilot:
        while desk.loaded is None:
            await pilot.pause(0.05)
        chat = next(screen for screen in app.screen_stack if isinstance(screen, ChatScreen))
        for number in range(count):
            await pilot.press("ctrl+n")
            desk.resolved = config.resolve(file, {}, {**keys, "seed": number})
            desk.accelerate = number % 2 == 0
            before = desk.live.replies
            chat.composer.load_text(QUESTIONS[number % len(QUESTIONS)])
            await pilot.press("enter")
            wanted = dice.randrange(1, 8)
            while desk.live.replies == before or (desk.live.stats.rounds < wanted and chat.talk.writing):
                await asyncio.sleep(0.001)
                desk.host.drain()  # frames are too far apart to meet a round of so fast a model
            rounds.append(desk.live.stats.rounds if chat.talk.writing else -1)
            await pilot.press("f5")
            while chat.talk.writing is not None:
                await pilot.pause(0.005)
            said = chat.talk.shown(1)[-1]
            assert said.role is Role.ASSISTANT
            texts.append(said.text)
    return texts, rounds


def main() -> None:
    """Print how many of the texts are the same."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    wanted = expected(count)
    with tempfile.TemporaryDirectory() as folder:
        texts, rounds = asyncio.run(switched(count, Path(folder)))
    same = sum(a == b for a, b in zip(wanted, texts, strict=True))
    inside = sum(number >= 0 for number in rounds)
    print(f"{same} of {count} texts are the same; {inside} switches came while the reply was written")
    print(json.dumps({"same": same, "count": count, "inside": inside}))


if __name__ == "__main__":
    main()
