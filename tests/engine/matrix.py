"""Drafters x settings x seeds x prompts against plain decoding: the headline claim, counted.

`python -m tests.engine.matrix` runs the whole matrix and prints one line per model; pytest runs a slice of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from localchat.engine.drafters import DRAFTERS, Parts, build, suits
from localchat.engine.target import Target
from localchat.engine.types import Drafter, Sampling
from tests.support.tiny import VOCABULARY, Generous, Perfect, RandomTree, generous, plain, tiny, write
from tests.support.tiny_heads import KINDS, tiny_head, whimsical

FILTERS = {"top_k": 20, "top_p": 0.9, "min_p": 0.02}
PENALTIES = {"repetition_penalty": 1.2, "presence_penalty": 0.4, "frequency_penalty": 0.3}

SETTINGS: tuple[Sampling, ...] = (
    Sampling(temperature=0.0),
    Sampling(temperature=0.0, **PENALTIES),  # type: ignore[arg-type]
    Sampling(temperature=0.7),
    Sampling(temperature=0.7, **FILTERS, **PENALTIES),  # type: ignore[arg-type]
    Sampling(temperature=1.0),
    Sampling(temperature=1.0, **FILTERS),  # type: ignore[arg-type]
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A reply that was not what plain decoding wrote."""

    drafter: str
    sampling: Sampling
    prompt: tuple[int, ...]
    at: int
    margin: float
    """Top-2 margin at the first difference, in units of logits."""


@dataclass(slots=True)
class Count:
    """What a matrix found."""

    replies: int = 0
    accepted: int = 0
    differences: tuple[Difference, ...] = ()


def prompts(count: int, vocabulary: int = VOCABULARY, longest: int = 60) -> list[list[int]]:
    """Random prompts, half of them with a repeated part so that lookup has something to find."""
    source = random.Random(7)
    found = []
    for index in range(count):
        size = source.randint(2, longest)
        base = [source.randrange(1, vocabulary) for _ in range(size)]
        found.append((base[: size // 2 + 1] * 2 if index % 2 else base)[:longest])
    return found


def drafters(parts: Parts, answer: Sequence[int], seed: int, kept: dict[str, Drafter]) -> Iterator[tuple[str, Drafter]]:
    """Every drafter that can be made of these parts, an adversary and an oracle."""
    for name in DRAFTERS:
        if suits(name, parts):
            if name not in kept:
                kept[name] = build(name, parts)
            yield name, kept[name]
    yield "random tree", RandomTree(seed, answer)
    yield "perfect", Perfect(answer)


def compare(
    target: Target,
    parts: Parts,
    texts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    tokens: int,
    settings: Sequence[Sampling] = SETTINGS,
    governor: Callable[[int], Generous] = lambda width: generous(fixed_width=width),
) -> Count:
    """Run the matrix on one target and count the replies that differ from plain decoding."""
    count = Count()
    kept: dict[str, Drafter] = {}
    for sampling in settings:
        for seed in seeds if sampling.temperature else seeds[:1]:
            rule = replace(sampling, seed=seed)
            for prompt in texts:
                answer, rounds = write(target, plain(), prompt, rule, tokens)
                margins = [round_.margin for round_ in rounds]
                for name, drafter in drafters(parts, answer, seed, kept):
                    reply, seen = write(target, drafter, prompt, rule, tokens, governor(target.fixed_width))
                    count.replies += 1
                    count.accepted += sum(r.accepted for r in seen)
                    if reply != answer:
                        at = next((i for i, (a, b) in enumerate(zip(reply, answer, strict=False)) if a != b), -1)
                        found = Difference(name, rule, tuple(prompt), at, margins[at])
                        count.differences = (*count.differences, found)
    return count


def subject(kind: str) -> tuple[Target, Target, list[list[int]]]:
    """A target, a draft model and 20 prompts: a tiny random model, or the starter pair with questions to it."""
    if kind != "starter":
        return Target(tiny(kind), 256), Target(tiny("llama", seed=1, layers=1), 256), prompts(20)
    from localchat.chat.conversation import Conversation
    from localchat.chat.prompt import Prompt
    from localchat.models.loader import load
    from localchat.models.plan import LoadPlan, Precision
    from localchat.models.starter.score import load_questions

    plan = LoadPlan(precision=Precision.FP32, draft_precision=Precision.FP32, context=512)
    models = load(plan, lambda *_: None)
    pair = [Target(model.double(), 512, models.vocab) for model in (models.target_model, models.draft_model) if model]
    prompt = Prompt(models.tokenizer)
    asked = [prompt.encode(Conversation().user(question.ask)) for question in load_questions()[:20]]
    return pair[0], pair[1], [list(ids) for ids in asked]


def main() -> None:
    """The whole matrix in float64: 20 prompts, some seeds where there is chance, every setting, drafter and head."""
    import sys

    for kind in sys.argv[1:] or ("llama", "qwen3", "gemma3", "starter"):
        target, draft, texts = subject(kind)
        say(f"{kind}, draft model", compare(target, Parts(target, draft), texts, range(5), 24))
        for head in KINDS:
            parts = Parts(target, head=tiny_head(head, target.model))
            say(f"{kind}, random {head}", compare(target, parts, texts, range(2), 24, governor=whimsical))


def say(what: str, found: Count) -> None:
    """One line of a matrix."""
    differ = len(found.differences)
    print(f"{what}: {found.replies} replies, {found.accepted} drafted tokens accepted, {differ} differ", flush=True)


if __name__ == "__main__":
    main()
