"""Tiny random models and drafters made to be wrong (or right) on purpose."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from localchat.engine.detokenize import Stopper
from localchat.engine.drafters import Parts, build
from localchat.engine.generate import generate
from localchat.engine.governor import Governor, Timings
from localchat.engine.sampling import Picker
from localchat.engine.target import Target
from localchat.engine.types import (
    NO_DRAFT,
    ROOT,
    Draft,
    Drafter,
    Needs,
    Pick,
    Room,
    Round,
    Sampling,
    Tapped,
    Verdict,
    Weighed,
)

VOCABULARY = 61
WINDOW = 24


def tiny(kind: str, seed: int = 0, layers: int = 2, dtype: torch.dtype = torch.float64) -> Any:
    """A random model of a family: llama, qwen3 or gemma3 (two sliding layers and a full one)."""
    import transformers as hf

    torch.manual_seed(seed)
    shared: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 4096,
        "initializer_range": 0.4,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    }
    if kind == "gemma3":
        kinds = ["sliding_attention", "full_attention", "sliding_attention"]
        config = hf.Gemma3TextConfig(
            **{**shared, "num_hidden_layers": 3}, sliding_window=WINDOW, layer_types=kinds, query_pre_attn_scalar=8
        )
        model = hf.Gemma3ForCausalLM(config)
    elif kind == "qwen3":
        model = hf.Qwen3ForCausalLM(hf.Qwen3Config(**shared))
    else:
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**shared))
    return model.to(dtype).eval().requires_grad_(False)


class Generous(Governor):
    """Allows everything, so that drafts of every shape are verified whether they pay or not."""

    def weigh(self, source: str, parents: Sequence[int], classes: Sequence[int], steps: int) -> Weighed:
        return Weighed(tuple(range(min(len(parents), self.limit))), len(parents) < self.limit)

    def repays(self, source: str, pending: int) -> bool:
        return True


def generous(max_width: int = 9, fixed_width: int = 0) -> Generous:
    return Generous(Timings(), fixed_width or max_width, fixed_width)


class _Listens:
    """The parts of a drafter that do nothing."""

    needs = Needs()
    priors: Mapping[str, tuple[float, ...]] = {}

    cache_bytes = 0

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        self.prompt = len(tokens)

    def value(self, room: Room) -> float:
        return 1.0

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        pass

    def forget(self) -> None:
        pass


class RandomTree(_Listens):
    """An adversary: random tokens in a random tree, often with the true continuation hidden in a late branch."""

    def __init__(self, seed: int, answer: Sequence[int] = ()) -> None:
        self._random = random.Random(seed)
        self._answer = list(answer)

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        count = self._random.randint(0, room.limit)
        if not count:
            return NO_DRAFT
        parents = [self._random.randint(ROOT, node - 1) for node in range(count)]
        ids = [self._random.randrange(VOCABULARY) for _ in range(count)]
        true = self._answer[len(tokens) - self.prompt :]
        at = ROOT
        for node in range(count):
            if true and parents[node] == at and self._random.random() < 0.8:
                ids[node] = true.pop(0)
                at = node
        return Draft(torch.tensor(ids), tuple(parents), "random", (0,) * count)


class Useless(_Listens):
    """Random chains, as deep as the governor lets it."""

    priors: Mapping[str, tuple[float, ...]] = {"useless": (0.7,)}

    def __init__(self, seed: int, vocabulary: int = VOCABULARY) -> None:
        self._random, self._vocabulary = random.Random(seed), vocabulary

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        chain = range(ROOT, room.limit - 1)
        depth = len(room.weigh("useless", chain, range(room.limit), 0).keep)
        ids = [self._random.randrange(self._vocabulary) for _ in range(depth)]
        return (
            Draft(torch.tensor(ids), tuple(range(ROOT, depth - 1)), "useless", tuple(range(depth)))
            if depth
            else NO_DRAFT
        )


class Perfect(_Listens):
    """Knows the answer and must therefore get limit + 1 tokens a round."""

    def __init__(self, answer: Sequence[int]) -> None:
        self._answer = list(answer)

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        ids = self._answer[len(tokens) - self.prompt :][: room.limit]
        return (
            Draft(torch.tensor(ids), tuple(range(ROOT, len(ids) - 1)), "perfect", (0,) * len(ids)) if ids else NO_DRAFT
        )


def letters(ids: Sequence[int]) -> str:
    """A tokenizer of one printable character per token."""
    return "".join(chr(48 + token) for token in ids)


def write(
    target: Target,
    drafter: Drafter,
    prompt: Sequence[int],
    sampling: Sampling,
    count: int,
    governor: Governor | None = None,
    *,
    eos: frozenset[int] = frozenset(),
    stop: Sequence[str] = (),
    rounds: int = 0,
) -> tuple[list[int], list[Round]]:
    """A reply of at most `count` tokens (or `rounds` rounds) and its rounds."""
    governor = governor or generous(fixed_width=target.fixed_width)
    target.tap(drafter.needs.hidden_layers, drafter.needs.rows)
    for _ in target.prefill(prompt[:-1]):
        pass
    tokens = list(prompt)
    drafter.start(tokens, target.prompt_tapped())
    governor.trust(drafter.priors)
    governor.begin_reply()
    stopper = Stopper(letters, eos, stop, count)
    picker = Picker(sampling, prompt, target.vocabulary, target.device)
    seen = []
    for round_ in generate(target, drafter, tokens, picker, stopper, governor):
        seen.append(round_)
        if rounds and len(seen) == rounds:
            break
    return tokens[len(prompt) :], seen


def plain() -> Drafter:
    """The drafter that proposes nothing."""
    return build("off", Parts())
