"""Opening the store's file, whatever state it is in. Where it cannot be used, a copy in memory stands in for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from localchat.chat import schema
from localchat.chat.records import StoreError
from localchat.paths import private_dir

BUSY_SECONDS = 5.0
"""How long a write waits for another process."""

_OPENING_SECONDS = 2.0
"""The same while opening: somebody is waiting for the first frame."""

ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What a call can raise: Python cannot even read SQLite's message where the message quotes damaged bytes."""

_RESTART = "Leave and start again: the damaged file is kept aside and a new one started."
_WRITABLE = "Make it and its folder writable, then start again."
_MEMORY = "new chats are kept in memory until you leave"


@dataclass(frozen=True, slots=True)
class Connected:
    """An open store, and what is to be said about it."""

    db: sqlite3.Connection
    notice: str
    lasting: bool
    """False: it is in memory alone."""


def connect(path: Path) -> Connected:
    """Open or make the file; never fails."""
    try:
        return Connected(_open(path), "", lasting=True)
    except schema.NewerError:
        reason = f"{path} was made by a newer localchat and is left alone"
        return Connected(_fresh(), f"{reason}: {_MEMORY}. Update localchat to use it.", lasting=False)
    except ERRORS as error:
        if damaged(error) or code(error) == sqlite3.SQLITE_ERROR:  # the latter: it holds something else than chats
            return _replaced(path)
        return _borrowed(path, *_reason(path, error))
    except OSError as error:
        return _borrowed(path, f"{path} cannot be written ({error.strerror})", _WRITABLE)


def code(error: Exception) -> int:
    """SQLite's primary result code, 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def damaged(error: Exception) -> bool:
    """The file is not what was written."""
    return isinstance(error, UnicodeDecodeError) or code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def mark(path: Path) -> Path:
    """The file that asks for a full check at the next opening: damage was met while working."""
    return path.with_name(f"{path.name}.check")


def explained(error: Exception) -> StoreError:
    """A failure while working, in words."""
    if damaged(error):
        return StoreError("The file of the chats is damaged.", _RESTART)
    again = "Nothing else is lost; try again when that is settled."
    reasons = {
        sqlite3.SQLITE_BUSY: ("Another program holds the chats, so this was not saved.", again),
        sqlite3.SQLITE_LOCKED: ("Another program holds the chats, so this was not saved.", again),
        sqlite3.SQLITE_FULL: ("The disk is full, so this was not saved.", "Make room, then try again."),
        sqlite3.SQLITE_IOERR: ("The disk is full or failing, so this was not saved.", "Make room, then try again."),
        sqlite3.SQLITE_READONLY: ("The chats can no longer be written, so this was not saved.", again),
    }
    sentence, hint = reasons.get(code(error), (f"The chats cannot be used: {error}.", "Leave and start again."))
    return StoreError(sentence, hint)


def _reason(path: Path, error: Exception) -> tuple[str, str]:
    held = (f"{path} is held by another program", "Close that program, then start again.")
    full = (f"The disk of {path} is full or failing", "Make room, then start again.")
    reasons = {
        sqlite3.SQLITE_BUSY: held,
        sqlite3.SQLITE_LOCKED: held,
        sqlite3.SQLITE_FULL: full,
        sqlite3.SQLITE_IOERR: full,
        sqlite3.SQLITE_READONLY: (f"{path} is read-only", _WRITABLE),
    }
    return reasons.get(code(error), (f"{path} cannot be used ({error})", _WRITABLE))


def _connection(path: Path | str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_OPENING_SECONDS, isolation_level=None, check_same_thread=False)
    db.text_factory = _text
    db.execute("PRAGMA foreign_keys = ON")
    return db


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def _open(path: Path) -> sqlite3.Connection:
    private_dir(path.parent)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its helper files the same rights
    db = _connection(path)
    try:
        _prepare(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    if schema.version(db) > len(schema.STEPS):
        raise schema.NewerError
    _use_wal(db)
    db.execute("PRAGMA synchronous = NORMAL")
    schema.migrate(db)
    db.execute("SELECT count(*) FROM (SELECT * FROM chat ORDER BY updated DESC LIMIT 10)").fetchone()
    with contextlib.suppress(OSError):
        if mark(path).exists():
            damage = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            mark(path).unlink()
            if damage != "ok":
                error = sqlite3.DatabaseError(damage)
                error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise error
    db.execute("BEGIN IMMEDIATE")  # a file that cannot be written is found out now, not with the first message
    db.execute("ROLLBACK")
    db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")


def _use_wal(db: sqlite3.Connection) -> None:
    """Two processes that make the file at once can each be refused for a moment, and SQLite does not wait here."""
    until = time.monotonic() + _OPENING_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def _fresh() -> sqlite3.Connection:
    db = _connection(":memory:")
    schema.migrate(db)
    return db


def _borrowed(path: Path, reason: str, advice: str) -> Connected:
    """A copy in memory of what can be read; the file itself is not touched."""
    try:
        db, shown = _copied(path), "your chats are shown, "
    except (OSError, *ERRORS, schema.NewerError):
        db, shown = _fresh(), ""
    return Connected(db, f"{reason}: {shown}{_MEMORY}. {advice}", lasting=False)


def _copied(path: Path) -> sqlite3.Connection:
    with tempfile.TemporaryDirectory(prefix="localchat-") as folder:
        copy = Path(folder) / path.name
        for ending in ("", "-wal"):
            source = path.with_name(path.name + ending)
            if source.exists() or not ending:
                shutil.copyfile(source, copy.with_name(copy.name + ending))
        with contextlib.closing(_connection(copy)) as db:
            schema.migrate(db)
            memory = _connection(":memory:")
            db.backup(memory)
    return memory


def _replaced(path: Path) -> Connected:
    """Keep a damaged file aside, under a name that no other process takes, and start a new one."""
    aside = path.with_name(f"{path.name}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    try:
        for ending in ("-wal", "-shm", ""):
            source = path.with_name(path.name + ending)
            if source.exists():
                source.replace(aside.with_name(aside.name + ending))
        db = _open(path)
    except (OSError, *ERRORS, schema.NewerError):
        notice = f"{path} is damaged and could not be set aside: {_MEMORY}. Move it away, then start again."
        return Connected(_fresh(), notice, lasting=False)
    return Connected(db, f"The chats were damaged: they are kept as {aside}, and a new file is started.", lasting=True)
