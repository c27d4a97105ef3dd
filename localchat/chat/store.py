"""Chats on disk: a tree of messages each, found by their words, safe against crashes and second processes.

Any thread may call. A call takes a few milliseconds at most, unless another process holds the file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from localchat.chat import find, opening, rows
from localchat.chat.messages import Messages
from localchat.chat.records import (
    Chat,
    Comparison,
    Hit,
    MissingError,
    Node,
    State,
    StoreError,
    Summary,
    Totals,
    Written,
)
from localchat.engine.types import Sampling

__all__ = [
    "Chat",
    "Comparison",
    "Hit",
    "MissingError",
    "Node",
    "Opened",
    "State",
    "Store",
    "StoreError",
    "Summary",
    "Totals",
    "Written",
    "open_store",
]

_KEPT_DELETED = 30 * 86400.0
_SAID = """SELECT m.text FROM message m JOIN chat c ON c.id = m.chat
    WHERE m.role = 'user' AND c.deleted IS NULL ORDER BY m.id DESC"""


@dataclass(frozen=True, slots=True)
class Opened:
    """A store, and what is to be said about it."""

    store: Store
    notice: str
    """Empty, or a sentence and what to do."""


def open_store(path: Path) -> Opened:
    """Open the file, or make it; where that cannot be, a store in memory stands in and `notice` says so."""
    connected = opening.connect(path)
    store = Store(connected.db, path if connected.lasting else None)
    with suppress(StoreError):
        store.purge(time.time() - _KEPT_DELETED)
    return Opened(store, connected.notice)


class Store(Messages):
    """All that is kept. Every method raises `StoreError` where the file cannot be read or written."""

    # Chats

    def create(self, system: str = "", sampling: Sampling | None = None, accelerate: bool = True) -> Chat:  # noqa: FBT001
        """A new, empty chat."""
        now = time.time()
        with self._writing() as db:
            row = db.execute(
                f"""INSERT INTO chat (title, created, updated, system, sampling, accelerate)
                VALUES ('', ?, ?, CAST(? AS TEXT), ?, ?) RETURNING {rows.CHAT}""",
                (now, now, rows.raw(system), rows.json(sampling), accelerate),
            ).fetchone()
        return rows.chat(row)

    def chat(self, id: int) -> Chat:
        """One chat.

        Raises:
            MissingError: there is none with this id.
        """
        with self._reading() as db:
            row = db.execute(f"SELECT {rows.CHAT} FROM chat WHERE id = ?", (id,)).fetchone()
        return rows.chat(rows.found(row))

    def latest(self) -> Chat | None:
        """The chat that was used last."""
        return next(iter(self.chats(1)), None)

    def chats(self, limit: int = 200) -> list[Chat]:
        """The chats with something in them, the last used first."""
        with self._reading() as db:
            found = db.execute(
                f"""SELECT {rows.CHAT} FROM chat
                WHERE deleted IS NULL AND (leaf IS NOT NULL OR title <> '' OR draft <> '')
                ORDER BY updated DESC, id DESC LIMIT ?""",
                (limit,),
            ).fetchall()
        return [rows.chat(row) for row in found]

    def search(self, query: str, limit: int = 50) -> list[Hit]:
        """Where all words of the query occur (the last may be a beginning): titles first, then newest messages."""
        with self._reading() as db:
            return find.search(db, query, limit)

    def save(self, chat: Chat) -> Chat:
        """Keep a changed value (all but its times and `deleted`), and return it as it is now.

        `add` moves `leaf` and may set `title`: take the value from `chat` again before changing it.
        """
        values = (chat.title, chat.system, chat.preset, chat.draft)
        with self._writing() as db:
            row = db.execute(
                f"""UPDATE chat SET title = CAST(? AS TEXT), system = CAST(? AS TEXT), preset = CAST(? AS TEXT),
                draft = CAST(? AS TEXT), sampling = ?, seed = ?, accelerate = ?, leaf = ? WHERE id = ?
                RETURNING {rows.CHAT}""",
                (*map(rows.raw, values), rows.json(chat.sampling), chat.seed, chat.accelerate, chat.leaf, chat.id),
            ).fetchone()
        return rows.chat(rows.found(row))

    def keep_draft(self, chat: int, text: str) -> None:
        """Keep what is typed and not sent, and touch nothing else."""
        with self._writing() as db:
            db.execute("UPDATE chat SET draft = CAST(? AS TEXT) WHERE id = ?", (rows.raw(text), chat))

    def show(self, chat: int, leaf: int | None) -> None:
        """Keep which branch is shown, and touch nothing else."""
        with self._writing() as db:
            db.execute("UPDATE chat SET leaf = ? WHERE id = ?", (leaf, chat))

    def adopt(self, chat: Chat, nodes: Sequence[Node], written: Mapping[int, Written]) -> Chat:
        """Take in a whole chat from elsewhere, under new ids.

        Args:
            nodes: its messages, each after its parent.
            written: how replies were written, by the id that the message has in `nodes`.
        """
        ids: dict[int | None, int | None] = {None: None}
        depths: dict[int | None, int] = {None: 0}
        with self.together():
            kept = self.create(chat.system, chat.sampling, chat.accelerate)
            for node in nodes:
                depths[node.id] = depths[node.parent] + 1
                ids[node.id] = new = self._insert(kept.id, node, ids[node.parent], depths[node.id])
                if node.id in written:
                    self.keep_written(new, written[node.id])
            self.save(replace(chat, id=kept.id, leaf=ids[chat.leaf]))
            times = (chat.created, chat.updated, kept.id)
            self._db.execute("UPDATE chat SET created = ?, updated = ? WHERE id = ?", times)
            return self.chat(kept.id)

    def delete(self, id: int) -> None:
        """Put a chat away; for 30 days it can be restored."""
        with self._writing() as db:
            db.execute("UPDATE chat SET deleted = ? WHERE id = ?", (time.time(), id))

    def restore(self, id: int) -> None:
        """Take a deletion back."""
        with self._writing() as db:
            db.execute("UPDATE chat SET deleted = NULL WHERE id = ?", (id,))

    def purge(self, before: float) -> None:
        """Remove for good what was deleted before that time."""
        with self._reading() as db:
            if db.execute("SELECT 1 FROM chat WHERE deleted < ?", (before,)).fetchone() is None:
                return
        with self._writing() as db:
            db.execute("DELETE FROM chat WHERE deleted < ?", (before,))

    def history(self, limit: int = 200) -> list[str]:
        """What the user sent, newest first, each text once."""
        said: dict[str, None] = {}
        with self._reading() as db:
            for (text,) in db.execute(_SAID):
                said.setdefault(text)
                if len(said) >= limit:
                    break
        return list(said)

    # Everything else

    def value(self, key: str) -> str:
        """A text kept under a name; empty if there is none."""
        with self._reading() as db:
            row = db.execute("SELECT text FROM value WHERE key = ?", (rows.raw(key),)).fetchone()
        return str(row[0]) if row else ""

    def keep_value(self, key: str, text: str) -> None:
        """Keep a text under a name."""
        with self._writing() as db:
            db.execute("REPLACE INTO value (key, text) VALUES (?, CAST(? AS TEXT))", (rows.raw(key), rows.raw(text)))

    def add_comparison(self, title: str, record: str) -> int:
        """Keep a comparison; returns its id."""
        with self._writing() as db:
            row = db.execute(
                """INSERT INTO comparison (created, title, record)
                VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT)) RETURNING id""",
                (time.time(), rows.raw(title), rows.raw(record)),
            ).fetchone()
        return int(row[0])

    def comparisons(self, limit: int = 100) -> list[Comparison]:
        """The comparisons that were kept, newest first."""
        with self._reading() as db:
            found = db.execute(
                "SELECT id, created, title, record FROM comparison ORDER BY id DESC LIMIT ?", (limit,)
            ).fetchall()
        return [Comparison(*row) for row in found]

    def remove_comparison(self, id: int) -> None:
        """Forget a comparison."""
        with self._writing() as db:
            db.execute("DELETE FROM comparison WHERE id = ?", (id,))
