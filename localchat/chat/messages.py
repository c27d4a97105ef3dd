"""The messages of the chats: trees, in which versions of a message are siblings."""

from __future__ import annotations

import os
import time

from localchat.chat import rows
from localchat.chat.conversation import Conversation, Message, Role
from localchat.chat.database import Database
from localchat.chat.records import Node, State, Summary, Totals, Written

CRASHED_SECONDS = 2.0
"""A reply that was left alone for so long has nobody who writes it: its recorder shows up more often."""

_UP = """WITH RECURSIVE up (id, parent, n) AS (
    SELECT id, parent, 1 FROM message WHERE id = ?
    UNION ALL SELECT m.id, m.parent, n + 1 FROM up JOIN message m ON m.id = up.parent WHERE n < ?)"""
_TIP = """WITH RECURSIVE below (id, chat) AS (
    SELECT id, chat FROM message WHERE id = ?
    UNION ALL SELECT m.id, m.chat FROM below JOIN message m ON m.parent = below.id AND m.chat = below.chat)
    SELECT max(id) FROM below"""


class Messages(Database):
    """The part of the store that knows messages. Every method raises `StoreError` where the file fails."""

    def add(self, chat: int, parent: int | None, role: Role, text: str, state: State = State.COMPLETE) -> Node:
        """A new message below `parent` (None: at the top); the chat shows it from now on, and is no longer deleted.

        The first user message gives a chat without a title its title.

        Raises:
            MissingError: there is no such chat, or no such parent in it.
        """
        now = time.time()
        with self._writing() as db:
            depth = 1
            if parent is not None:
                above = db.execute("SELECT depth FROM message WHERE id = ? AND chat = ?", (parent, chat)).fetchone()
                depth = rows.found(above)[0] + 1
            title = rows.title(text) if role is Role.USER else ""
            changed = db.execute(
                """UPDATE chat SET updated = ?, deleted = NULL,
                title = CASE title WHEN '' THEN CAST(? AS TEXT) ELSE title END WHERE id = ?""",
                (now, rows.raw(title), chat),
            ).rowcount
            rows.found(changed or None)
            row = db.execute(
                """INSERT INTO message (chat, parent, depth, role, text, state, created, updated, writer)
                VALUES (?, ?, ?, ?, CAST(? AS TEXT), ?, ?, ?, ?) RETURNING id""",
                (chat, parent, depth, role, rows.raw(text), state, now, now, os.getpid()),
            ).fetchone()
            db.execute("UPDATE chat SET leaf = ? WHERE id = ?", (row[0], chat))
        return Node(row[0], chat, parent, role, text, state, now, now, None)

    def node(self, id: int) -> Node:
        """One message.

        Raises:
            MissingError: there is none with this id.
        """
        with self._reading() as db:
            row = db.execute(f"SELECT {rows.NODE} FROM message m WHERE m.id = ?", (id,)).fetchone()
        return rows.node(rows.found(row))

    def nodes(self, chat: int) -> list[Node]:
        """The whole tree, each message after its parent."""
        with self._reading() as db:
            found = db.execute(f"SELECT {rows.NODE} FROM message m WHERE m.chat = ? ORDER BY m.id", (chat,)).fetchall()
        return [rows.node(row) for row in found]

    def path(self, leaf: int, last: int = 0) -> list[Node]:
        """The messages from the first one to `leaf`, or only the last few of them."""
        with self._reading() as db:
            found = db.execute(
                f"{_UP} SELECT {rows.NODE} FROM up JOIN message m USING (id) ORDER BY n DESC", (leaf, last or 2**62)
            ).fetchall()
        return [rows.node(row) for row in found]

    def conversation(self, leaf: int, system: str | None = None) -> Conversation:
        """What was said up to `leaf`, below a system message (None: the chat's): the quick way to a prompt."""
        with self._reading() as db:
            own = rows.found(
                db.execute(
                    "SELECT c.system FROM chat c JOIN message m ON m.chat = c.id WHERE m.id = ?", (leaf,)
                ).fetchone()
            )[0]
            found = db.execute(
                f"{_UP} SELECT m.role, m.text FROM up JOIN message m USING (id) ORDER BY n DESC", (leaf, 2**62)
            )
            said = tuple(Message(Role(role), text) for role, text in found)
        return Conversation((*Conversation.begin(own if system is None else system).messages, *said))

    def count(self, leaf: int) -> int:
        """How many messages lead to `leaf`, itself included."""
        with self._reading() as db:
            row = db.execute("SELECT depth FROM message WHERE id = ?", (leaf,)).fetchone()
        return int(row[0]) if row else 0

    def versions(self, id: int) -> list[int]:
        """The messages with the same parent, oldest first, itself included."""
        with self._reading() as db:
            found = db.execute(
                """SELECT s.id FROM message m JOIN message s ON s.parent IS m.parent AND s.chat = m.chat
                WHERE m.id = ? ORDER BY s.id""",
                (id,),
            ).fetchall()
        return [row[0] for row in found]

    def tip(self, id: int) -> int:
        """The newest message below this one; itself if there is none."""
        with self._reading() as db:
            row = db.execute(_TIP, (id,)).fetchone()
        return int(row[0] or id)

    def keep(self, id: int, text: str, state: State, summary: Summary | None = None) -> None:
        """Replace a message's text and state; a summary stays unless a new one is given.

        Raises:
            MissingError: there is no such message.
        """
        now, tokens, saved = time.time(), None, None
        if summary is not None:
            tokens, saved = summary.tokens, summary.saved_seconds
        with self._writing() as db:
            changed = db.execute(
                """UPDATE message SET text = CAST(? AS TEXT), state = ?, updated = ?, writer = ?,
                tokens = coalesce(?, tokens), saved = coalesce(?, saved), summary = coalesce(?, summary)
                WHERE id = ?""",
                (rows.raw(text), state, now, os.getpid(), tokens, saved, rows.json(summary), id),
            ).rowcount
            rows.found(changed or None)
            if state is not State.WRITING:
                db.execute("UPDATE chat SET updated = ? WHERE id = (SELECT chat FROM message WHERE id = ?)", (now, id))

    def remove(self, id: int) -> None:
        """Take out a message that has nothing below it; where it was shown, its parent is shown."""
        below = "NOT EXISTS (SELECT 1 FROM message WHERE parent = ?1)"
        with self._writing() as db:
            db.execute(
                f"""UPDATE chat SET leaf = (SELECT parent FROM message WHERE id = ?1) WHERE leaf = ?1 AND {below}""",
                (id,),
            )
            db.execute(f"DELETE FROM message WHERE id = ?1 AND {below}", (id,))

    def alive(self, id: int) -> None:
        """Say that a message is still being written, though there is no new text."""
        with self._writing() as db:
            db.execute("UPDATE message SET updated = ? WHERE id = ?", (time.time(), id))

    def keep_written(self, id: int, written: Written) -> None:
        """Keep how a reply was written, token by token."""
        packed = rows.packed(written)
        with self._writing() as db:
            db.execute("REPLACE INTO written (message, record) VALUES (?, ?)", (id, packed))

    def written(self, id: int) -> Written | None:
        """How a reply was written, if that was kept."""
        with self._reading() as db:
            row = db.execute("SELECT record FROM written WHERE message = ?", (id,)).fetchone()
        return rows.unpacked(row[0]) if row else None

    def totals(self, chat: int) -> Totals:
        """What the replies of a chat add up to."""
        with self._reading() as db:
            row = db.execute("SELECT count(*), sum(tokens), sum(saved) FROM message WHERE chat = ?", (chat,)).fetchone()
        return Totals(row[0], row[1] or 0, row[2] or 0.0)

    def _insert(self, chat: int, node: Node, parent: int | None, depth: int) -> int:
        summary = node.summary
        figures = (summary.tokens, summary.saved_seconds) if summary else (0, 0.0)
        row = self._db.execute(
            """INSERT INTO message (chat, parent, depth, role, text, state, created, updated, tokens, saved, summary)
            VALUES (?, ?, ?, ?, CAST(? AS TEXT), ?, ?, ?, ?, ?, ?) RETURNING id""",
            (
                *(chat, parent, depth, node.role, rows.raw(node.text), node.state, node.created, node.updated),
                *(*figures, rows.json(summary)),
            ),
        ).fetchone()
        return int(row[0])

    def interrupted(self, chat: int) -> list[Node]:
        """Replies that nobody writes any more: their program ended in the middle."""
        lately = time.time() - CRASHED_SECONDS
        with self._reading() as db:
            found = db.execute(
                f"SELECT {rows.NODE}, m.writer FROM message m WHERE m.chat = ? AND m.state = ? ORDER BY m.id",
                (chat, State.WRITING),
            ).fetchall()
        nodes = [(rows.node(row), writer) for *row, writer in found]
        return [node for node, writer in nodes if node.updated < lately or _ended(writer)]


def _ended(process: int | None) -> bool:
    """The process is known to be gone; where that cannot be told, its silence will."""
    if process is None or os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
