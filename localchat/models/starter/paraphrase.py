"""Many wordings of one question: frames, synonyms, politeness, lost words and typing errors.

Everything is drawn from the `random.Random` that is handed in, so the same seed gives the same questions.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from localchat.models.starter.corpus import PHRASES, Intent


@dataclass(frozen=True, slots=True)
class Wordings:
    """The word lists of corpus/wordings.toml."""

    frames: dict[str, tuple[str, ...]]
    replacements: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]
    """A word, and what may stand for it."""
    prefixes: tuple[str, ...]
    suffixes: tuple[str, ...]
    fillers: frozenset[str]


@cache
def load_wordings() -> Wordings:
    """Read the lists once."""
    data = tomllib.loads((Path(__file__).parent / "corpus" / "wordings.toml").read_text(encoding="utf-8"))
    replacements = tuple(
        (re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])", re.IGNORECASE), tuple(w for w in group if w != word))
        for group in data["synonyms"]
        for word in group
    )
    return Wordings(
        {kind: tuple(frames) for kind, frames in data["frames"].items()},
        replacements,
        tuple(data["prefixes"]),
        tuple(data["suffixes"]),
        frozenset(data["fillers"]),
    )


def normalise(question: str) -> str:
    """The question in lower case, with neither punctuation nor doubled spaces: for telling whether two are the same."""
    return " ".join(re.sub(r"[^\w\s]", " ", question.lower()).split())


def put_synonym(text: str, rng: Random) -> str:
    """Replace one word or phrase of the question by another that means the same, if there is one."""
    hits = [(pattern, words) for pattern, words in load_wordings().replacements if pattern.search(text)]
    if not hits:
        return text
    pattern, words = rng.choice(hits)
    word = rng.choice(words)
    return pattern.sub(lambda match: word, text, count=1)


def put_typo(text: str, rng: Random) -> str:
    """Swap, drop or double one letter of a word of at least four letters."""
    spots = list(re.finditer(r"[A-Za-z]{4,}", text))
    if not spots:
        return text
    spot = rng.choice(spots)
    at = rng.randrange(spot.start(), spot.end() - 1)
    kind = rng.randrange(3)
    if kind == 0:
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    if kind == 1:
        return text[:at] + text[at + 1 :]
    return text[: at + 1] + text[at:]


def lose_words(text: str, rng: Random) -> str:
    """Keep the key words only, or drop words at random: hasty questions look like that."""
    words = text.rstrip("?.!").split()
    if rng.random() < 0.4:
        kept = [word for word in words if word.lower().strip(",'") not in load_wordings().fillers]
        if rng.random() < 0.3:
            rng.shuffle(kept)
    else:
        kept = [word for word in words if rng.random() > 0.2]
    return " ".join(kept) if len(kept) >= 2 else text


def framed(intent: Intent, rng: Random) -> str:
    """One question of the intent before any noise: a whole one, or a phrase in a frame."""
    kinds = [kind for kind in PHRASES if intent.phrases(kind)]
    # Whole questions were written one by one, so each of them is worth several framed ones.
    shares = [len(intent.phrases(kind)) ** 0.5 * (1.5 if kind == "ask" else 1.0) for kind in kinds]
    kind = rng.choices(kinds, shares)[0]
    phrase = rng.choice(intent.phrases(kind))
    if kind == "ask":
        return phrase[0].upper() + phrase[1:] if rng.random() < 0.4 else phrase
    return rng.choice(load_wordings().frames[kind]).format(phrase)


def ask(intent: Intent, rng: Random) -> str:
    """One wording of the intent's question."""
    text = framed(intent, rng)
    if not intent.plain:
        while rng.random() < 0.6:
            text = put_synonym(text, rng)
        if rng.random() < 0.15:
            text = lose_words(text, rng)
        if rng.random() < 0.25:
            start = rng.choice(load_wordings().prefixes)
            text = start + (text if text[:2].isupper() else text[0].lower() + text[1:])
        if rng.random() < 0.20:
            text = text.rstrip("?.!") + rng.choice(load_wordings().suffixes)
    if rng.random() < 0.12:
        text = put_typo(text, rng)
    if rng.random() < 0.4:
        text = text.lower()
    ending = rng.random()
    if ending < 0.35:
        text = text.rstrip("?.!") or text
    elif ending < 0.75 and text[-1:].isalnum():
        text += "?" if not intent.plain else rng.choice((".", "!", ""))
    return text
