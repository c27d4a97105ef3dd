"""Search: all words of a query, in titles and in messages, the newest first. No query is an error."""

from __future__ import annotations

import sqlite3
from collections import Counter

from localchat.chat.records import Hit

_LONGEST = 400
_WORDS = 16
_PER_CHAT = 3
"""Hits shown of one chat: a long one must not hide the others."""
_BEFORE, _SHOWN = 40, 160
"""Characters of a snippet: before the word, and in all."""

_TITLES = """SELECT c.id, c.title, c.updated FROM titled JOIN chat c ON c.id = titled.rowid
    WHERE titled MATCH ? AND c.deleted IS NULL ORDER BY c.updated DESC LIMIT ?"""
_MESSAGES = """SELECT m.id, m.chat, m.parent FROM found JOIN message m ON m.id = found.rowid
    WHERE found MATCH ? ORDER BY found.rowid DESC"""
# What the index cannot find: signs, and words inside of scripts that put no space between them.
_INSIDE_TITLES = """SELECT id, title, updated FROM chat
    WHERE instr(lower(title), ?) AND deleted IS NULL ORDER BY updated DESC LIMIT ?"""
_INSIDE_MESSAGES = "SELECT id, chat, parent FROM message WHERE instr(lower(text), ?) ORDER BY id DESC"
_HIT = """SELECT m.chat, c.title, m.id, substr(m.text, max(1, instr(lower(m.text), ?) - ?), ?), m.updated
    FROM message m JOIN chat c ON c.id = m.chat WHERE m.id = ?"""


def search(db: sqlite3.Connection, query: str, limit: int) -> list[Hit]:
    """Titles first, then messages; nothing for an empty query."""
    words = _words(query)
    if not words or limit <= 0:
        return []
    hits = _hits(db, _TITLES, _MESSAGES, _expression(words), words[0], limit)
    if not hits:
        inside = " ".join(words).lower()
        hits = _hits(db, _INSIDE_TITLES, _INSIDE_MESSAGES, inside, inside, limit)
    return hits


def _words(query: str) -> list[str]:
    shown = "".join(sign if sign.isprintable() else " " for sign in query[:_LONGEST])
    return shown.split()[:_WORDS]


def _expression(words: list[str]) -> str:
    """Each word as a phrase, so that no sign in it is an operator; empty if there is no letter or digit."""
    quoted = ['"{}"'.format(word.replace('"', '""')) for word in words if any(map(str.isalnum, word))]
    return f"{' '.join(quoted)}*" if quoted else '""'


def _hits(db: sqlite3.Connection, titles: str, messages: str, match: str, word: str, limit: int) -> list[Hit]:
    rows = db.execute(titles, (match, limit)).fetchall()
    hits = [Hit(chat, title, None, title, updated) for chat, title, updated in rows]
    titled = {hit.chat for hit in hits}
    for message in _chosen(db, messages, match, titled, limit - len(hits)):
        for chat, title, node, snippet, updated in db.execute(_HIT, (word.lower(), _BEFORE, _SHOWN, message)):
            hits.append(Hit(chat, title, node, " ".join(snippet.split()), updated))
    return hits


def _chosen(db: sqlite3.Connection, messages: str, match: str, titled: set[int], limit: int) -> list[int]:
    """The newest of each chat until there are enough; the rest is not even read."""
    deleted = {row[0] for row in db.execute("SELECT id FROM chat WHERE deleted IS NOT NULL")}
    chosen: list[int] = []
    shown: Counter[int] = Counter()
    if limit > 0:
        for message, chat, parent in db.execute(messages, (match,)):
            its_title = parent is None and chat in titled  # a title is the beginning of the first message
            if chat not in deleted and shown[chat] < _PER_CHAT and not its_title:
                shown[chat] += 1
                chosen.append(message)
                if len(chosen) >= limit:
                    break
    return chosen
