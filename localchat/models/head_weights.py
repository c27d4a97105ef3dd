"""Reads the weights of a drafting head into the network that drafts with them (engine/heads.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import pi
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from localchat.engine.head_config import HeadConfig
from localchat.engine.heads import AnyHead, Eagle, build
from localchat.engine.packed import pack, plain_weight
from localchat.engine.target import Block
from localchat.errors import ModelError
from localchat.models.ahead import ahead_name
from localchat.models.folders import weight_files
from localchat.models.head_formats import IDS, STRETCHED, Layout, Rope, canonical, head_files
from localchat.models.heads import HeadSide
from localchat.models.quantization import repacks
from localchat.models.quiet import Steps

_DAMAGED = "Download it again, or train it again: the files do not belong together."
_EXPERT = re.compile(r"(.+\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")
_ID_TENSORS = (IDS, "d2t", "t2d", "token_map")


def read_weights(head: HeadSide, model: Any, vocabulary: int, dtype: torch.dtype, device: str, steps: Steps) -> AnyHead:
    """A head on its target's device, in eval mode and without gradients.

    Args:
        head: what its files say.
        model: the loaded target, whose embedding and output head it may share.
        vocabulary: ids from here on stand for no token of the target; a reduced vocabulary leaves them out.
        dtype: of the weights, as the target computes.
        device: where the target is.
        steps: told about every tensor.

    Raises:
        ModelError: tensors are missing, have other sizes, or the reduced vocabulary makes no sense.
    """
    state, ids = _tensors(head, model, dtype, device, steps)
    config = head.file.config
    if not config.draft_vocab and ids is not None and ids.equal(torch.arange(len(ids), device=ids.device)):
        ids = None  # all tokens, in their order
    if config.draft_vocab or ids is not None:
        ids, order = _ascending(ids, head, vocabulary)
        config = replace(config, draft_vocab=len(ids))
        for name in state:
            if name.startswith("output"):
                state[name] = state[name][order]
    embed, output = model.get_input_embeddings(), model.get_output_embeddings()
    config = _sharing(config, state, embed)
    rows = plain_weight(output)[ids].clone() if ids is not None and not config.own_output else None
    with _fresh(dtype, device):
        blocks = [Block(model, step) for step in range(config.depth)] if config.kind == "mtp" else []
        network = build(config, embed, output, rows, ids, blocks)
    _fill(network, state, head.source.title)
    if head.file.rope and head.file.rope.kind in STRETCHED and isinstance(network, Eagle):
        network.frequencies.copy_(stretched(network.frequencies, head.file.rope))
    network.acceptance = head.file.acceptance
    network.requires_grad_(False)
    if device == "cpu" and repacks():
        pack(network)
    return network.eval()


def _tensors(
    head: HeadSide, model: Any, dtype: torch.dtype, device: str, steps: Steps
) -> tuple[dict[str, Tensor], Tensor | None]:
    """Weights by canonical name, and the ids of a reduced vocabulary as the file has them."""
    ahead = head.file.layout is Layout.AHEAD
    files = weight_files(head.source.folder) if ahead else head_files(head.source.folder)
    layers = model.config.get_text_config().num_hidden_layers
    wanted = {info.name for info in head.infos}
    state: dict[str, Tensor] = {}
    special: dict[str, Tensor] = {}
    for path in files:
        with safe_open(path, framework="pt", device=device) as file:
            for name in file.keys():  # noqa: SIM118 - not a mapping
                if name in wanted:
                    renamed = ahead_name(name, layers) if ahead else canonical(head.file.layout, name)
                    state[renamed] = file.get_tensor(name).to(dtype)
                    steps(len(state), len(wanted))
                elif name.removeprefix("model.") in _ID_TENSORS and not ahead:
                    special[name.removeprefix("model.")] = file.get_tensor(name)
    return _fused(state), _ids(special)


def _ids(special: Mapping[str, Tensor]) -> Tensor | None:
    """Token ids of a reduced vocabulary: stored as such, as offsets from the row (d2t), or as a mask (t2d)."""
    for name in (IDS, "token_map"):
        if name in special:
            return special[name].long()
    if "d2t" in special:
        offsets = special["d2t"].long()
        return offsets + torch.arange(len(offsets), device=offsets.device)
    return special["t2d"].nonzero()[:, 0] if "t2d" in special else None


def _ascending(ids: Tensor | None, head: HeadSide, vocabulary: int) -> tuple[Tensor, Tensor]:
    """The ids in ascending order, and the order of the rows that goes with it."""
    config, title = head.file.config, head.source.title
    if ids is None:
        raise ModelError(f"{title} does not say which tokens it proposes (d2t is missing).", _DAMAGED)
    ids, order = ids.sort()
    whole = len(ids) == (config.draft_vocab or config.vocab) and bool((ids.diff() > 0).all())
    if not whole or int(ids[0]) < 0 or int(ids[-1]) >= config.vocab:
        raise ModelError(f"{title} names tokens that its target does not have.", _DAMAGED)
    known = ids < vocabulary
    return ids[known], order[known]


def _sharing(config: HeadConfig, state: dict[str, Tensor], embed: nn.Module) -> HeadConfig:
    """The shape without an embedding that only repeats the target's, as published heads often bring one."""
    own = state.get("embed_tokens.weight")
    if own is None or type(embed) is not nn.Embedding:  # another class may scale what it looks up
        return config
    if own.shape != embed.weight.shape or not torch.equal(own, embed.weight.to(own.dtype)):
        return config
    del state["embed_tokens.weight"]
    return replace(config, own_embedding=False)


@contextmanager
def _fresh(dtype: torch.dtype, device: str) -> Iterator[None]:
    """Make modules where and as they will be used: a large block in fp32 first would take twice the memory."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            yield
    finally:
        torch.set_default_dtype(before)


def _fused(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Experts as transformers keeps them: all of a layer in one tensor, gate and up together."""
    places = [found for name in state if (found := _EXPERT.fullmatch(name))]
    for block in sorted({found[1] for found in places}):
        count = 1 + max(int(found[2]) for found in places if found[1] == block)
        gate, up, down = (
            [state.pop(f"{block}.{index}.{part}_proj.weight") for index in range(count)]
            for part in ("gate", "up", "down")
        )
        joined = [torch.cat(pair) for pair in zip(gate, up, strict=True)]
        state[f"{block}.gate_up_proj"], state[f"{block}.down_proj"] = torch.stack(joined), torch.stack(down)
    return state


def _fill(network: AnyHead, state: Mapping[str, Tensor], title: str) -> None:
    wanted = network.own_state()
    for name in list(wanted):
        if name.endswith(".bias") and name not in state and name.startswith("blocks."):
            wanted[name].zero_()  # Medusa blocks may be published without
            del wanted[name]
    missing = sorted(set(wanted) - set(state))
    if missing:
        raise ModelError(f"{title} lacks {len(missing)} of its weights ({missing[0]} ...).", _DAMAGED)
    if unknown := sorted(set(state) - set(wanted)):
        raise ModelError(f"{title} has weights that do not belong to such a head ({unknown[0]}).", _DAMAGED)
    for name, tensor in wanted.items():
        if tensor.shape != state[name].shape:
            sizes = f"{tuple(state[name].shape)} in place of {tuple(tensor.shape)}"
            raise ModelError(f"{title} has a weight of another size: {name} is {sizes}.", _DAMAGED)
        tensor.copy_(state[name])


def stretched(frequencies: Tensor, rope: Rope) -> Tensor:
    """Rotary frequencies [n] for a longer context: slower, but "llama3" leaves those that turn fast as they are."""
    if rope.kind == "linear":
        return frequencies / rope.factor
    length = 2 * pi / frequencies
    blend = ((rope.original / length - rope.low) / (rope.high - rope.low)).clamp(0.0, 1.0)
    return frequencies * (blend + (1.0 - blend) / rope.factor)
