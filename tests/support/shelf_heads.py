"""Drafting heads of our own format that hold nothing (sparse files): choices can be tested with real figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from localchat.engine.head_config import HeadConfig
from localchat.models.folders import fingerprint
from localchat.models.memory import Shape
from tests.support.shelf import write_sparse


def head_config(kind: str, target: Path) -> HeadConfig:
    """A head of one layer (Medusa: three heads of one block) in the size of a target."""
    shape = Shape.from_folder(target)
    return HeadConfig(
        kind=kind,
        hidden=shape.hidden,
        vocab=shape.vocab,
        depth=3 if kind == "medusa" else 1,
        heads=0 if kind == "medusa" else shape.heads,
        kv_heads=0 if kind == "medusa" else shape.kv_heads,
        head_dim=0 if kind == "medusa" else shape.head_dim,
        intermediate=0 if kind == "medusa" else shape.intermediate,
        window=512,
    )


def put_head(
    folder: Path,
    kind: str,
    target: Path,
    *,
    name: str,
    acceptance: Sequence[Sequence[float]] = (),
    changed: bool = False,
) -> Path:
    """A head for a target of that name, in the folder that its registered name stands for.

    Args:
        folder: to be made.
        kind: medusa or eagle.
        target: the folder of its target.
        name: what its card calls the target.
        acceptance: by depth and rank, as its card has it.
        changed: it was made for other weights.
    """
    config = head_config(kind, target)
    own = "0" * 64 if changed else fingerprint(target)
    folder.mkdir(parents=True)
    card = {
        "architectures": ["LocalchatHead"],
        "localchat_head": asdict(config),
        "target": {"name": name, "fingerprint": own, "hidden": config.hidden, "vocab": config.vocab},
        "acceptance": [list(ranks) for ranks in acceptance],
        "trained": {"tokens": 1_000_000, "minutes": 40},
    }
    (folder / "config.json").write_text(json.dumps(card))
    write_sparse(folder / "model.safetensors", _tensors(config))
    return folder


def _tensors(config: HeadConfig) -> dict[str, tuple[int, ...]]:
    size = config.hidden
    if config.kind == "medusa":
        blocks = [f"blocks.{head}.0" for head in range(config.depth)]
        weights = {f"{block}.weight": (size, size) for block in blocks}
        return {**weights, **{f"{block}.bias": (size,) for block in blocks}}
    rows, kept = config.heads * config.head_dim, config.kv_heads * config.head_dim
    return {
        "fc.weight": (size, 2 * size),
        "layers.0.self_attn.q_proj.weight": (rows, size),
        "layers.0.self_attn.k_proj.weight": (kept, size),
        "layers.0.self_attn.v_proj.weight": (kept, size),
        "layers.0.self_attn.o_proj.weight": (size, rows),
        "layers.0.mlp.gate_proj.weight": (config.intermediate, size),
        "layers.0.mlp.up_proj.weight": (config.intermediate, size),
        "layers.0.mlp.down_proj.weight": (size, config.intermediate),
        "layers.0.post_attention_layernorm.weight": (size,),
    }
