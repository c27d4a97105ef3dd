"""A reply that comes in pieces: what stands there in the end, and meanwhile."""

from __future__ import annotations

import random
from pathlib import Path, PurePath

import pytest
from textual import events
from textual.app import App
from textual.widget import Widget

from localchat.chat.conversation import Role
from localchat.chat.store import Node, State
from localchat.tui import app as app_module
from localchat.tui import theme
from localchat.tui.app import LocalChat
from localchat.tui.widgets.turn import Turn
from tests.tui.support import screen_text

pytestmark = pytest.mark.anyio

TUI = Path(app_module.__file__).parent
LOOKS: list[str | PurePath] = [TUI / sheet for sheet in LocalChat.CSS_PATH]


class Page(App[None]):
    """Messages in the styles of the chat."""

    CSS_PATH = LOOKS

    def __init__(self) -> None:
        super().__init__()
        theme.register_all(self)


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


FENCE = "```python\ndef f(x):\n    return x\n\n\nfirst = 1\nlast = f(2)\n```\n\n"
MARKDOWN = {
    "fence": f"Intro\n\n{FENCE}Outro.\n\n~~~\nplain\n~~~\n",
    "open fence": "Text\n\n```python\nwhile True:\n    pass\n",
    "list": "- a\n- b\n  - c\n\n    more of c\n- d\n\n1. x\n2. y\n   ```\n   code\n   ```\n3. z\n",
    "numbers": "Steps:\n\n1. **One**: x\n\n2. **Two**: y\n\n10. ten\n\nend\n",
    "quote": "> one\n> two\nlazy\n>\n> > nested\n\nafter\n> - l\n> - m\n",
    "table": "Before\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | `4` |\n\nAfter\n",
    "table without bars": "a | b\n--- | ---\n1 | 2\n3 | 4\n\nAfter\n",
    "link targets": "See [one][1] and [two].\n\nMore.\n\n[1]: http://a.example\n\n> [two]: http://b.example 'T'\n",
    "headings": "Title\n=====\n\nSub\n---\n\n# A\n## B\ntext\n\n***\n",
    "html": "a\n\n<div>\n\nb\n\n</div>\n\n<!-- c\n\nd -->\n\nend <b>x</b>\n",
    "separators": "para\u2028still\n\n# head\n\n- a\n- b\n\n```\nx\ny\n```\n\nend\n",
    "scripts": "漢字 👩‍👩‍👧 e\u0301 \u202e rtl \x1b[31m red\n\n- 漢\n",
}


def shape(widget: Widget) -> list[object]:
    """Kinds, contents and places of all that a reply is made of."""
    own = (type(widget).__name__, str(getattr(widget, "_content", "")), widget.region.x, *widget.region.size)
    return [own, *(shape(child) for child in widget.children)]


def reply(text: str) -> Node:
    """A reply as the store has it."""
    return Node(1, 1, None, Role.ASSISTANT, text, State.COMPLETE, 0.0, 0.0, None)


@pytest.mark.parametrize("text", MARKDOWN.values(), ids=MARKDOWN.keys())
async def test_a_streamed_reply_ends_as_the_whole_text(text: str) -> None:
    """Guards what Markdown is torn into when it comes in pieces: blank code blocks, parted lists, dead links."""
    odds = random.Random(7)
    app = Page()
    async with app.run_test(size=(80, 50)) as pilot:
        whole = Turn(reply(text))
        await app.mount(whole)
        await pilot.pause()
        wanted = shape(whole._body)
        await whole.remove()
        for most in (1, 3, 8, 20):
            turn, at = Turn(reply(""), live=True), 0
            await app.mount(turn)
            turn.begin()
            while at < len(text):
                step = odds.randint(1, most)
                await turn.write(text[at : at + step])
                at += step
                if odds.random() < 0.1:
                    await pilot.pause()
            await turn.finish(reply(text), (1, 1))
            await pilot.pause()
            assert shape(turn._body) == wanted
            await turn.remove()


async def test_a_code_block_is_never_blank_while_it_grows() -> None:
    """Guards code that vanishes or is cut when focus, theme or size change, or when text follows in the same frame."""
    app = Page()
    async with app.run_test(size=(80, 30)) as pilot:
        turn = Turn(reply(""), live=True)
        await app.mount(turn)
        turn.begin()
        await turn.write(FENCE[:24])
        await pilot.pause()
        await pilot.click(turn)
        app.post_message(events.AppBlur())
        app.post_message(events.AppFocus())
        await pilot.pause()
        app.theme = "light"
        await pilot.pause()
        assert "def f(x)" in screen_text(app)
        with app.batch_update():
            await turn.write(FENCE[24:-10])
            for piece in (FENCE[-10:], "What ", "follows."):
                await turn.write(piece)
        await pilot.pause()
        text = screen_text(app)
        assert "last = f(2)" in text
        assert "What follows." in text
        await pilot.resize_terminal(60, 20)
        assert "last = f(2)" in screen_text(app)
