"""The guide's questions and answers, as data: one TOML table per intent.

`ask` holds whole questions, `what` noun phrases, `how` verb phrases, `key` keys, `command` commands and `code`
programming tasks; `paraphrase` puts the phrases into question frames. `plain` intents are taken as they stand.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PHRASES = ("ask", "what", "how", "key", "command", "code")
MORE = ("more_speculation", "more_screens", "more_commands", "more_memory", "more_small_talk", "situations")
FILES = ("speculation", "screens", "commands", "memory", "small_talk", "python_snippets", "long_answers")


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing a user may want to know, with its only answer."""

    name: str
    answer: str
    ask: tuple[str, ...] = ()
    what: tuple[str, ...] = ()
    how: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    plain: bool = False
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.answer or not any(self.phrases(kind) for kind in PHRASES):
            raise ValueError(f"intent {self.name} lacks an answer or a question")

    def phrases(self, kind: str) -> tuple[str, ...]:
        """The phrases of one kind out of `PHRASES`."""
        found: tuple[str, ...] = getattr(self, kind)
        return found


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def load_intents() -> tuple[Intent, ...]:
    """All intents in the order of the files; raises ValueError for a name used twice or unknown."""
    more: dict[str, list[str]] = {}
    for file in MORE:
        for name, asks in _read(file).items():
            more.setdefault(name, []).extend(asks)
    intents: list[Intent] = []
    for name in FILES:
        tables = _read(name)["intent"]
        intents += [
            Intent(
                name=table["id"],
                answer=table["answer"].strip(),
                ask=(*table.get("ask", ()), *more.pop(table["id"], ())),
                what=tuple(table.get("what", ())),
                how=tuple(table.get("how", ())),
                key=tuple(table.get("key", ())),
                command=tuple(table.get("command", ())),
                code=tuple(table.get("code", ())),
                plain=table.get("plain", False),
                weight=table.get("weight", 1.0),
            )
            for table in tables
        ]
    names = [intent.name for intent in intents]
    if len(set(names)) != len(names) or more:
        raise ValueError(f"intents that share a name, or questions without an intent: {sorted(more)}")
    return tuple(intents)
