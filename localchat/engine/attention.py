"""Attention over a preallocated cache without copying it: the queries of a group are packed, not the keys repeated."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from localchat.engine.cache import Step

NAME = "localchat"
"""Under which transformers finds `attend`."""


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Tensor | None,
    *,
    scaling: float,
    step: Step,
    softcap: float | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Attend with the mask of this layer's kind; signature and layout are transformers'.

    Args:
        query: [1, heads, width, head_dim].
        key, value: [1, kv_heads, read, head_dim], straight from the cache.
        step: the forward's masks.
        softcap: cap of the scores (Gemma 2), or None.

    Returns:
        [1, width, heads, head_dim].
    """
    view = step.views[module.window]  # type: ignore[index]
    return packed(query, key, value, view.mask, scaling, softcap).transpose(1, 2), None


def packed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, softcap: float | None) -> Tensor:
    """[1, heads, width, head_dim]; arguments as those of `attend`, and the mask [groups * width, read]."""
    heads, width, size = query.shape[1:]
    groups = key.shape[1]
    rows = query.reshape(1, groups, heads // groups * width, size)
    if softcap is None:
        out = functional.scaled_dot_product_attention(rows, key, value, attn_mask=mask, scale=scaling)
    else:
        scores = torch.tanh(rows @ key.transpose(2, 3) * (scaling / softcap)) * softcap + mask
        out = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype) @ value
    return out.reshape(1, heads, width, value.shape[3])
