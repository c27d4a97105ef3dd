"""Shapes of the two networks and the way both are stored: ordinary transformers folders in bf16."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localchat.models.starter.tokenizer import BOS_ID, END_ID, PAD_ID, VOCABULARY

if TYPE_CHECKING:
    from torch import nn

CONTEXT = 2048


@dataclass(frozen=True, slots=True)
class Shape:
    """One Llama-shaped network; `hidden` must be `heads` times the size of a head."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int

    def __post_init__(self) -> None:
        if self.hidden % self.heads or self.heads % self.kv_heads:
            raise ValueError(f"{self.hidden} hidden does not divide into {self.heads} heads over {self.kv_heads}")


TARGET_SHAPE = Shape(layers=12, hidden=256, intermediate=704, heads=4, kv_heads=2)
# The target's first stage: see `deepen`.
SHALLOW_SHAPE = Shape(layers=4, hidden=256, intermediate=704, heads=4, kv_heads=2)
# As wide as the target, so that it can start from the target's own embeddings.
# Many small heads: its only layer has to look at several earlier tokens and at the question at once.
DRAFT_SHAPE = Shape(layers=1, hidden=256, intermediate=320, heads=8, kv_heads=4)


def new_model(shape: Shape, seed: int) -> nn.Module:
    """An untrained fp32 network of that shape, the same for the same seed."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.hidden // shape.heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=BOS_ID,
        eos_token_id=END_ID,
        pad_token_id=PAD_ID,
    )
    model: nn.Module = LlamaForCausalLM(config)
    # On a CPU and at such lengths twice as fast as torch's fused attention, most of all backwards.
    model.set_attn_implementation("eager")  # type: ignore[operator]
    return model


def deepen(model: Any, layers: int, seed: int) -> Any:
    """A deeper network that computes the same: after each layer come new ones whose two outputs are zero.

    Training shallow first and deep last costs a third of training deep from the start.
    """
    import torch

    old = model.model.layers
    if layers % len(old):
        raise ValueError(f"{layers} layers are no multiple of {len(old)}")
    each = layers // len(old)
    config = model.config
    shape = Shape(
        layers, config.hidden_size, config.intermediate_size, config.num_attention_heads, config.num_key_value_heads
    )
    deep: Any = new_model(shape, seed)
    with torch.no_grad():
        for at, layer in enumerate(deep.model.layers):
            if at % each == 0:
                layer.load_state_dict(old[at // each].state_dict())
            else:
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
        deep.model.embed_tokens.load_state_dict(model.model.embed_tokens.state_dict())
        deep.model.norm.load_state_dict(model.model.norm.state_dict())
    return deep


def load_model(folder: Path) -> Any:
    """The stored network in fp32, ready for training or for scoring."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def save_model(model: Any, folder: Path) -> None:
    """Write a bf16 copy of the network with its generation defaults; the model itself stays as it is."""
    import copy

    import torch
    from transformers import GenerationConfig

    folder.mkdir(parents=True, exist_ok=True)
    stored = copy.deepcopy(model).to(torch.bfloat16)
    stored.config.dtype = torch.bfloat16
    stored.generation_config = GenerationConfig(bos_token_id=BOS_ID, eos_token_id=END_ID, pad_token_id=PAD_ID)
    stored.save_pretrained(folder)
