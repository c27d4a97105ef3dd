"""Heads on disk as other programs and the trainer write them, small enough for a test."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from localchat.models.loader import LoadedModels, load
from localchat.models.plan import LoadPlan
from tests.support.models import VOCABULARY

HIDDEN, LAYERS = 64, 4
PLENTY = (2**40, 2**40)
"""Memory to load with."""
Edit = Callable[[dict[str, Any], dict[str, Tensor]], None]


def save_head(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(dict(tensors), folder / "model.safetensors")
    return folder


def medusa(folder: Path, base: str = "any/Tiny-4L", hidden: int = HIDDEN, mark: str = "") -> Path:
    """A head of our own layout, as the trainer writes it."""
    config = {
        "architectures": ["LocalchatHead"],
        "localchat_head": {"kind": "medusa", "hidden": hidden, "vocab": VOCABULARY, "depth": 2, "draft_vocab": 30},
        "target": {"name": base, "fingerprint": mark, "hidden": hidden, "layers": LAYERS, "vocab": VOCABULARY},
        "acceptance": [[0.5, 0.1], [0.3, 0.1]],
    }
    tensors = {f"blocks.{head}.0.weight": torch.zeros(hidden, hidden) for head in range(2)}
    tensors |= {f"blocks.{head}.0.bias": torch.zeros(hidden) for head in range(2)}
    return save_head(folder, config, {**tensors, "ids": torch.arange(100, 130)})


def eagle3(folder: Path, edit: Edit = lambda _config, _tensors: None) -> Path:
    """A head of SafeAILab's layout with a reduced vocabulary."""
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "hidden_size": HIDDEN,
        "num_attention_heads": 2,
        "vocab_size": VOCABULARY,
        "draft_vocab_size": 40,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 3]},
    }
    shapes = {
        "fc.weight": (HIDDEN, 3 * HIDDEN), "norm.weight": (HIDDEN,), "lm_head.weight": (40, HIDDEN),
        "midlayer.hidden_norm.weight": (HIDDEN,), "midlayer.input_layernorm.weight": (HIDDEN,),
        "midlayer.post_attention_layernorm.weight": (HIDDEN,), "midlayer.self_attn.q_proj.weight": (64, 2 * HIDDEN),
        "midlayer.self_attn.k_proj.weight": (32, 2 * HIDDEN), "midlayer.self_attn.v_proj.weight": (32, 2 * HIDDEN),
        "midlayer.self_attn.o_proj.weight": (HIDDEN, 64), "midlayer.mlp.gate_proj.weight": (96, HIDDEN),
        "midlayer.mlp.up_proj.weight": (96, HIDDEN), "midlayer.mlp.down_proj.weight": (HIDDEN, 96),
    }  # fmt: skip
    tensors: dict[str, Tensor] = {name: torch.full(shape, 0.01) for name, shape in shapes.items()}
    tensors["d2t"] = torch.full((40,), 100)
    edit(config, tensors)
    return save_head(folder, config, tensors)


def run(model: Path, **plan: Any) -> LoadedModels:
    return load(LoadPlan(model=str(model), device="cpu", context=256, **plan), lambda *_: None, memory=PLENTY)
