"""The pair's marks: share of held-out questions answered with every required fact, and how often the draft agrees.

`python -m localchat.models.starter.score` prints both for the stored pair.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from localchat.models.starter import DRAFT, HOME, TARGET
from localchat.models.starter.decode import Sampler, decode, matches, tokens_per_round
from localchat.models.starter.paraphrase import normalise
from localchat.models.starter.tokenizer import ASSISTANT_ID, BOS_ID, END_ID, USER_ID

LONGEST = 480  # Tokens of an answer.
STEP_COST = 0.145  # One draft step in units of a target step, as measured for such a pair on two cores.


@dataclass(frozen=True, slots=True)
class Question:
    """A held-out question; an answer must hold one alternative out of each of `facts`."""

    ask: str
    facts: tuple[tuple[str, ...], ...]

    def answered_by(self, answer: str) -> bool:
        """Whether the answer holds all required facts."""
        return all(any(fact in answer.lower() for fact in alternatives) for alternatives in self.facts)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the draft does on the target's own answers at one temperature."""

    temperature: float
    agreed: float
    """Share of answer tokens that the draft would have picked too."""
    per_round: float
    """Tokens per round with the best chain length."""
    depth: int
    speedup: float
    """Predicted from `per_round` at `STEP_COST`, with a verification as dear as a plain step."""


@dataclass(frozen=True, slots=True)
class Score:
    """The marks of a pair."""

    share: float
    missed: tuple[tuple[str, str], ...]
    """Question and answer where a fact is missing."""
    agreements: tuple[Agreement, ...]


@cache
def load_questions(name: str = "heldout") -> tuple[Question, ...]:
    """The held-out questions, or those of development.toml, which were used to find gaps in the corpus."""
    tables = tomllib.loads((HOME / f"{name}.toml").read_text(encoding="utf-8"))["question"]
    return tuple(Question(table["ask"], tuple(tuple(fact) for fact in table["facts"])) for table in tables)


def banned_questions() -> frozenset[str]:
    """The held-out and the development questions, normalised: none may occur in training."""
    return frozenset(normalise(question.ask) for question in load_questions() + load_questions("development"))


def prompt_ids(question: str, tokenizer: Any) -> list[int]:
    """What the chat template makes of a single question, ready for the answer."""
    return [BOS_ID, USER_ID, *tokenizer.encode(question.strip(), add_special_tokens=False), END_ID, ASSISTANT_ID]


def held_out_answers(target: Any, tokenizer: Any) -> list[str]:
    """The target's greedy answers to the held-out questions."""
    prompts = [prompt_ids(question.ask, tokenizer) for question in load_questions()]
    return [tokenizer.decode(ids, skip_special_tokens=True) for ids in decode(target, prompts, Sampler(), LONGEST)]


def agreement(target: Any, draft: Any, prompts: Sequence[Sequence[int]], temperature: float) -> Agreement:
    """Let the target answer and see where the draft would have chosen alike."""
    sampler = Sampler(temperature, seed=11)
    answers = decode(target, prompts, sampler, LONGEST)
    agreed = matches(draft, prompts, answers, sampler)
    tokens = [token for answer in agreed for token in answer]
    rounds = {depth: tokens_per_round(agreed, depth) for depth in range(1, 13)}
    depth = max(rounds, key=lambda depth: rounds[depth] / (1 + depth * STEP_COST))
    speedup = rounds[depth] / (1 + depth * STEP_COST)
    return Agreement(temperature, sum(tokens) / len(tokens), rounds[depth], depth, speedup)


def score_pair(target: Any, draft: Any, tokenizer: Any) -> Score:
    """Both marks of a loaded pair."""
    questions = load_questions()
    answers = held_out_answers(target, tokenizer)
    missed = tuple((q.ask, answer) for q, answer in zip(questions, answers, strict=True) if not q.answered_by(answer))
    prompts = [prompt_ids(question.ask, tokenizer) for question in questions]
    agreements = tuple(agreement(target, draft, prompts, temperature) for temperature in (0.0, 0.8))
    return Score(1 - len(missed) / len(questions), missed, agreements)


def report(score: Score) -> str:
    """The marks as a few lines of text."""
    lines = [f"held-out questions answered: {score.share:.1%}"]
    lines += [
        f"temperature {a.temperature}: draft agrees on {a.agreed:.1%} of tokens, {a.per_round:.2f} tokens per round "
        f"at depth {a.depth}, predicted speedup {a.speedup:.2f}"
        for a in score.agreements
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the marks of the stored pair and the questions it missed."""
    import sys

    from localchat.models.starter.shapes import load_model
    from localchat.models.starter.tokenizer import load_tokenizer

    home = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    folders = (home / "target", home / "draft") if home else (TARGET, DRAFT)
    target, draft = (load_model(folder) for folder in folders)
    score = score_pair(target, draft, load_tokenizer(folders[0]))
    for question, answer in score.missed:
        print(f"missed: {question}\n    {answer}\n")
    print(report(score))


if __name__ == "__main__":
    main()
