"""The layers that drafting heads are made of.

Attention is left to the caller (`Attend`): one layer serves drafting over a cache and training on whole sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from localchat.engine.head_config import HeadConfig

Attend = Callable[[int, Tensor, Tensor, Tensor, float], Tensor]
"""Attention of layer i: queries [B, heads, T, d], keys and values [B, kv_heads, T, d] and the scale of the scores to
[B, heads, T, d]. Rotary positions are already in queries and keys; whoever gives it keeps the cache or the mask."""


class Block(Protocol):
    """A decoder layer."""

    def __call__(self, rows: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """[B, T, hidden] to [B, T, hidden]; positions [T]."""
        ...


class Norm(nn.Module):
    """Root mean square norm, computed in fp32 or better."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, rows: Tensor) -> Tensor:
        """[..., size] to [..., size]."""
        wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return wide.to(rows.dtype) * self.weight.to(rows.dtype)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions.

    State-dict names: q_proj, k_proj, v_proj, o_proj and, with qk_norm, q_norm and k_norm.
    """

    def __init__(self, config: HeadConfig, inputs: int) -> None:
        super().__init__()
        self.config = config
        size = config.head_dim
        self.q_proj = nn.Linear(inputs, config.heads * size, bias=config.bias)
        self.k_proj = nn.Linear(inputs, config.kv_heads * size, bias=config.bias)
        self.v_proj = nn.Linear(inputs, config.kv_heads * size, bias=config.bias)
        self.o_proj = nn.Linear(config.heads * size, config.hidden, bias=False)
        self.q_norm = Norm(size, config.eps) if config.qk_norm else nn.Identity()
        self.k_norm = Norm(size, config.eps) if config.qk_norm else nn.Identity()

    def forward(self, rows: Tensor, turn: tuple[Tensor, Tensor], layer: int, attend: Attend) -> Tensor:
        """[B, T, inputs] to [B, T, hidden]; `turn` is cosine and sine [T, head_dim] of the rows' positions."""
        batch, count, size = *rows.shape[:2], self.config.head_dim
        query = self.q_norm(self.q_proj(rows).view(batch, count, -1, size)).transpose(1, 2)
        key = self.k_norm(self.k_proj(rows).view(batch, count, -1, size)).transpose(1, 2)
        value = self.v_proj(rows).view(batch, count, -1, size).transpose(1, 2)
        out = attend(layer, rotate(query, turn), rotate(key, turn), value, size**-0.5)
        result: Tensor = self.o_proj(out.transpose(1, 2).reshape(batch, count, -1))
        return result


def rotate(rows: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions, halves side by side as Llama has them: [B, heads, T, d] turned by (cosine, sine) [T, d]."""
    cosine, sine = turn
    first, second = rows.chunk(2, dim=-1)
    return rows * cosine + torch.cat((-second, first), dim=-1) * sine


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_pytorch_tanh": lambda rows: functional.gelu(rows, approximate="tanh"),
    "relu": functional.relu,
}


class Mlp(nn.Module):
    """Gated feed-forward layer: gate_proj, up_proj, down_proj."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)
        self._activate = _ACTIVATIONS[config.activation]

    def forward(self, rows: Tensor) -> Tensor:
        """[..., hidden] to [..., hidden]."""
        result: Tensor = self.down_proj(self._activate(self.gate_proj(rows)) * self.up_proj(rows))
        return result


class EagleLayer(nn.Module):
    """A Llama decoder layer: self_attn, mlp, post_attention_layernorm; input_layernorm and hidden_norm where used.

    The first layer of EAGLE-3 reads embedding and state side by side, each with a norm of its own.
    """

    def __init__(self, config: HeadConfig, index: int) -> None:
        super().__init__()
        self.index = index
        self.fused = config.fused and index == 0
        self.norm_first = config.norm_before_residual
        normed = self.fused or config.input_norm or index > 0
        self.input_layernorm = Norm(config.hidden, config.eps) if normed else nn.Identity()
        if self.fused:
            self.hidden_norm = Norm(config.hidden, config.eps)
        self.self_attn = Attention(config, config.hidden * (2 if self.fused else 1))
        self.post_attention_layernorm = Norm(config.hidden, config.eps)
        self.mlp = Mlp(config)

    def forward(self, rows: Tensor, embeddings: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        """[B, T, hidden] to [B, T, hidden]; embeddings [B, T, hidden] are read by a fused layer only."""
        if self.fused:
            normed = self.hidden_norm(rows)
            rows = normed if self.norm_first else rows
            inputs = torch.cat((self.input_layernorm(embeddings), normed), dim=-1)
        else:
            inputs = self.input_layernorm(rows)
        rows = rows + self.self_attn(inputs, turn, self.index, attend)
        result: Tensor = rows + self.mlp(self.post_attention_layernorm(rows))
        return result


def rotary_frequencies(head_dim: int, theta: float) -> Tensor:
    """Inverse frequencies fp32 [head_dim / 2] (Su et al., arXiv:2104.09864)."""
    return theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)


def turning(frequencies: Tensor, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine [T, head_dim] of positions [T]."""
    angles = positions[:, None].to(frequencies.dtype) * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def causal(_layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Attention over a whole sequence, each row seeing itself and what is before it (an `Attend`)."""
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=True)
