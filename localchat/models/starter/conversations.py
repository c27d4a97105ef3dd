"""The training conversations: an endless, seeded stream, and its encoding into token ids with weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from localchat.models.starter.corpus import Intent, load_intents
from localchat.models.starter.paraphrase import ask, normalise
from localchat.models.starter.tasks import exercise
from localchat.models.starter.tokenizer import ASSISTANT_ID, BOS_ID, END_ID, SYSTEM_ID, USER_ID

EXERCISE_SHARE = 0.25
CUT_SHARE = 0.6
QUESTION_WEIGHT = (
    0.1  # Of a question's tokens: enough to learn which words stand together, little enough not to matter.
)
LONGEST = 640  # Tokens; longer conversations lose their last turns.
SYSTEMS = (
    "You are a helpful assistant.",
    "You are the guide of localchat.",
    "Answer briefly.",
    "Be friendly and precise.",
    "You are a careful programmer.",
    "Answer in English.",
    "You are an expert. Think before you answer.",
)
SHORTER = (
    "shorter please",
    "in one sentence?",
    "too long, shorter",
    "Can you say that in one sentence?",
    "make it shorter",
)
AGAIN = ("say that again", "repeat that", "Repeat your answer", "once more please", "again?", "what did you say?")


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer."""

    question: str
    answer: str
    cut: int = 0
    """Tokens of the answer to learn, 0 for all of it."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Some turns, after an optional system message."""

    turns: tuple[Turn, ...]
    system: str = ""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of a conversation and the weight of each as something to predict."""

    ids: tuple[int, ...]
    weights: tuple[float, ...]


@cache
def _shares() -> tuple[tuple[Intent, ...], tuple[float, ...]]:
    intents = load_intents()
    # The root keeps a much-asked intent from crowding out the others.
    shares = (
        intent.weight * (len(intent.ask) + 2 * len(intent.what + intent.how + intent.code)) ** 0.25
        for intent in intents
    )
    return intents, tuple(shares)


def _first_sentence(answer: str) -> str:
    end = answer.find(". ")
    return answer if end < 0 or "\n" in answer[:end] else answer[: end + 1]


def _guide_turn(rng: Random, banned: frozenset[str]) -> Turn:
    intents, shares = _shares()
    intent = rng.choices(intents, shares)[0]
    question = ask(intent, rng)
    while normalise(question) in banned:
        question = ask(intent, rng)
    # What must be learnt most is which answer a question wants, and its first words tell.
    cut = rng.randrange(8, 17) if rng.random() < CUT_SHARE else 0
    return Turn(question, intent.answer, cut)


def conversation(seed: int, index: int, banned: frozenset[str] = frozenset()) -> Conversation:
    """Conversation number `index` of the stream; no question of it is in `banned` (normalised questions)."""
    rng = Random(f"{seed}/{index}")
    system = rng.choice(SYSTEMS) if rng.random() < 0.15 else ""
    turns = [Turn(*exercise(rng)) if rng.random() < EXERCISE_SHARE else _guide_turn(rng, banned)]
    while rng.random() < 0.22 and len(turns) < 4 and not turns[-1].cut:
        kind = rng.random()
        if kind < 0.15:
            turns.append(Turn(rng.choice(AGAIN), turns[-1].answer))
        elif kind < 0.27:
            turns.append(Turn(rng.choice(SHORTER), _first_sentence(turns[-1].answer)))
        elif kind < 0.4:
            turns.append(Turn(*exercise(rng)))
        else:
            turns.append(_guide_turn(rng, banned))
    return Conversation(tuple(turns), system)


def stream(seed: int, start: int, banned: frozenset[str] = frozenset()) -> Iterator[Conversation]:
    """The conversations from number `start` on, without end."""
    index = start
    while True:
        yield conversation(seed, index, banned)
        index += 1


def encode(talk: Conversation, tokenizer: Any) -> Encoded:
    """Ids just as the chat template gives them; answers and their end weigh 1, questions `QUESTION_WEIGHT`."""
    ids, weights = [BOS_ID], [0.0]

    def add(role: int, text: str, weight: float, last: float) -> None:
        tokens = tokenizer.encode(text, add_special_tokens=False)
        ids.extend([role, *tokens, END_ID])
        weights.extend([0.0, *([weight] * len(tokens)), last])

    if talk.system:
        add(SYSTEM_ID, talk.system, 0.0, 0.0)
    for turn in talk.turns:
        add(USER_ID, turn.question.strip(), QUESTION_WEIGHT, 0.0)
        start = len(ids) + 1
        add(ASSISTANT_ID, turn.answer, 1.0, 1.0)
        if turn.cut:
            del ids[start + turn.cut :], weights[start + turn.cut :]
        if len(ids) > LONGEST:
            break
    return Encoded(tuple(ids[:LONGEST]), tuple(weights[:LONGEST]))


def tokenizer_texts(seed: int, conversations: int) -> Iterator[str]:
    """Texts to learn the tokenizer's merges from: every answer often, and part of the stream."""
    for intent in load_intents():
        for _ in range(4):
            yield intent.answer
    for index in range(conversations):
        for turn in conversation(seed, index).turns:
            yield turn.question
            yield turn.answer
