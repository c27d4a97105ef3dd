"""What the list of chats shows, as text."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from localchat.sanitize import clean

LONGEST = 200
"""Characters of a title."""


def day(moment: float, today: date) -> str:
    """The day as a heading."""
    then = datetime.fromtimestamp(moment).date()
    if then >= today:
        return "Today"
    if then == today - timedelta(days=1):
        return "Yesterday"
    if then > today - timedelta(days=7):
        return f"{then:%A}"
    if then.year == today.year:
        return f"{then.day} {then:%B}"
    return f"{then:%B %Y}"


def line(text: str) -> str:
    """Text as one safe line, not longer than anybody reads."""
    return " ".join(clean(text[: 4 * LONGEST]).split())[:LONGEST]


def around(snippet: str, word: str) -> str:
    """The snippet from shortly before the word: a narrow list shows only its beginning."""
    place = snippet.casefold().find(word.casefold())
    return f"…{snippet[place - 8 :]}" if place > 10 else snippet
