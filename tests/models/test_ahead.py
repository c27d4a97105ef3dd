"""Layers in a model's own files that predict further tokens are read as published and draft as the formulas say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models import head_reference as reference
from tests.models.head_reference import Layer, Weights
from tests.support.heads import GROUPS, HEADS, HIDDEN, INNER, SIZE, Random, agree, loaded, truth, wide
from tests.support.models import VOCABULARY, edit_config, save_tiny, tiny_tokenizer


@pytest.fixture(scope="module")
def mimo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Weights]:
    """A Qwen2 with a layer after the next token, named as MiMo names it."""
    folder = tmp_path_factory.mktemp("mimo") / "m"
    save_tiny(folder, "qwen2", hidden=HIDDEN, tied=False, dtype="float32", seed=8, initializer_range=0.2)
    random = Random(8)
    base = "model.mtp_layers.0."
    added = {
        f"{base}token_layernorm.weight": random(HIDDEN),
        f"{base}hidden_layernorm.weight": random(HIDDEN),
        f"{base}final_layernorm.weight": random(HIDDEN),
        f"{base}input_proj.weight": random(HIDDEN, 2 * HIDDEN),
        **{base + name: tensor for name, tensor in like_the_first_layer(folder, random).items()},
    }
    add_tensors(folder, added)
    edit_config(folder, num_nextn_predict_layers=1)
    return folder, added


def like_the_first_layer(folder: Path, random: Random) -> dict[str, Tensor]:
    """Random weights of the sizes of the model's own first layer."""
    from safetensors.torch import load_file

    first = "model.layers.0."
    stored = load_file(folder / "model.safetensors")
    return {name.removeprefix(first): random(*t.shape) for name, t in stored.items() if name.startswith(first)}


def add_tensors(folder: Path, added: Weights) -> None:
    """Add tensors to a model; experts that transformers stored together are split as they are published."""
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors: dict[str, Tensor] = {}
    for name, tensor in load_file(path).items():
        base, _, part = name.rpartition(".experts.")
        names = {"gate_up_proj": ("gate", "up"), "down_proj": ("down",)}.get(part, ())
        for index, expert in enumerate(tensor if names else ()):
            pieces = zip(names, expert.chunk(len(names)), strict=True)
            tensors |= {f"{base}.experts.{index}.{kind}_proj.weight": piece.clone() for kind, piece in pieces}
        tensors |= {} if names else {name: tensor}
    save_file({**tensors, **added}, path, metadata={"format": "pt"})


def test_mtp_as_mimo_names_it(mimo: tuple[Path, Weights]) -> None:
    """Guards MiMo: the state before the embedding, the target's own kind of layer, the target's output head."""
    folder, added = mimo
    exact, weights = truth(folder), wide(added)
    base = "model.mtp_layers.0."
    layer = Layer(weights, base, 2, reference.plain_frequencies(32))
    norms = tuple(weights[f"{base}{name}_layernorm.weight"] for name in ("token", "hidden", "final"))
    step = reference.mtp(
        (norms[0], norms[1], norms[2]), weights[f"{base}input_proj.weight"], layer.block, state_first=True
    )
    models = loaded(folder, "", "mtp")
    assert models.plan.draft_model == str(folder)
    agree(models, "mtp", step, exact.final, lambda state: exact.output @ state, exact.embed)
    alone = loaded(folder, "", "lookup")
    assert models.target_bytes == alone.target_bytes == pytest.approx(alone.memory.target, rel=0.01)
    assert models.draft_bytes == pytest.approx(models.memory.draft, rel=0.01)


@pytest.fixture(scope="module")
def glm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Weights, Any]:
    """A GLM-4-MoE of two layers, whose third one is the layer for the token after the next; and that layer alone."""
    import transformers as hf

    folder = tmp_path_factory.mktemp("glm") / "m"
    torch.manual_seed(9)
    config = hf.Glm4MoeConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        moe_intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        num_key_value_heads=GROUPS,
        head_dim=SIZE,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_shared_experts=1,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
        max_position_embeddings=512,
        initializer_range=0.2,
        bos_token_id=257,
        eos_token_id=261,
        pad_token_id=256,
    )
    whole = hf.Glm4MoeForCausalLM._from_config(config, experts_implementation="eager").eval().requires_grad_(False)
    whole.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    random, base = Random(9), "model.layers.2."
    added = {
        f"{base}enorm.weight": random(HIDDEN),
        f"{base}hnorm.weight": random(HIDDEN),
        f"{base}eh_proj.weight": random(HIDDEN, 2 * HIDDEN),
        f"{base}shared_head.norm.weight": random(HIDDEN),
        f"{base}shared_head.head.weight": whole.lm_head.weight.clone(),
        f"{base}embed_tokens.weight": whole.model.embed_tokens.weight.clone(),
    }
    add_tensors(folder, added)
    edit_config(folder, num_hidden_layers=2, num_nextn_predict_layers=1)
    return folder, added, whole.double()


def test_mtp_as_deepseek_names_it(glm: tuple[Path, Weights, Any]) -> None:
    """Guards DeepSeek-V3's names with GLM-4-MoE: a layer with experts, which transformers drops on load.

    The layer itself is computed by transformers in float64, all else by the formulas.
    """
    folder, added, whole = glm
    exact, weights = truth(folder), wide(added)

    def block(rows: Tensor) -> Tensor:
        positions = torch.arange(len(rows))[None]
        causal = torch.full((len(rows), len(rows)), -torch.inf, dtype=torch.float64).triu(1)[None, None]
        embeddings = whole.model.rotary_emb(rows[None], positions)
        result: Tensor = whole.model.layers[2](rows[None], attention_mask=causal, position_embeddings=embeddings)
        return result[0]

    base = "model.layers.2."
    norms = (weights[f"{base}enorm.weight"], weights[f"{base}hnorm.weight"], weights[f"{base}shared_head.norm.weight"])
    step = reference.mtp(norms, weights[f"{base}eh_proj.weight"], block, state_first=False)
    models = loaded(folder, "", "mtp")
    assert "mixture" in models.fast_only.lower()
    agree(models, "mtp", step, exact.final, lambda state: exact.output @ state, exact.embed)
    alone = loaded(folder, "", "off")
    assert alone.memory.draft == 0
    assert alone.target_bytes == pytest.approx(alone.memory.target, rel=0.01)
    assert models.draft_bytes == pytest.approx(models.memory.draft, rel=0.01)
