"""A chat as a text for people (Markdown) and for programs (JSON, which can be read back). Both are safe to print."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from json import loads

from localchat.chat.codec import decode, encode_fields
from localchat.chat.conversation import Role
from localchat.chat.records import Chat, Node, State, Summary, Written
from localchat.chat.store import Store
from localchat.engine.types import Sampling
from localchat.errors import UsageError
from localchat.sanitize import clean, to_json

FORMAT = "localchat chat"
VERSION = 1

_NAMES = {Role.SYSTEM: "System", Role.USER: "You", Role.ASSISTANT: "Assistant"}
_STATES = {State.WRITING: "interrupted", State.STOPPED: "stopped", State.FAILED: "failed", State.COMPLETE: ""}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LAST_YEAR = 253_402_300_799.0
"""The end of the year 9999."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of an exported chat."""

    parent: int | None
    """Its place in the list of messages."""
    role: Role
    text: str
    state: State
    created: float
    updated: float
    summary: Summary | None
    written: Written | None


@dataclass(frozen=True, slots=True)
class Document:
    """An exported chat. The names here are a promise: add to them, never rename."""

    format: str
    version: int
    title: str
    created: float
    updated: float
    system: str
    sampling: Sampling | None
    preset: str
    seed: int | None
    accelerate: bool
    draft: str
    leaf: int | None
    """Place of the last message of the branch that is shown."""
    messages: tuple[Message, ...]

    def __post_init__(self) -> None:
        places = len(self.messages)
        times = [self.created, self.updated, *(t for m in self.messages for t in (m.created, m.updated))]
        summaries = [message.summary for message in self.messages if message.summary]
        checks = (
            (self.format == FORMAT, f"its format is not {FORMAT!r}"),
            (self.version <= VERSION, "it was made by a newer localchat"),
            (self.leaf is None or 0 <= self.leaf < places, "its last message is not in it"),
            (all(_earlier(m.parent, at) for at, m in enumerate(self.messages)), "a message comes before its parent"),
            (all(0.0 <= moment <= _LAST_YEAR for moment in times), "a time is out of range"),
            (self.seed is None or 0 <= self.seed < 2**63, "the seed is out of range"),
            (all(0 <= s.tokens < 2**63 and math.isfinite(s.saved_seconds) for s in summaries), "a figure is no number"),
        )
        for good, problem in checks:
            if not good:
                raise ValueError(problem)


def _earlier(parent: int | None, place: int) -> bool:
    return parent is None or 0 <= parent < place


def export_json(store: Store, chat: Chat) -> str:
    """The whole tree of a chat in ASCII, one line a message."""
    nodes = store.nodes(chat.id)
    places = {node.id: place for place, node in enumerate(nodes)}
    messages = tuple(
        Message(
            parent=None if node.parent is None else places[node.parent],
            role=node.role,
            text=node.text,
            state=node.state,
            created=node.created,
            updated=node.updated,
            summary=node.summary,
            written=store.written(node.id),
        )
        for node in nodes
    )
    document = Document(
        format=FORMAT,
        version=VERSION,
        title=chat.title,
        created=chat.created,
        updated=chat.updated,
        system=chat.system,
        sampling=chat.sampling,
        preset=chat.preset,
        seed=chat.seed,
        accelerate=chat.accelerate,
        draft=chat.draft,
        leaf=None if chat.leaf is None else places.get(chat.leaf),
        messages=messages,
    )
    fields = encode_fields(document)
    body = ",\n".join(map(to_json, fields.pop("messages")))
    head = to_json({**fields, "messages": []}).removesuffix("]}")
    return f"{head}\n{body}\n]}}\n"


def import_json(store: Store, text: str) -> Chat:
    """Take in a chat that `export_json` made.

    Raises:
        UsageError: it is something else.
        StoreError: it cannot be saved.
    """
    try:
        raw = loads(text)
        if not isinstance(raw, dict):
            raise ValueError("it is no JSON object")
        document = decode(Document, raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"This is no chat that localchat exported: {error}.", _HINT) from error
    chat = Chat(
        id=0,
        title=document.title,
        created=document.created,
        updated=document.updated,
        system=document.system,
        sampling=document.sampling,
        preset=document.preset,
        seed=document.seed,
        accelerate=document.accelerate,
        draft=document.draft,
        leaf=document.leaf,
        deleted=False,
    )
    nodes = [
        Node(place, 0, m.parent, m.role, m.text, m.state, m.created, m.updated, m.summary)
        for place, m in enumerate(document.messages)
    ]
    return store.adopt(chat, nodes, {at: m.written for at, m in enumerate(document.messages) if m.written})


_HINT = "Export one with `localchat chats export ID --json`."


def export_markdown(store: Store, chat: Chat, leaf: int | None) -> str:
    """The branch that ends with `leaf`, as Markdown, with how each reply came about."""
    title = " ".join(clean(chat.title).split()) or "Untitled chat"
    parts = [f"# {title}", f"*{day(chat.created)}*"]
    if chat.system:
        parts += ["## System", _closed(clean(chat.system))]
    for node in store.path(leaf) if leaf is not None else ():
        parts += [f"## {_NAMES[node.role]}", _closed(clean(node.text)), *_remarks(node)]
    return "\n\n".join(parts) + "\n"


def day(seconds: float) -> str:
    """A time as date and clock, here."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _remarks(node: Node) -> Iterator[str]:
    remarks = [_STATES[node.state]] if _STATES[node.state] else []
    if (summary := node.summary) is not None:
        remarks += [
            clean(summary.model),
            f"{summary.tokens} tokens at {summary.tokens_per_second:.1f} tok/s",
            f"{summary.speedup:.1f}× plain, {summary.acceptance_rate:.0%} accepted" if summary.accelerated else "plain",
            f"seed {summary.seed}",
        ]
    if remarks:
        yield f"*{' · '.join(remarks)}*"


def _closed(text: str) -> str:
    """The text with a code block that was cut off closed, so that what follows is no code."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark is None:
            continue
        if not fence:
            fence = mark[1]
        elif mark[1].startswith(fence) and not line[mark.end() :].strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text
