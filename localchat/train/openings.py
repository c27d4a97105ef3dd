"""What the target's own texts begin with: chat prompts, beginnings for base models, or questions to the guide."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain, count, zip_longest
from random import Random
from typing import Any

from localchat.chat.conversation import Conversation
from localchat.chat.prompt import Prompt
from localchat.models.plan import STARTER


@dataclass(frozen=True, slots=True)
class Opening:
    """Frames with a gap, and what each can be filled with."""

    form: str
    """chat or completion."""
    frames: tuple[str, ...]
    subjects: tuple[str, ...]

    def texts(self, random: Random) -> list[str]:
        """Every frame with every subject, in random order."""
        found = [frame.replace("{}", subject) for frame in self.frames for subject in self.subjects]
        random.shuffle(found)
        return found


@cache
def _openings() -> tuple[Opening, ...]:
    table = tomllib.loads(files("localchat.train").joinpath("openings.toml").read_text(encoding="utf-8"))
    return tuple(Opening(entry["form"], tuple(entry["frames"]), tuple(entry["subjects"])) for entry in table["opening"])


def texts(form: str, seed: int) -> Iterator[str]:
    """Beginnings of a form without end: kinds in turn, each beginning once before any comes again."""
    for turn in count():
        random = Random(f"{seed}/{turn}")
        lists = [opening.texts(random) for opening in _openings() if opening.form == form]
        yield from (text for text in chain.from_iterable(zip_longest(*lists)) if text is not None)


def _guide(seed: int) -> Iterator[str]:
    from localchat.models.starter.conversations import stream
    from localchat.models.starter.score import banned_questions

    return (talk.turns[0].question for talk in stream(seed, 0, banned_questions()))


def openings(model: str, tokenizer: Any, seed: int = 0) -> Iterator[tuple[int, ...]]:
    """Openings as token ids, without end, in the form that suits the model.

    Args:
        model: its name; the built-in guide gets questions it can answer.
        tokenizer: with a chat template they are put to it as messages, without one as beginnings of texts.
        seed: another one gives another order.
    """
    prompt = Prompt(tokenizer)
    if model == STARTER or tokenizer.chat_template:
        said = _guide(seed) if model == STARTER else texts("chat", seed)
        yield from (prompt.encode(Conversation().user(text)) for text in said)
    for text in texts("completion", seed):
        yield tuple(tokenizer(text)["input_ids"])
