"""The published heads by their papers' formulas, in float64 and without a cache: nothing of localchat is used here.

Weights are read by the names that each layout gives them. A chain is drafted from `tokens`, whose last one the target
has not read yet: `states` [layer][i] is the target's state after tokens 0..i, with one row less than there are tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]
Step = Callable[[Tensor, Tensor], Tensor]
"""Embeddings and states [T, h] of all pairs to the guessed states [T, h]."""


def rms(rows: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Root mean square norm."""
    return rows / torch.sqrt((rows**2).mean(-1, keepdim=True) + eps) * weight


def rotated(rows: Tensor, frequencies: Tensor) -> Tensor:
    """Rotary positions 0, 1, ... on [heads, T, d], as a complex product of the two halves."""
    half = rows.shape[-1] // 2
    angles = torch.arange(rows.shape[1], dtype=torch.float64)[:, None] * frequencies
    turned = torch.complex(rows[..., :half], rows[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), dim=-1)


def plain_frequencies(size: int, theta: float = 10000.0) -> Tensor:
    """One angle per pair of dimensions."""
    return torch.tensor([theta ** (-2 * i / size) for i in range(size // 2)], dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class Layer:
    """A decoder layer's weights, by the names below `prefix`, and its sizes."""

    weights: Weights
    prefix: str
    heads: int
    frequencies: Tensor

    def __call__(self, name: str) -> Tensor:
        return self.weights[self.prefix + name]

    def _projected(self, name: str, rows: Tensor, heads: int) -> Tensor:
        found = rows @ self(f"self_attn.{name}_proj.weight").T
        if f"{self.prefix}self_attn.{name}_proj.bias" in self.weights:
            found = found + self(f"self_attn.{name}_proj.bias")
        found = found.view(len(rows), heads, -1)
        if f"{self.prefix}self_attn.{name}_norm.weight" in self.weights:
            found = rms(found, self(f"self_attn.{name}_norm.weight"))
        return found.transpose(0, 1)

    def attention(self, rows: Tensor) -> Tensor:
        """Causal attention, one query at a time."""
        size = 2 * len(self.frequencies)
        groups = self("self_attn.k_proj.weight").shape[0] // size
        query = rotated(self._projected("q", rows, self.heads), self.frequencies)
        key = rotated(self._projected("k", rows, groups), self.frequencies)
        value = self._projected("v", rows, groups)
        out = torch.empty(len(rows), self.heads, size, dtype=torch.float64)
        for head in range(self.heads):
            group = head * groups // self.heads
            for at in range(len(rows)):
                scores = key[group, : at + 1] @ query[head, at] / math.sqrt(size)
                out[at, head] = scores.softmax(0) @ value[group, : at + 1]
        return out.flatten(1) @ self("self_attn.o_proj.weight").T

    def feed_forward(self, rows: Tensor) -> Tensor:
        """SwiGLU."""
        gate = rows @ self("mlp.gate_proj.weight").T
        return (gate * gate.sigmoid() * (rows @ self("mlp.up_proj.weight").T)) @ self("mlp.down_proj.weight").T

    def rest(self, residual: Tensor, attended: Tensor) -> Tensor:
        """What follows attention."""
        rows = residual + attended
        return rows + self.feed_forward(rms(rows, self("post_attention_layernorm.weight")))

    def block(self, rows: Tensor) -> Tensor:
        """A whole decoder layer with a norm at its start."""
        return self.rest(rows, self.attention(rms(rows, self("input_layernorm.weight"))))


def eagle(weights: Weights, layers: Sequence[Layer]) -> Step:
    """EAGLE-1 and -2: embedding and state are joined; the first layer has no norm at its start."""

    def step(embeddings: Tensor, states: Tensor) -> Tensor:
        rows = torch.cat((embeddings, states), -1) @ weights["fc.weight"].T
        rows = rows + weights["fc.bias"] if "fc.bias" in weights else rows
        rows = layers[0].rest(rows, layers[0].attention(rows))
        for layer in layers[1:]:
            rows = layer.block(rows)
        return rows

    return step


def eagle3(layer: Layer, *, norm_first: bool = False) -> Step:
    """EAGLE-3: embedding and joined state side by side, each normed; `norm_first` as norm_before_residual."""

    def step(embeddings: Tensor, states: Tensor) -> Tensor:
        normed = rms(states, layer("hidden_norm.weight"))
        both = torch.cat((rms(embeddings, layer("input_layernorm.weight")), normed), -1)
        return layer.rest(normed if norm_first else states, layer.attention(both))

    return step


def mtp(
    norms: tuple[Tensor, Tensor, Tensor], join: Tensor, block: Callable[[Tensor], Tensor], *, state_first: bool
) -> Step:
    """Multi-token prediction: norms of embedding, state and result; what comes out is normed."""

    def step(embeddings: Tensor, states: Tensor) -> Tensor:
        pair = [rms(embeddings, norms[0]), rms(states, norms[1])]
        return rms(block(torch.cat(pair[::-1] if state_first else pair, -1) @ join.T), norms[2])

    return step


def chain(
    step: Step,
    score: Callable[[Tensor], Tensor],
    embed: Callable[[Tensor], Tensor],
    states: Tensor,
    tokens: Sequence[int],
    ids: Sequence[int] | None,
    depth: int,
) -> tuple[list[int], list[Tensor]]:
    """A greedy draft of `depth` tokens, and the logits that each was chosen from.

    Args:
        score: logits [n] of a guessed state.
        states: joined states [T - 1, h].
        ids: token of each logit; None: its index.
    """
    text, drafted, seen = list(tokens), [], []
    for _ in range(depth):
        pairs = embed(torch.tensor(text[1:]))
        out = step(pairs, states)
        logits = score(out[-1])
        best = int(logits.argmax())
        drafted.append(best if ids is None else ids[best])
        seen.append(logits)
        text.append(drafted[-1])
        states = torch.cat((states, out[-1:]))
    return drafted, seen


def medusa(state: Tensor, blocks: Sequence[Sequence[tuple[Tensor, Tensor]]], outputs: Sequence[Tensor]) -> list[Tensor]:
    """Logits [n] of each head: residual SiLU blocks, then a linear layer."""
    found = []
    for head, output in zip(blocks, outputs, strict=True):
        rows = state
        for weight, bias in head:
            linear = weight @ rows + bias
            rows = rows + linear * linear.sigmoid()
        found.append(output @ rows)
    return found
