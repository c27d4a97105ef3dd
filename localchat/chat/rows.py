"""Rows of the store as values, and values as what a row holds."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from json import dumps, loads
from typing import Any, TypeVar

from localchat.chat.codec import decode, encode
from localchat.chat.conversation import Role
from localchat.chat.records import Chat, MissingError, Node, State, StoreError, Summary, Written
from localchat.engine.types import Sampling

TITLE_LENGTH = 60

CHAT = "id, title, created, updated, system, sampling, preset, seed, accelerate, draft, leaf, deleted"
NODE = "m.id, m.chat, m.parent, m.role, m.text, m.state, m.created, m.updated, m.summary"

T = TypeVar("T")


def found(row: T | None) -> T:
    """The row.

    Raises:
        MissingError: there is none.
    """
    if row is None:
        raise MissingError("This chat is no longer there.", "It may have been deleted in another window.")
    return row


def chat(row: tuple[Any, ...]) -> Chat:
    """A chat, from the columns `CHAT`."""
    id_, title, created, updated, system, sampling, preset, seed, accelerate, draft, leaf, deleted = row
    return Chat(
        id=id_,
        title=title,
        created=created,
        updated=updated,
        system=system,
        sampling=_read(Sampling, sampling),
        preset=preset,
        seed=seed,
        accelerate=bool(accelerate),
        draft=draft,
        leaf=leaf,
        deleted=deleted is not None,
    )


def node(row: Sequence[Any]) -> Node:
    """A message, from the columns `NODE`."""
    id_, chat_, parent, role, text, state, created, updated, summary = row
    try:
        return Node(id_, chat_, parent, Role(role), text, State(state), created, updated, _read(Summary, summary))
    except ValueError as error:
        raise StoreError(f"A message cannot be read: {error}.", "Update localchat, or go on without it.") from error


def _read(kind: type[T], record: str | None) -> T | None:
    """A value kept as JSON; None where a later or a damaged version cannot be read: the text matters more."""
    try:
        return None if record is None else decode(kind, loads(record))
    except ValueError:
        return None


def json(value: object) -> str | None:
    """A value as a row holds it."""
    return None if value is None else dumps(encode(value))


def raw(text: str) -> bytes:
    """A text as the store takes it (`CAST(? AS TEXT)`): half characters from broken input are kept as they are."""
    return text.encode("utf-8", "surrogatepass")


def packed(written: Written) -> bytes:
    """How a reply was written, small."""
    return zlib.compress(dumps(encode(written)).encode())


def unpacked(record: bytes) -> Written:
    """How a reply was written.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        return decode(Written, loads(zlib.decompress(record)))
    except (ValueError, TypeError, zlib.error) as error:
        raise StoreError("The tokens of this reply cannot be read.", "Its text is not affected.") from error


def title(text: str) -> str:
    """The first line that says something, cut to what a list can show."""
    line = next((line for line in text[:2000].splitlines() if line.strip()), "")
    words = " ".join(line.split())
    return words if len(words) <= TITLE_LENGTH else f"{words[: TITLE_LENGTH - 1].rstrip()}…"
