"""The chat that is open: what was said, what is being written, and what waits to be said. Knows no widget."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from localchat.chat import setup
from localchat.chat.backend import Backend, ReplyOptions
from localchat.chat.conversation import Conversation, Role
from localchat.chat.events import Failed, Finished, Reply, ReplyEvent
from localchat.chat.recorder import Recorder
from localchat.chat.store import Chat, Node, State, Store, StoreError, Written
from localchat.engine.types import Sampling
from localchat.errors import LocalchatError
from localchat.tui.desk import Desk
from localchat.tui.host import Job
from localchat.tui.proof import Second, Told, again


class View(Protocol):
    """Who shows the chat; called on the screen's thread."""

    def began(self, node: Node, start: str) -> None:
        """A reply is asked for; `start` is text it goes on from."""
        ...

    def heard(self, node: Node, events: tuple[ReplyEvent, ...]) -> None:
        """Some of it came."""
        ...

    def ended(self, node: Node | None, failed: Failed | None) -> None:
        """It is over; the node is as the store has it, or None: nothing was written, and it was taken out."""
        ...


@dataclass(eq=False, slots=True)
class Writing:
    """A reply on its way."""

    node: Node
    recorder: Recorder
    before: int | None
    """The message that the chat showed last, to go back to if nothing is written."""
    accelerate: bool
    """Drafting is allowed, from the next round on."""
    job: Job[ReplyEvent] | None = None
    failed: Failed | None = None
    reply: Reply | None = None


class Talk:
    """Operations on one chat. A reply is stored while it is written; every change of the past makes a branch."""

    def __init__(self, desk: Desk, view: View) -> None:
        self._desk = desk
        self._view = view
        self._store: Store = desk.store
        self.chat: Chat | None = None
        self.writing: Writing | None = None
        self.waiting: deque[str] = deque()
        self._proving: Job[ReplyEvent] | None = None
        self._unsaved: list[Recorder] = []

    def open(self, chat: int) -> None:
        """Take up a chat."""
        self.chat = self._store.chat(chat)

    def new(self) -> None:
        """Leave the chat; the next message begins another."""
        self.chat = None

    def shown(self, last: int) -> list[Node]:
        """The last messages of the branch that is shown."""
        chat = self.chat
        return self._store.path(chat.leaf, last) if chat and chat.leaf is not None else []

    def distance(self, node: int | None) -> int:
        """How many messages of the branch follow one."""
        return self.count() - self._store.count(node) if node is not None else 0

    def before(self, node: Node, count: int) -> list[Node]:
        """The messages before one, at most so many; none where they cannot be read now."""
        try:
            return self._store.path(node.parent, count) if node.parent is not None else []
        except StoreError:
            return []

    def count(self) -> int:
        """How many messages the branch has."""
        return self._store.count(self.chat.leaf) if self.chat and self.chat.leaf is not None else 0

    def go_to(self, node: int) -> None:
        """Show the branch that a message is on."""
        if self.chat is not None:
            self._store.show(self.chat.id, self._store.tip(node))
            self.reread()

    @property
    def accelerated(self) -> bool:
        """Drafting is allowed in this chat."""
        return self.chat.accelerate if self.chat else self._desk.accelerate

    def accelerate(self, *, on: bool) -> None:
        """Switch drafting, in the running reply too, and remember it with the chat."""
        if self.writing and self.writing.job:
            self.writing.accelerate = on
            self._desk.host.accelerate(self.writing.job, on=on)
        if self.chat:
            self.chat = replace(self.chat, accelerate=on)
            self.chat = self._store.save(replace(self._store.chat(self.chat.id), accelerate=on))
        else:
            self._desk.accelerate = on

    def keep_draft(self, text: str) -> None:
        """Keep what is typed and not sent."""
        if self.chat is None:
            self._store.keep_value("draft", text)
        elif self.chat.draft != text:
            self._store.keep_draft(self.chat.id, text)
            self.reread()

    @property
    def draft(self) -> str:
        """What was typed and not sent."""
        return self.chat.draft if self.chat else self._store.value("draft")

    def send(self, text: str) -> Node:
        """Say something; the reply begins by itself."""
        user = self._say(text, self.chat.leaf if self.chat else None)
        self.answer(user)
        return user

    def say_instead(self, node: Node, text: str) -> Node:
        """Another version of a message; one of the user's is answered."""
        if node.role is Role.ASSISTANT:
            other = self._store.add(node.chat, node.parent, Role.ASSISTANT, text, State.COMPLETE)
            self.reread()
            return other
        user = self._say(text, node.parent)
        self.answer(user)
        return user

    def _say(self, text: str, parent: int | None) -> Node:
        if self.chat is None:
            self.chat = self._store.create(self._desk.system, None, self._desk.accelerate)
        node = self._store.add(self.chat.id, parent, Role.USER, text)
        self.reread()
        return node

    def answer(self, user: Node) -> None:
        """Write a reply to a message of the user's: the first or another."""
        self._write(user.id, "", None)

    def go_on(self, node: Node) -> None:
        """Write on where a reply stopped, as a version of its own: with its seed, as if it had never stopped."""
        self._write(node.parent, node.text, node.summary.sampling if node.summary else None)

    def parent(self, node: Node) -> Node:
        """The message that a reply answers."""
        return self._store.node(node.parent) if node.parent is not None else node

    def version(self, node: Node) -> tuple[int, int]:
        """A message's place among its versions, and their number."""
        versions: list[int] = []
        with suppress(StoreError):  # it is only for show
            versions = self._store.versions(node.id)
        return (versions.index(node.id) + 1 if node.id in versions else 1), max(1, len(versions))

    def context_used(self) -> int:
        """Tokens of the context that the branch takes, by its last reply; 0 where that is not known."""
        written = None
        with suppress(StoreError):  # it is only for show
            last = next((node for node in reversed(self.shown(2)) if node.role is Role.ASSISTANT), None)
            written = self.written(last) if last else None
        return written.reply.stats.prompt_tokens + written.reply.stats.tokens if written else 0

    def written(self, node: Node) -> Written | None:
        """A reply's tokens and rounds, if they were kept."""
        return self._store.written(node.id)

    def settle(self) -> list[Node]:
        """Take what a crash cut off for stopped replies, which are returned; one without a word is taken out."""
        cut = self._store.interrupted(self.chat.id) if self.chat else []
        with suppress(StoreError):  # a full disk: it stays as it is, and can be continued all the same
            for node in cut:
                self._store.keep(node.id, node.text, State.STOPPED)
                if not node.text:
                    self._store.remove(node.id)
            self.reread()
        return cut

    def unsaved(self) -> str:
        """Why replies that were written are not on the disk; empty if they are."""
        self._unsaved = [recorder for recorder in self._unsaved if not recorder.saved]
        running = [self.writing.recorder] if self.writing else []
        return next((recorder.problem for recorder in (*running, *self._unsaved) if recorder.problem), "")

    def close(self) -> None:
        """Save what is on the way, and what could not be saved before."""
        running = [self.writing.recorder] if self.writing else []
        for recorder in (*running, *self._unsaved):
            recorder.close()

    def stop(self) -> bool:
        """Stop the reply, or else the verification; False if there is neither."""
        job = self.writing.job if self.writing else self._proving
        if job is None:
            return False
        self._desk.host.drop(job)
        return True

    def show_version(self, node: Node, step: int) -> bool:
        """Go to the version before or after; False if there is none."""
        versions = self._store.versions(node.id)
        place = versions.index(node.id) + step if node.id in versions else -1
        if self.chat is None or not 0 <= place < len(versions):
            return False
        self.go_to(versions[place])
        return True

    def reread(self) -> None:
        """Take the chat as the store has it now."""
        if self.chat:
            self.chat = self._store.chat(self.chat.id)

    def _sampling(self, version: int) -> Sampling:
        """A new seed each time; a chat's own seed counts on with each version, or they would all be alike."""
        settings = self._desk.resolved.settings
        own = self.chat.sampling if self.chat else None
        base = own or setup.sampling(settings, 0)
        fixed = self.chat.seed if self.chat and self.chat.seed is not None else settings.seed
        return replace(base, seed=fixed + version if fixed >= 0 else secrets.randbelow(2**31))

    def _write(self, parent: int | None, start: str, sampling: Sampling | None) -> None:
        chat = self.chat
        if chat is None or self.writing is not None:
            return
        settings = self._desk.resolved.settings
        node = self._store.add(chat.id, parent, Role.ASSISTANT, start, State.WRITING)
        sampling = sampling or self._sampling(self.version(node)[0] - 1)
        options = ReplyOptions(sampling, settings.max_tokens, settings.stop, trim=True)
        self.reread()
        recorder = Recorder(self._store, node, start, chat.system)
        writing = self.writing = Writing(node, recorder, chat.leaf, chat.accelerate)

        def source(backend: Backend) -> Iterator[ReplyEvent]:
            said = conversation(self._store, parent, start, chat.system)
            drafting = writing.accelerate
            events = backend.reply(said, replace(options, accelerate=drafting))
            if writing.accelerate is not drafting:  # switched just before there was a reply to switch
                backend.accelerate(writing.accelerate)
            yield from events

        def sink(events: tuple[ReplyEvent, ...]) -> None:
            for event in events:
                if isinstance(event, Failed):
                    writing.failed = event
                elif isinstance(event, Finished):
                    writing.reply = event.reply
            self._view.heard(node, events)

        self._view.began(node, start)
        writing.job = self._desk.host.run(source, sink, lambda error: self._ended(writing, error), writing.recorder)

    def _ended(self, writing: Writing, error: Exception | None) -> None:
        recorder = writing.recorder
        recorder.finish()
        self.writing = None
        if not recorder.saved:
            self._unsaved.append(recorder)
        failed = writing.failed
        if isinstance(error, LocalchatError):
            failed = Failed(error.kind, error.message, error.hint)
        elif error is not None and failed is None:
            failed = Failed("engine", f"The reply could not be written: {error}", "Try again; the log has the details.")
        node = recorder.node
        empty = node.state is not State.COMPLETE and node.text == recorder.start
        with suppress(StoreError):  # it is told once a second as long as it lasts
            if empty:
                self._store.remove(node.id)
                self._store.show(node.chat, writing.before)
            self.reread()
        self._view.ended(None if empty else node, failed)

    def verify(self, node: Node, done: Told) -> bool:
        """Write a reply again the other way and compare token by token; False if its tokens were not kept."""
        written = self._store.written(node.id)
        if written is None or not written.reply.token_ids:
            return False
        loaded = self._desk.loaded
        options = again(written, loaded)
        if isinstance(options, Failed):
            done(options)
            return True
        second, start = Second(written), node.text[: written.start]

        def source(backend: Backend) -> Iterator[ReplyEvent]:
            yield from backend.reply(conversation(self._store, node.parent, start, written.system), options)

        def ended(_: Exception | None) -> None:
            self._proving = None
            done(second.result(loaded.plan.precision.value if loaded else ""))

        self._proving = self._desk.host.run(source, second.hear, ended)
        return True


def conversation(store: Store, leaf: int | None, start: str = "", system: str | None = None) -> Conversation:
    """What the model is given: the branch up to `leaf`, and the beginning of the reply if there is one.

    Args:
        system: the system message; None: the chat's.
    """
    said = store.conversation(leaf, system) if leaf is not None else Conversation.begin(system or "")
    return said.assistant(start) if start else said
