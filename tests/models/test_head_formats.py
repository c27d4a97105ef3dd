"""Every published layout of a head, written by the test, loads and drafts as its paper's formulas say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from localchat.models.plan import Precision
from tests.models import head_reference as reference
from tests.models.head_reference import Layer, Weights
from tests.support.heads import (
    CONFIG,
    DEPTH,
    FREQUENCIES,
    GROUPS,
    HEADS,
    HIDDEN,
    INNER,
    LAYERS,
    SIZE,
    Random,
    agree,
    loaded,
    proposed,
    started,
    truth,
    wide,
    write_head,
)
from tests.support.models import VOCABULARY, save_tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(
        tmp_path_factory.mktemp("target") / "Tiny-8L",
        layers=LAYERS,
        hidden=HIDDEN,
        tied=False,
        dtype="float32",
        seed=3,
        initializer_range=0.2,
    )


def spread(count: int) -> list[int]:
    """Ids of a reduced vocabulary, ascending."""
    return sorted(torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(1))[:count].tolist())


def offsets(ids: Sequence[int]) -> dict[str, Tensor]:
    """d2t and t2d as EAGLE-3 files have them."""
    known = torch.zeros(VOCABULARY, dtype=torch.bool)
    known[list(ids)] = True
    return {"d2t": torch.tensor(ids) - torch.arange(len(ids)), "t2d": known}


@pytest.mark.parametrize("variant", ["files", "prefix", "vllm"])
def test_medusa(folder: Path, tmp_path: Path, variant: str) -> None:
    """Guards FasterDecoding's names, with and without a prefix, and those of vLLM; two blocks per head, biases."""
    random, count, blocks = Random(1), 3, 2
    weights: dict[str, Tensor] = {}
    config: dict[str, Any] = {"medusa_num_heads": count, "medusa_num_layers": blocks}
    prefix = "medusa_heads." if variant == "prefix" else ""
    for head in range(count):
        for block in range(blocks):
            base = f"blocks.{head}.layers.{block}" if variant == "vllm" else f"{prefix}{head}.{block}.linear"
            weights |= {f"{base}.weight": random(HIDDEN, HIDDEN), f"{base}.bias": random(HIDDEN)}
        last = f"lm_heads.{head}" if variant == "vllm" else f"{prefix}{head}.{blocks}"
        weights[f"{last}.weight"] = random(VOCABULARY, HIDDEN)
    name = "medusa_lm_head.safetensors" if variant == "files" else "model.safetensors"
    head_folder = write_head(tmp_path / "head", {**config, "base_model_name_or_path": "any/Tiny-8L"}, weights, name)
    values = list(wide(weights).values())
    per = 2 * blocks + 1
    parts = [values[per * head : per * (head + 1)] for head in range(count)]
    expected = reference.medusa(
        truth(folder).final[-1],
        [[(part[2 * block], part[2 * block + 1]) for block in range(blocks)] for part in parts],
        [part[-1] for part in parts],
    )
    models = loaded(folder, head_folder, "medusa")
    drafter, _ = started(models, "medusa")
    assert proposed(drafter, count) == [int(logits.argmax()) for logits in expected]
    network: Any = models.head
    torch.testing.assert_close(
        network(drafter._states, count)[:, 0].double(), torch.stack(expected), rtol=1e-3, atol=1e-3
    )


def test_medusa_of_a_reduced_vocabulary(folder: Path, tmp_path: Path) -> None:
    """Guards vLLM's token_map, which need not be in order, and blocks without biases."""
    random, ids = Random(2), spread(40)[::-1]
    weights = {"blocks.0.layers.0.weight": random(HIDDEN, HIDDEN), "lm_heads.0.weight": random(40, HIDDEN)}
    config = {"architectures": ["MedusaModel"], "num_heads": 1, "vocab_size": VOCABULARY}
    head = write_head(tmp_path / "head", config, weights, extra={"token_map": torch.tensor(ids)})
    found = wide(weights)
    blocks = [[(found["blocks.0.layers.0.weight"], torch.zeros(HIDDEN, dtype=torch.float64))]]
    [logits] = reference.medusa(truth(folder).final[-1], blocks, [found["lm_heads.0.weight"]])
    drafter, _ = started(loaded(folder, head, "medusa"), "medusa")
    assert proposed(drafter, 1) == [ids[int(logits.argmax())]]


@pytest.mark.parametrize("layout", ["eagle", "eagle, biases and two layers", "speculators"])
def test_eagle(folder: Path, tmp_path: Path, layout: str) -> None:
    """Guards EAGLE-1/2: embedding before state, no norm at the start of the first layer, the target's output head.

    Its files bring a copy of the target's embedding, which must not be kept twice.
    """
    random, exact = Random(4), truth(folder)
    rich = "biases" in layout
    weights = {"fc.weight": random(HIDDEN, 2 * HIDDEN), **random.layer("layers.0.", bias=rich)}
    if rich:
        weights |= {"fc.bias": random(HIDDEN), **random.layer("layers.1.", bias=True, norms=("input_layernorm",))}
    config = {**CONFIG, "architectures": ["LlamaForCausalLM"]}
    stored: Weights = {**weights, "embed_tokens.weight": exact.embed.weight.detach().float()}
    if layout == "speculators":
        config = {
            "architectures": ["EagleSpeculator"],
            "speculators_model_type": "eagle",
            "transformer_layer_config": CONFIG,
            "speculators_config": {"verifier": {"name_or_path": "any/Tiny-8L"}},
        }
        stored = {
            name.replace("fc.", "fusion_fc.").replace("layers.0.", "transformer."): tensor
            for name, tensor in weights.items()
        }
    models = loaded(folder, write_head(tmp_path / "head", config, stored), "eagle")
    layers = [Layer(wide(weights), f"layers.{index}.", HEADS, FREQUENCIES) for index in range(2 if rich else 1)]
    step = reference.eagle(wide(weights), layers)
    agree(models, "eagle", step, exact.final, lambda state: exact.output @ state, exact.embed)
    assert models.head is not None
    assert not models.head.config.own_embedding
    assert models.draft_bytes == 4 * sum(tensor.numel() for tensor in weights.values()) + 4 * SIZE // 2


@pytest.mark.parametrize("layout", ["SafeAILab", "AngelSlim", "SpecForge", "speculators", "speculators norm first"])
def test_eagle3(folder: Path, tmp_path: Path, layout: str) -> None:
    """Guards EAGLE-3: which layers are read and in which order, both norms, the own output head and d2t as offsets.

    At the top of a config layer i means what goes into it, inside eagle_config what comes out of it.
    """
    random, exact, ids = Random(5), truth(folder), spread(120)
    speculators, whole = layout.startswith("speculators"), layout == "AngelSlim"
    taps = [1, LAYERS // 2 - 1, LAYERS - 4]
    scored = VOCABULARY if whole else len(ids)
    first = "layers.0." if speculators else "midlayer."
    norms = ["input_layernorm", "hidden_norm"]
    if speculators:
        norms += ["self_attn.q_norm", "self_attn.k_norm"]
    weights = {
        "fc.weight": random(HIDDEN, 3 * HIDDEN),
        "norm.weight": random(HIDDEN),
        "lm_head.weight": random(scored, HIDDEN),
        **random.layer(first, wide=2, norms=norms),
    }
    config: dict[str, Any] = {**CONFIG, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": scored}
    if layout == "SpecForge":
        taps = [0, 2, 5]
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": taps}
    if speculators:
        taps = [0, 4, 7]
        config = {
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": "eagle3",
            "transformer_layer_config": {**CONFIG, "model_type": "qwen3", "head_dim": SIZE},
            "draft_vocab_size": scored,
            "norm_before_residual": "norm first" in layout,
            "eagle_aux_hidden_state_layer_ids": [tap + 1 for tap in taps],
            "speculators_config": {"verifier": {"name_or_path": "any/Tiny-8L"}},
        }
    extra = {} if whole else offsets(ids)
    models = loaded(folder, write_head(tmp_path / "head", config, weights, extra=extra), "eagle")
    assert models.draft_bytes == pytest.approx(models.memory.draft, rel=0.02)
    exactly = wide(weights)
    joined = torch.cat([exact.outputs[tap] for tap in taps], -1) @ exactly["fc.weight"].T
    agree(
        models,
        "eagle",
        reference.eagle3(Layer(exactly, first, HEADS, FREQUENCIES), norm_first="norm first" in layout),
        joined,
        lambda state: exactly["lm_head.weight"] @ reference.rms(state, exactly["norm.weight"]),
        exact.embed,
        None if whole else ids,
    )


def test_eagle3_that_uses_rows_of_the_target(folder: Path, tmp_path: Path) -> None:
    """Guards our own layout: rows of the target's output head for a reduced vocabulary, found by their ids."""
    random, exact, ids = Random(6), truth(folder), spread(50)
    config = {
        "architectures": ["LocalchatHead"],
        "localchat_head": {
            "kind": "eagle", "hidden": HIDDEN, "vocab": VOCABULARY, "taps": [2, 5], "draft_vocab": 50, "heads": HEADS,
            "kv_heads": GROUPS, "head_dim": SIZE, "intermediate": INNER, "fused": True,
        },
        "target": {"name": "any/Tiny-8L", "layers": LAYERS},
        "acceptance": [[0.7, 0.1], [0.6, 0.1]],
    }  # fmt: skip
    weights = {
        "fc.weight": random(HIDDEN, 2 * HIDDEN),
        "norm.weight": random(HIDDEN),
        **random.layer("layers.0.", wide=2, norms=("input_layernorm", "hidden_norm")),
    }
    head = write_head(tmp_path / "head", config, weights, extra={"ids": torch.tensor(ids)})
    models, exactly = loaded(folder, head, "mixed"), wide(weights)
    assert models.head is not None
    assert models.head.acceptance == ((0.7, 0.1), (0.6, 0.1))
    joined = torch.cat([exact.outputs[tap] for tap in (2, 5)], -1) @ exactly["fc.weight"].T
    agree(
        models,
        "eagle",
        reference.eagle3(Layer(exactly, "layers.0.", HEADS, FREQUENCIES)),
        joined,
        lambda state: exact.output[ids] @ reference.rms(state, exactly["norm.weight"]),
        exact.embed,
        ids,
    )


@pytest.mark.parametrize("kind", ["linear", "llama3"])
def test_stretched_positions(folder: Path, tmp_path: Path, kind: str) -> None:
    """Guards heads of Llama 3.1, whose slow rotary frequencies are slower still; by transformers' own formula."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {"rope_type": kind, "factor": 8.0, "original_max_position_embeddings": 64, "rope_theta": 10000.0}
    if kind == "llama3":
        rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    random, exact = Random(7), truth(folder)
    weights = {"fc.weight": random(HIDDEN, 2 * HIDDEN), **random.layer("layers.0.")}
    head = write_head(tmp_path / "head", {**CONFIG, "rope_scaling": rope, "model_type": "llama"}, weights)
    config = LlamaConfig(hidden_size=HIDDEN, num_attention_heads=HEADS, head_dim=SIZE, rope_parameters=rope)
    frequencies, _ = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    step = reference.eagle(wide(weights), [Layer(wide(weights), "layers.0.", HEADS, frequencies.double())])
    agree(loaded(folder, head, "eagle"), "eagle", step, exact.final, lambda state: exact.output @ state, exact.embed)


def test_bf16_on_the_cpu(folder: Path, tmp_path: Path) -> None:
    """Guards the packed layout of bf16 weights: a head that borrows rows of a packed output head still drafts."""
    random = Random(10)
    weights = {"fc.weight": random(HIDDEN, 2 * HIDDEN), **random.layer("layers.0.")}
    models = loaded(folder, write_head(tmp_path / "head", CONFIG, weights), "eagle", precision=Precision.BF16)
    drafter, _ = started(models, "eagle")
    assert len(proposed(drafter, DEPTH)) == DEPTH
