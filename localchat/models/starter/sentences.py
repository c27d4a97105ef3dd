"""Made-up sentences, stories and code for the exercises, put together from word lists."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Words:
    """The word lists, by name; the tables as pairs."""

    lists: dict[str, tuple[str, ...]]
    tables: dict[str, tuple[tuple[str, str], ...]]

    def pick(self, name: str, rng: Random) -> str:
        """One word of the list."""
        return rng.choice(self.lists[name])

    def pair(self, name: str, rng: Random) -> tuple[str, str]:
        """One row of the table."""
        return rng.choice(self.tables[name])


@cache
def load_words() -> Words:
    """The lists of corpus/words.toml; the tables of a language are named like `german.subjects`."""
    path = Path(__file__).parent / "corpus" / "words.toml"
    data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    tables: dict[str, tuple[tuple[str, str], ...]] = {}
    for name, value in data.items():
        if not isinstance(value, dict):
            continue
        for key, inner in value.items():
            if isinstance(inner, dict):
                tables[f"{name}.{key}"] = tuple(inner.items())
        if name not in ("german", "french"):
            tables[name] = tuple(value.items())
    return Words(lists, tables)


def sentence(rng: Random) -> str:
    """One made-up sentence in the past tense."""
    words = load_words()
    who = words.pick("people" if rng.random() < 0.5 else "roles", rng)
    parts = [who, words.pick("verbs", rng), words.pick("things", rng)]
    if rng.random() < 0.8:
        parts.append(words.pick("places", rng))
    if rng.random() < 0.7:
        parts.append(words.pick("times", rng))
    text = " ".join(parts)
    return text[0].upper() + text[1:] + "."


def paragraph(rng: Random, sentences: int) -> list[str]:
    """That many sentences; the first one carries the point, the others may be remarks."""
    words = load_words()
    rest = [words.pick("extras", rng) if rng.random() < 0.4 else sentence(rng) for _ in range(sentences - 1)]
    return [sentence(rng), *rest]


def story(rng: Random) -> str:
    """A short tale from a template."""
    words = load_words()
    hero = f"{words.pick('adjectives', rng)} {words.pick('animals', rng)}"
    friend = f"{words.pick('adjectives', rng)} {words.pick('animals', rng)}"
    name = words.pick("people", rng)
    a_hero, a_friend = (f"{'an' if animal[0] in 'aeiou' else 'a'} {animal}" for animal in (hero, friend))
    treasure, land, virtue = (words.pick(key, rng) for key in ("treasures", "lands", "virtues"))
    start = rng.choice(("Once upon a time", "Long ago", "One day", "Many years ago"))
    end = rng.choice(
        ("From that day on they were friends.", "They went home together.", "And so the journey ended well.")
    )
    return (
        f"{start} there lived {a_hero} called {name} in {land}. {name} had heard of {treasure} and wanted to find it. "
        f"On the way {a_friend} asked for help, and {name} stopped to give it. In return the {friend.split()[1]} "
        f"showed the right path, and at sunset they found {treasure}. {name} learnt that {virtue} is worth more than "
        f"any treasure. {end}"
    )


def function_name(rng: Random) -> str:
    """A name such as `load_user`."""
    words = load_words()
    return f"{words.pick('actions', rng)}_{words.pick('nouns', rng)}"


def function(name: str, rng: Random) -> str:
    """A small made-up Python function of that name."""
    words = load_words()
    a, b = rng.sample(words.lists["variables"], 2)
    number = rng.randrange(1, 20)
    bodies = (
        f"def {name}({a}, {b}):\n    return {a} {rng.choice('+-*')} {b}",
        f"def {name}({a}):\n    {b} = {a} * {number}\n    return {b}",
        f"def {name}({a}):\n    if {a} > {number}:\n        return {a}\n    return {number}",
        f"def {name}({a}):\n    {b} = []\n    for part in {a}:\n        {b}.append(part)\n    return {b}",
        f"def {name}({a}):\n    {b} = 0\n    for part in {a}:\n        {b} += part\n    return {b}",
        f'def {name}({a}):\n    print("{a}", {a})\n    return {a} + {number}',
        f"def {name}({a}, {b}={number}):\n    return [part for part in {a} if part > {b}]",
    )
    return rng.choice(bodies)


def fenced(code: str) -> str:
    """The code as a Markdown block."""
    return f"```python\n{code}\n```"
