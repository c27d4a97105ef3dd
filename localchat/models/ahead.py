"""Layers in a model's own files that predict further tokens (multi-token prediction), which transformers drops on load.

Names: DeepSeek-V3 and GLM-4-MoE (model.layers.N.* after the last layer) and MiMo (model.mtp_layers.i.*). They share the
model's embedding and output head, so the copies some files bring are not read. No torch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from localchat.engine.head_config import HeadConfig
from localchat.models.folders import TensorInfo
from localchat.models.head_formats import HeadFile, Layout
from localchat.models.memory import Shape

_NAME = re.compile(r"model\.(?:layers\.(\d+)|mtp_layers\.(\d+))\.(.+)")
_PARTS = {
    "enorm.weight": "enorm.weight",
    "hnorm.weight": "hnorm.weight",
    "eh_proj.weight": "eh_proj.weight",
    "shared_head.norm.weight": "norm.weight",
    "token_layernorm.weight": "enorm.weight",
    "hidden_layernorm.weight": "hnorm.weight",
    "input_proj.weight": "eh_proj.weight",
    "final_layernorm.weight": "norm.weight",
}
_SHARED = ("embed_tokens.", "shared_head.head.")


def ahead_name(name: str, layers: int) -> str:
    """The name that engine/heads.py gives a tensor of a model with `layers` layers; empty for any other tensor."""
    found = _NAME.fullmatch(name)
    if not found:
        return ""
    step = int(found[2]) if found[2] else int(found[1]) - layers
    if step < 0 or found[3].startswith(_SHARED):
        return ""
    return f"steps.{step}.{_PARTS.get(found[3], f'block.{found[3]}')}"


def ahead_file(infos: Sequence[TensorInfo], shape: Shape, eps: float) -> HeadFile | None:
    """What a model's own files say about such layers; None if it has none.

    Args:
        infos: the model's tensors.
        shape: of the model.
        eps: of its norms.
    """
    names = {ahead_name(info.name, len(shape.windows)) for info in infos}
    steps = sorted(int(name.split(".")[1]) for name in names if name.endswith(".eh_proj.weight"))
    if steps != list(range(len(steps))) or not steps:
        return None
    config = HeadConfig(
        kind="mtp",
        hidden=shape.hidden,
        vocab=shape.vocab,
        depth=len(steps),
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate=shape.intermediate,
        eps=eps,
        hidden_first=any("mtp_layers" in info.name for info in infos),
        # As vLLM and SGLang chain them: the first step reads a normed state too.
        recur_normed=True,
    )
    return HeadFile(config, Layout.AHEAD, layers=len(shape.windows))
