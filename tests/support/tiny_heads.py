"""Tiny drafting heads with random weights, of every kind, and what they should say by their definition."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from localchat.engine.governor import Timings
from localchat.engine.head_config import FINAL, HeadConfig
from localchat.engine.heads import AnyHead, StateHead, build
from localchat.engine.layers import Attend
from localchat.engine.target import Block
from localchat.engine.types import ROOT, Weighed
from tests.support.tiny import Generous

KINDS = ("medusa", "medusa3", "eagle", "eagle3", "mtp", "mtp2")
"""medusa3 is of our own layout; it and eagle3 read three layers, mtp2 has two steps; eagle3 and mtp2 score a part of
the vocabulary."""


def tiny_head(kind: str, model: Any, seed: int = 0, window: int = 64) -> AnyHead:
    """A head of random weights for a transformers model, in the model's dtype."""
    torch.manual_seed(seed)
    text = model.config.get_text_config()
    shared: dict[str, Any] = {"hidden": text.hidden_size, "vocab": text.vocab_size, "window": window}
    reduced: dict[str, Any] = {"draft_vocab": text.vocab_size * 2 // 3}
    layer: dict[str, Any] = {"heads": 4, "kv_heads": 2, "head_dim": 8, "intermediate": 48}
    three = (0, 1, FINAL)
    configs = {
        "medusa": HeadConfig("medusa", **shared, depth=3),
        "medusa3": HeadConfig("medusa", **shared, depth=3, taps=three, mixed=True, scaled=True, final_norm=True),
        "eagle": HeadConfig("eagle", **shared, **layer, fuse_bias=True),
        "eagle3": HeadConfig("eagle", **shared, **reduced, **layer, taps=three, fused=True, own_output=True, layers=2),
        "mtp": HeadConfig("mtp", **shared),
        "mtp2": HeadConfig("mtp", **shared, **reduced, depth=2, recur_normed=True),
    }
    config = configs[kind]
    output = model.get_output_embeddings()
    ids: Tensor | None = None
    rows: Tensor | None = None
    if config.draft_vocab:
        ids = torch.randperm(text.vocab_size)[: config.draft_vocab].sort().values
        rows = None if config.own_output else output.weight[ids].clone()
    blocks = [Block(model, index) for index in range(config.depth if config.kind == "mtp" else 0)]
    head = build(config, model.get_input_embeddings(), output, rows, ids, blocks)
    return head.to(model.dtype).eval().requires_grad_(False)


class Whimsical(Generous):
    """Keeps any part of any draft, and lets it grow as the dice say: trees of every shape are verified."""

    dice: random.Random

    def weigh(self, source: str, parents: Sequence[int], classes: Sequence[int], steps: int) -> Weighed:
        keep: list[int] = []
        for node, parent in enumerate(parents):
            if (parent == ROOT or parent in keep) and len(keep) < self.limit and self.dice.random() < 0.7:
                keep.append(node)
        return Weighed(tuple(keep), self.dice.random() < (0.8 if parents else 0.95))


def whimsical(fixed_width: int = 0) -> Whimsical:
    """A governor of whims; exact mode at `fixed_width`."""
    governor = Whimsical(Timings(), fixed_width or 12, fixed_width)
    governor.dice = random.Random(3)
    return governor


def attend_in_words(window: int) -> Attend:
    """Attention written out: each row sees itself and the `window` - 1 rows before it."""

    def attend(_layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        times = query.shape[1] // key.shape[1]
        keys, values = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        back = torch.arange(query.shape[2])[:, None] - torch.arange(query.shape[2])
        scores = (query @ keys.mT * scale).masked_fill((back < 0) | (back >= window), float("-inf"))
        return scores.softmax(-1) @ values

    return attend


def from_scratch(head: StateHead, states: Sequence[Tensor], tokens: Sequence[int], path: Sequence[int]) -> Tensor:
    """Logits [n] of what follows `path`, everything computed anew, row after row.

    Step k reads token after token what step k - 1 guessed one token before; the last step goes on by itself.

    Args:
        states: of the target, [pairs, hidden] per tapped layer.
        tokens: the token after each state.
        path: drafted tokens.
    """
    attend = attend_in_words(head.config.window)
    embeddings = head.embed(torch.tensor([*tokens, *path]))[None]
    inputs, steps = head.join(states)[None], head.config.depth
    found: list[Tensor] = []
    nothing = torch.zeros_like(inputs[:, :1])
    for step in range(steps):
        rows = len(tokens) + min(step, len(path))
        inputs = torch.cat((nothing, found[-1]), dim=1)[:, :rows] if step else inputs
        found.append(head(embeddings[:, :rows], inputs, torch.arange(rows), attend, step))
    while len(path) >= steps and inputs.shape[1] < len(tokens) + len(path):
        inputs = torch.cat((inputs, found[-1][:, -1:]), dim=1)
        rows = inputs.shape[1]
        found[-1] = head(embeddings[:, :rows], inputs, torch.arange(rows), attend, steps - 1)
    step = min(len(path), steps - 1)
    scores: Tensor = head.scores(found[step][0, -1], step)
    return scores
