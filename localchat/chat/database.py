"""The store's file as threads share it: one connection behind a lock, failures in words."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from localchat.chat import opening
from localchat.chat.records import StoreError


class Database:
    """What `Store` reads and writes through.

    Args:
        path: the file; None if `db` is in memory.
    """

    def __init__(self, db: sqlite3.Connection, path: Path | None) -> None:
        self._db, self._path, self._lock = db, path, threading.RLock()
        self._within = False

    @property
    def lasting(self) -> bool:
        """False: kept in memory until the program ends."""
        return self._path is not None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Several changes as one: all of them are kept, or none."""
        with self._writing():
            yield

    def close(self) -> None:
        """Close the file; calling twice is fine."""
        with self._lock, suppress(sqlite3.Error):
            self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except opening.ERRORS as error:
                raise self._explained(error) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as db:
            if self._within:
                yield db
                return
            db.execute("BEGIN IMMEDIATE")
            self._within = True
            try:
                yield db
                db.execute("COMMIT")
            finally:
                self._within = False
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _explained(self, error: Exception) -> StoreError:
        if opening.damaged(error) and self._path is not None:
            with suppress(OSError):
                opening.mark(self._path).touch(mode=0o600)
        return opening.explained(error)
