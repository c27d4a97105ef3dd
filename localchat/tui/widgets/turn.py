"""One message of the transcript, as it is written and afterwards."""

from __future__ import annotations

from time import localtime, strftime
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from localchat.chat.conversation import Role
from localchat.chat.store import Node, State
from localchat.sanitize import clean, clean_from
from localchat.tui.keymap import worded
from localchat.tui.markup import short_lines
from localchat.tui.thinking import split
from localchat.tui.widgets.reply_text import ReplyText
from localchat.tui.widgets.thought import Thought

_MOST = 60_000
"""Characters that are laid out; the rest of a message is counted, and kept for copying and export."""
_FOLD = 40
"""Lines of a message of the user's that are shown."""


class Turn(Vertical):
    """A message: who, what, and for a reply how it came about."""

    HELP: ClassVar[str] = """# A message

`alt+up` and `alt+down` select a message. What you do next is done to it: copy it, change it, have it written again,
look at its tokens. Without a selection the last one is meant.

The line below a reply says how fast it was: tokens per second, how many times plain decoding that is, how many drafted
tokens were accepted, and the seed. The same seed gives the same text again, with drafts and without.
"""

    def __init__(self, node: Node, version: tuple[int, int] = (1, 1), *, live: bool = False) -> None:
        """A message.

        Args:
            node: as the store has it.
            version: its place among its versions, and their number.
            live: it is about to be written here.
        """
        super().__init__(classes=f"-{node.role.value}")
        self.node = node
        self._live = live
        self._version = version
        self._text = ""
        self._shown = 0
        self._thought = Thought()
        self._body: ReplyText | Static = (
            ReplyText() if node.role is Role.ASSISTANT else Static("", markup=False, classes="body")
        )
        self._foot = Static("", markup=False, classes="foot")

    @property
    def text(self) -> str:
        """All of it, as it was written."""
        return self._text or self.node.text

    @property
    def versions(self) -> int:
        """How many versions of it there are."""
        return self._version[1]

    def compose(self) -> ComposeResult:
        """Head, thought, body, foot."""
        yield Static(self._heading(), markup=False, classes="head")
        if self.node.role is Role.ASSISTANT:
            yield self._thought
        yield self._body
        if self.node.role is Role.ASSISTANT:
            yield self._foot

    async def on_mount(self) -> None:
        """Show a message that is already there."""
        if not self._live:
            await self.show_node(self.node, self._version)

    def _heading(self) -> str:
        who = {Role.USER: "you", Role.ASSISTANT: "assistant", Role.SYSTEM: "system"}[self.node.role]
        place, count = self._version
        branch = f"   ‹ {place} of {count} ›" if count > 1 else ""
        return f"{who}   {strftime('%H:%M', localtime(self.node.created))}{branch}"

    async def show_node(self, node: Node, version: tuple[int, int]) -> None:
        """Show a message as the store has it."""
        self.node, self._version, self._text = node, version, node.text
        self.query_one(".head", Static).update(self._heading())
        if isinstance(self._body, Static):
            self._body.update(Content(folded(clean(node.text), _FOLD)))
            return
        parts = split(node.text)
        self._thought.show(parts.thought, thinking=False)
        await self._body.update(clean(limited(parts.answer)))
        self._foot.update(worded(self.app, summary_line(node)))

    def begin(self) -> None:
        """A reply is about to be written."""
        self._text, self._shown = "", 0
        self._foot.update("…")

    async def write(self, text: str) -> None:
        """More of the reply. Markdown grows only from nothing: what is appended to other content may be torn apart."""
        if not text or not isinstance(self._body, ReplyText):
            return
        self._text += text
        parts = split(self._text)
        self._thought.show(parts.thought, thinking=parts.thinking)
        answer = parts.answer[:_MOST]
        if len(answer) > self._shown:
            start, self._shown = self._shown, len(answer)
            await self._body.append(clean_from(answer, start))

    def progress(self, line: str) -> None:
        """What happens now, in the line below; its size does not change, so nothing is laid out again."""
        self._foot.update(line, layout=False)

    async def finish(self, node: Node, version: tuple[int, int]) -> None:
        """The reply is complete: lay it out once more as a whole where streaming may have got it wrong."""
        parts = split(node.text)
        whole = self._text == node.text and len(parts.answer) <= _MOST and self._shown == len(parts.answer)
        if not whole or (isinstance(self._body, ReplyText) and self._body.torn()):
            await self.show_node(node, version)
            return
        self.node, self._version = node, version
        self._thought.show(parts.thought, thinking=False)
        self.query_one(".head", Static).update(self._heading())
        self._foot.update(worded(self.app, summary_line(node)))

    def note(self, line: str) -> None:
        """Something that was found out about this message, below it."""
        self._foot.update(f"{worded(self.app, summary_line(self.node))}\n{clean(line)}")

    def toggle_thought(self) -> None:
        """Unfold or fold what was thought."""
        self._thought.toggle()

    @property
    def has_thought(self) -> bool:
        """The reply began with a thought."""
        return bool(split(self.text).thought)


def folded(text: str, lines: int) -> str:
    """The beginning of a long text, and how much more there is."""
    rows = text.split("\n")
    shown = short_lines(limited("\n".join(rows[:lines])))
    return shown if len(rows) <= lines else f"{shown}\n… {len(rows) - lines} more lines"


def limited(text: str) -> str:
    """A text that can be laid out in reasonable time: a very long one is cut, and says so."""
    if len(text) <= _MOST:
        return text
    return f"{text[:_MOST]}\n\n… {len(text) - _MOST} more characters (copy or export shows all)"


_ENDINGS = {
    "length": "stopped at the length limit · {continue-reply} goes on",
    "context": "the context is full",
    "cancelled": "stopped · {continue-reply} goes on",
}


def summary_line(node: Node) -> str:
    """How a reply came about, in one line (with keys as `keymap.worded` takes them)."""
    summary = node.summary
    if summary is None:
        states = {
            State.WRITING: "cut off when localchat ended · {continue-reply} goes on",
            State.STOPPED: _ENDINGS["cancelled"],
            State.FAILED: "cut off by a failure · {continue-reply} goes on",
        }
        return states.get(node.state, "edited" if node.role is Role.ASSISTANT else "")
    parts = [
        _ENDINGS.get(summary.finish_reason, ""),
        f"{summary.tokens} tokens",
        f"{summary.tokens_per_second:.0f} tok/s",
    ]
    if summary.accelerated:
        parts += [f"{summary.speedup:.1f}× plain", f"{summary.acceptance_rate:.0%} accepted"]
    else:
        parts += ["plain"]
    parts += [f"seed {summary.seed}"]
    return " · ".join(filter(None, parts))
