"""A prediction step's decoder layer is the target's own layer, with its attention lent."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from localchat.engine.layers import causal
from localchat.engine.packed import PackedLinear, pack
from localchat.engine.target import Block, Target
from tests.support.tiny import VOCABULARY, tiny

MIXTURES = ("glm4_moe", "deepseek_v3")


def model_of(kind: str) -> Any:
    """A tiny random model; mixtures in fp32, whose experts know no float64."""
    import transformers as hf

    if kind not in (*MIXTURES, "qwen2"):
        return tiny(kind)
    torch.manual_seed(0)
    shared: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "initializer_range": 0.4,
        "pad_token_id": 0,
    }
    experts = {
        "moe_intermediate_size": 16,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
    }
    latent = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6}
    if kind == "qwen2":
        model: Any = hf.Qwen2ForCausalLM(hf.Qwen2Config(**shared)).double()
    elif kind == "glm4_moe":
        model = hf.Glm4MoeForCausalLM(hf.Glm4MoeConfig(**shared, **experts, use_qk_norm=True))
    else:
        shared |= {"num_key_value_heads": 4, "head_dim": 4}
        model = hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**shared, **experts, **latent))
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gemma3", *MIXTURES])
def test_a_block_computes_what_the_layer_computes(kind: str) -> None:
    """Guards the call of each family's layer: rotary positions, the kind of layer, names of weights, and that the
    target's own attention is left as it is."""
    model = model_of(kind)
    block = Block(model).to(model.dtype).eval()
    layer = model.model.layers[-1]
    seen: list[Tensor] = []
    hook = layer.register_forward_hook(lambda _m, given, out: seen.extend((given[0], out)))
    model(input_ids=torch.arange(12)[None] + 1)
    hook.remove()
    block.load_state_dict(layer.state_dict())
    target = Target(model, 64)
    torch.testing.assert_close(block(seen[0], torch.arange(12), causal), seen[1])
    torch.testing.assert_close(block(seen[0], torch.arange(12) + 9, causal), seen[1], rtol=1e-4, atol=1e-4)
    assert target.packed
    assert model.config._attn_implementation == "localchat"


def test_fresh_weights_are_numbers() -> None:
    """Guards layers whose weights are made empty (experts): a head that is trained must not begin with rubbish."""
    block = Block(model_of("glm4_moe"))
    assert all(part.isfinite().all() and part.abs().max() < 10 for part in block.state_dict().values())


def test_a_block_is_packed() -> None:
    """Guards packing inside the layer: it must reach the layer that computes, not a copy."""
    model = tiny("llama", dtype=torch.bfloat16)
    block = Block(model).to(torch.bfloat16).eval()
    rows = torch.randn(1, 5, 32, dtype=torch.bfloat16)
    before = block(rows, torch.arange(5), causal)
    holder = nn.ModuleList([block])
    assert pack(holder) == 7
    inside = block.get_submodule("self_attn.q_proj")
    assert isinstance(inside, PackedLinear)
    used: list[object] = []
    inside.register_forward_hook(lambda *_: used.append(1))
    torch.testing.assert_close(block(rows, torch.arange(5), causal), before, rtol=0.05, atol=0.05)
    assert used
