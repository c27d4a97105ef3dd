"""How a drafting head is shaped. No torch, so that plans and screens can read it."""

from __future__ import annotations

from dataclasses import dataclass

FINAL = -1
"""Tap of the state after the final norm, which the target's output head reads; layer k's output is tap k."""


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """Everything the shape of a head depends on."""

    kind: str
    """medusa, eagle or mtp."""
    hidden: int
    """Size of the target's hidden states."""
    vocab: int
    """Rows of the target's output head."""
    taps: tuple[int, ...] = (FINAL,)
    layers: int = 1
    """Medusa: residual blocks per head; else: decoder layers."""
    depth: int = 1
    """Medusa: heads, one per position ahead. Mtp: layers used one after the other, one per position ahead."""
    draft_vocab: int = 0
    """Tokens it scores; 0: all of the target's."""
    own_output: bool = False
    """It brings an output head; else it uses the target's (the rows of its draft vocabulary)."""
    own_embedding: bool = False
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    intermediate: int = 0
    activation: str = "silu"
    eps: float = 1e-6
    rope_theta: float = 10000.0
    bias: bool = False
    """Query, key and value projections have biases."""
    qk_norm: bool = False
    fuse_bias: bool = False
    """The layer that joins embedding and state has a bias."""
    scaled: bool = False
    """Our own layout: tapped states are first multiplied by fixed vectors, so that no dimension drowns the others."""
    mixed: bool = False
    """Our Medusa: each head begins with a linear layer, which joins the tapped states."""
    fused: bool = False
    """EAGLE-3: states of several layers are joined first; the layer reads embedding and state side by side."""
    norm_before_residual: bool = False
    """EAGLE-3: the state is normed before it goes into the residual stream."""
    input_norm: bool = False
    """EAGLE-1 layout: the first layer norms its input."""
    final_norm: bool = False
    """EAGLE-1 layout and our Medusa: a norm before the output head."""
    hidden_first: bool = False
    """Mtp: the state comes before the embedding where both are joined (MiMo)."""
    recur_normed: bool = False
    """Mtp: the next step reads the state after the head's own norm (as published ones are chained), else before it."""
    window: int = 2048
    """Tokens its attention looks back; no more than it was trained with."""
