"""Model folders of real size that hold nothing (sparse files): choices can be tested with real figures."""

from __future__ import annotations

import json
import struct
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localchat.models import catalog


def config_of(model: str) -> dict[str, Any]:
    """The fields of a catalog model's config.json."""
    with (Path(catalog.__file__).parent / "catalog.toml").open("rb") as file:
        entries = tomllib.load(file)["model"]
    return next(dict(entry["config"]) for entry in entries if entry["id"] == model)


def stock_hub(hub: Path, *models: str, words: str = "a") -> None:
    """Put models of the catalog into a hub cache; `words` makes their tokenizers differ from those of others."""
    for model in models:
        folder = hub / ("models--" + model.replace("/", "--")) / "snapshots" / "1"
        put_model(folder, config_of(model), words=words)


def put_model(folder: Path, config: dict[str, Any], *, words: str = "a") -> Path:
    """A model folder with weights of the sizes that its config says."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {f"{words}{token}": token for token in range(100)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    _weights(folder / "model.safetensors", config)
    return folder


def _weights(path: Path, config: dict[str, Any]) -> None:
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config.get("num_key_value_heads", 1)
    head = config.get("head_dim", hidden // heads)
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], hidden), "model.norm.weight": (hidden,)}
    if not config.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        shapes |= {
            f"{name}.self_attn.q_proj.weight": (heads * head, hidden),
            f"{name}.self_attn.k_proj.weight": (kv_heads * head, hidden),
            f"{name}.self_attn.v_proj.weight": (kv_heads * head, hidden),
            f"{name}.self_attn.o_proj.weight": (hidden, heads * head),
            f"{name}.mlp.gate_proj.weight": (wide, hidden),
            f"{name}.mlp.up_proj.weight": (wide, hidden),
            f"{name}.mlp.down_proj.weight": (hidden, wide),
        }
    write_sparse(path, shapes)


def write_sparse(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """A bf16 safetensors file with a hole in place of its numbers."""
    header: dict[str, Any] = {}
    at = 0
    for name, shape in shapes.items():
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
