"""The store's tables, and how an older file becomes a newer one.

A step that was released is never changed: add another.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

Step = tuple[str, ...]

_FIRST: Step = (
    """CREATE TABLE chat (
        id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
        system TEXT NOT NULL, sampling TEXT, preset TEXT NOT NULL DEFAULT '', seed INTEGER,
        accelerate INTEGER NOT NULL, draft TEXT NOT NULL DEFAULT '', leaf INTEGER, deleted REAL)""",
    "CREATE INDEX chat_updated ON chat (updated)",
    "CREATE INDEX chat_deleted ON chat (deleted) WHERE deleted IS NOT NULL",
    # The parent is checked at commit: a chat goes with all its messages at once, however deep the tree is.
    """CREATE TABLE message (
        id INTEGER PRIMARY KEY AUTOINCREMENT, chat INTEGER NOT NULL REFERENCES chat (id) ON DELETE CASCADE,
        parent INTEGER REFERENCES message (id) DEFERRABLE INITIALLY DEFERRED, depth INTEGER NOT NULL,
        role TEXT NOT NULL, state TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
        writer INTEGER, tokens INTEGER NOT NULL DEFAULT 0, saved REAL NOT NULL DEFAULT 0, summary TEXT,
        text TEXT NOT NULL)""",
    "CREATE INDEX message_chat ON message (chat, state, tokens, saved)",
    "CREATE INDEX message_parent ON message (parent, chat)",
    """CREATE TABLE written (
        message INTEGER PRIMARY KEY REFERENCES message (id) ON DELETE CASCADE, record BLOB NOT NULL)""",
    "CREATE TABLE value (key BLOB PRIMARY KEY, text TEXT NOT NULL)",
    """CREATE TABLE comparison (
        id INTEGER PRIMARY KEY AUTOINCREMENT, created REAL NOT NULL, title TEXT NOT NULL, record TEXT NOT NULL)""",
    # A reply that grows twice a second is indexed once, at its end.
    "CREATE VIEW ended AS SELECT id, text FROM message WHERE state <> 'writing'",
    "CREATE VIRTUAL TABLE found USING fts5 (text, content='ended', content_rowid='id')",
    "CREATE VIRTUAL TABLE titled USING fts5 (title, content='chat', content_rowid='id')",
    """CREATE TRIGGER message_added AFTER INSERT ON message WHEN new.state <> 'writing' BEGIN
        INSERT INTO found (rowid, text) VALUES (new.id, new.text); END""",
    """CREATE TRIGGER message_changing BEFORE UPDATE OF text, state ON message WHEN old.state <> 'writing' BEGIN
        INSERT INTO found (found, rowid, text) VALUES ('delete', old.id, old.text); END""",
    """CREATE TRIGGER message_changed AFTER UPDATE OF text, state ON message WHEN new.state <> 'writing' BEGIN
        INSERT INTO found (rowid, text) VALUES (new.id, new.text); END""",
    """CREATE TRIGGER message_going BEFORE DELETE ON message WHEN old.state <> 'writing' BEGIN
        INSERT INTO found (found, rowid, text) VALUES ('delete', old.id, old.text); END""",
    """CREATE TRIGGER chat_added AFTER INSERT ON chat BEGIN
        INSERT INTO titled (rowid, title) VALUES (new.id, new.title); END""",
    """CREATE TRIGGER chat_changing BEFORE UPDATE OF title ON chat WHEN old.title IS NOT new.title BEGIN
        INSERT INTO titled (titled, rowid, title) VALUES ('delete', old.id, old.title); END""",
    """CREATE TRIGGER chat_changed AFTER UPDATE OF title ON chat WHEN old.title IS NOT new.title BEGIN
        INSERT INTO titled (rowid, title) VALUES (new.id, new.title); END""",
    """CREATE TRIGGER chat_going BEFORE DELETE ON chat BEGIN
        INSERT INTO titled (titled, rowid, title) VALUES ('delete', old.id, old.title); END""",
)

STEPS: tuple[Step, ...] = (_FIRST,)
"""What makes version n + 1 of version n."""


class NewerError(Exception):
    """The file was made by a newer localchat."""


def version(db: sqlite3.Connection) -> int:
    """How many steps the file has behind it."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrate(db: sqlite3.Connection, steps: Sequence[Step] = STEPS) -> None:
    """Bring the file to the newest version, as a whole or not at all.

    Raises:
        NewerError: the file is newer than that.
        sqlite3.Error: it cannot be read or written.
    """
    if version(db) == len(steps):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        done = version(db)  # again: another process may have been first
        if done > len(steps):
            raise NewerError
        for statement in (statement for step in steps[done:] for statement in step):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(steps)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
