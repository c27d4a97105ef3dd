"""The published layouts of drafting heads: from config.json and tensor headers to one shape and one set of names.

Read: Medusa (FasterDecoding, and as vLLM names it), EAGLE-1/2 and EAGLE-3 (SafeAILab, AngelSlim, SpecForge),
speculators' eagle and eagle3 (RedHatAI), and our own. Sizes come from the tensors, as configs leave out or repeat them
from elsewhere. No torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from localchat.engine.head_config import FINAL, HeadConfig
from localchat.errors import ModelError
from localchat.models.folders import TensorInfo, read_config, read_header, weight_files
from localchat.models.plan import HEADS

WINDOW = 2048
"""Tokens an EAGLE layer looks back at most: they are trained on texts of about this length."""

OWN = "LocalchatHead"
"""Architecture that our own config.json names."""

IDS = "ids"
"""Tensor of our own files: the token id of each entry of a reduced vocabulary, ascending."""

_ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh", "relu")
_MEDUSA_FILE = "medusa_lm_head"
_PICKLES = ("bin", "pt", "pth")
_KNOWN_SPECULATORS = ("eagle", "eagle3", "medusa")
_UNKNOWN = "Choose another Medusa, EAGLE or EAGLE-3 head, or train one: localchat train."


STRETCHED = ("linear", "llama3")
"""Kinds of `Rope` that can be followed."""


class Layout(StrEnum):
    """How a file names its tensors."""

    OWN = "own"
    MEDUSA = "medusa"
    EAGLE = "eagle"
    AHEAD = "ahead"
    """Layers of the target's own files that predict further tokens."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary frequencies that are stretched for long contexts ("linear", or "llama3" as Llama 3.1 has it)."""

    kind: str
    factor: float
    low: float = 1.0
    high: float = 4.0
    original: int = 8192
    """Tokens of the context before."""


@dataclass(frozen=True, slots=True)
class HeadFile:
    """What the files of a head say."""

    config: HeadConfig
    layout: Layout
    base: str = ""
    """Name of the model it was made for; empty if they do not say."""
    fingerprint: str = ""
    """Of the weights it was made for; empty if they do not say."""
    layers: int = 0
    """Decoder layers of the model it was made for; 0 if they do not say."""
    precision: str = ""
    """Of the target whose states it was trained on; empty if they do not say."""
    rope: Rope | None = None
    acceptance: tuple[tuple[float, ...], ...] = ()
    """Measured when it was trained, by depth and rank; empty if they do not say."""


@dataclass(frozen=True, slots=True)
class TargetSizes:
    """What a published head takes for granted about its target; zeros if there is none yet."""

    layers: int = 0
    vocab: int = 0
    hidden: int = 0


def looks_like_head(folder: Path) -> bool:
    """True if a folder with a config.json holds a drafting head and no model.

    Raises:
        ModelError: its config.json or a header is damaged.
    """
    config = read_config(folder)
    marks = ("localchat_head", "medusa_num_heads", "speculators_model_type", "draft_vocab_size")
    names = " ".join(str(name) for name in config.get("architectures") or ()).lower()
    if any(mark in config for mark in marks) or re.search("eagle|medusa|speculator", names):
        return True
    if (folder / "model.safetensors").is_file():
        stored = {info.name.removeprefix("model.") for info in read_header(folder / "model.safetensors")}
        return bool(stored & {"fc.weight", "0.0.linear.weight", "medusa_heads.0.0.linear.weight"})
    # EAGLE-1 and -2 call themselves a Llama of one layer, and bring neither safetensors nor a tokenizer.
    pickled = any(folder.glob("pytorch_model*.bin")) and not (folder / "model.safetensors.index.json").is_file()
    return pickled and int(config.get("num_hidden_layers") or 0) == 1 and not (folder / "tokenizer.json").is_file()


def head_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a head.

    Raises:
        ModelError: there are none; of pickled ones the hint says how to convert them safely.
    """
    if (folder / f"{_MEDUSA_FILE}.safetensors").is_file():
        return (folder / f"{_MEDUSA_FILE}.safetensors",)
    safe = any(folder.glob("*.safetensors"))
    pickled = sorted(path for suffix in _PICKLES for path in folder.glob(f"*.{suffix}"))
    if pickled and not safe:
        goal = folder / f"{_MEDUSA_FILE if pickled[0].stem == _MEDUSA_FILE else 'model'}.safetensors"
        raise ModelError(
            f"{folder.name} holds its head as a pickle ({pickled[0].name}), which can run code when it is opened.",
            'Convert it without running any: python -c "import torch; from safetensors.torch import save_file; '
            f"head = torch.load('{pickled[0]}', map_location='cpu', weights_only=True); "
            f"save_file({{name: value.clone() for name, value in head.items()}}, '{goal}')\"",
        )
    return weight_files(folder)


def read_head_file(folder: Path, target: TargetSizes) -> tuple[HeadFile, tuple[TensorInfo, ...]]:
    """What a head's files say, and its tensors by the names they have there.

    Args:
        folder: of the head.
        target: sizes of the model it is to draft for.

    Raises:
        ModelError: damaged files, or a layout that cannot be read.
    """
    config = read_config(folder)
    infos = tuple(info for path in head_files(folder) for info in read_header(path))
    named = {info.name: info.shape for info in infos}
    kind = str(config.get("speculators_model_type") or "")
    if kind and kind not in _KNOWN_SPECULATORS:
        raise ModelError(f"{folder.name} is a head of a kind localchat does not know ({kind}).", _UNKNOWN)
    try:
        if "localchat_head" in config:
            return _own(config, folder.name), infos
        if any(_MEDUSA_BLOCK.match(name) for name in named):
            return _medusa(config, named, target), infos
        return _eagle(config, named, target, folder.name), infos
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError) as error:
        raise ModelError(
            f"{folder.name} is damaged, or a head of a kind localchat does not know ({error}).", _UNKNOWN
        ) from error


def _own(config: Mapping[str, Any], name: str) -> HeadFile:
    stored, target = config["localchat_head"], config.get("target") or {}
    known = {field.name for field in fields(HeadConfig)}
    if unknown := sorted(set(stored) - known):
        raise ModelError(
            f"{name} was made by a newer localchat ({unknown[0]}).", "Update localchat, or train it again."
        )
    if stored["kind"] not in HEADS:
        raise ValueError(stored["kind"])
    return HeadFile(
        config=HeadConfig(**{**stored, "taps": tuple(int(tap) for tap in stored.get("taps", (FINAL,)))}),
        layout=Layout.OWN,
        base=str(target.get("name", "")),
        fingerprint=str(target.get("fingerprint", "")),
        layers=int(target.get("layers", 0)),
        precision=str((config.get("trained") or {}).get("precision", "")),
        acceptance=tuple(tuple(float(rate) for rate in ranks) for ranks in config.get("acceptance") or () if ranks),
    )


_MEDUSA_BLOCK = re.compile(r"(?:medusa_heads?\.)?(?:(\d+)\.(\d+)\.linear|blocks\.(\d+)\.layers\.(\d+))\.(weight|bias)$")
_MEDUSA_OUTPUT = re.compile(r"(?:medusa_heads?\.)?(?:(\d+)\.\d+|lm_heads\.(\d+))\.weight$")


def _medusa(config: Mapping[str, Any], named: Mapping[str, tuple[int, ...]], target: TargetSizes) -> HeadFile:
    blocks = [found for name in named if (found := _MEDUSA_BLOCK.match(name)) and found[5] == "weight"]
    outputs = [shape for name, shape in named.items() if _is_medusa_output(name)]
    hidden = named[blocks[0].string][0]
    depth = 1 + max(int(found[1] or found[3] or 0) for found in blocks)
    scored = outputs[0][0] if outputs else 0
    vocab = int(config.get("vocab_size") or scored or target.vocab) if "token_map" in named else scored or target.vocab
    return HeadFile(
        config=HeadConfig(
            kind="medusa",
            hidden=hidden,
            vocab=vocab,
            depth=depth,
            layers=1 + max(int(found[2] or found[4] or 0) for found in blocks),
            draft_vocab=scored if scored != vocab else 0,
            own_output=bool(outputs),
        ),
        layout=Layout.MEDUSA,
        base=str(config.get("base_model_name_or_path") or ""),
    )


def _is_medusa_output(name: str) -> bool:
    return bool(_MEDUSA_OUTPUT.match(name)) and not _MEDUSA_BLOCK.match(name)


_EAGLE_NAMES = (
    ("model.", ""),
    ("midlayer.", "layers.0."),
    ("transformer.", "layers.0."),
    ("fusion_fc.", "fc."),
    ("pre_lm_head_layernorm.", "norm."),
    ("lm_head.", "output."),
)
"""Beginnings of names in EAGLE files, and the canonical ones; tried in this order, each at most once."""

_EAGLE_UNUSED = re.compile(r"d2t|t2d|verifier_|.*rotary_emb\.inv_freq|.*\.dummy")
_EAGLE_KNOWN = re.compile(
    r"fc\.(weight|bias)|norm\.weight|output\.weight|embed_tokens\.weight|"
    r"layers\.\d+\.((input_layernorm|post_attention_layernorm|hidden_norm)\.weight|mlp\.(gate|up|down)_proj\.weight|"
    r"self_attn\.([qkvo]_proj\.(weight|bias)|[qk]_norm\.weight))"
)


def canonical(layout: Layout, name: str) -> str:
    """The name that engine/heads.py gives a tensor of a file; empty for one that is not needed."""
    if layout is Layout.MEDUSA:
        if found := _MEDUSA_BLOCK.match(name):
            return f"blocks.{found[1] or found[3]}.{found[2] or found[4]}.{found[5]}"
        found = _MEDUSA_OUTPUT.match(name)
        return f"outputs.{found[1] or found[2]}.weight" if found else ""
    if layout is Layout.EAGLE:
        for old, new in _EAGLE_NAMES:
            name = new + name.removeprefix(old) if name.startswith(old) else name
        return "" if _EAGLE_UNUSED.match(name) else name
    return "" if name == IDS else name


def _eagle(
    config: Mapping[str, Any], named: Mapping[str, tuple[int, ...]], target: TargetSizes, title: str
) -> HeadFile:
    layer = {**config, **(config.get("transformer_layer_config") or {})}
    names = {canonical(Layout.EAGLE, name): shape for name, shape in named.items()}
    activation = str(layer.get("hidden_act") or "silu")
    unknown = [name for name in (activation,) if name not in _ACTIVATIONS]
    unknown += sorted(name for name in names if name and not _EAGLE_KNOWN.fullmatch(name))
    if unknown:
        raise ModelError(f"{title} is a head of a kind localchat does not know ({unknown[0]}).", _UNKNOWN)
    hidden, joined = names["fc.weight"]
    query, first = names["layers.0.self_attn.q_proj.weight"], "layers.0."
    fused = f"{first}hidden_norm.weight" in names
    size = int(layer.get("head_dim") or hidden // int(layer["num_attention_heads"]))
    vocab = int(layer.get("vocab_size") or target.vocab)
    scored = names.get("output.weight", (vocab,))[0]
    stated = int(config.get("target_hidden_size") or hidden)
    if stated != hidden or query[1] != hidden * (2 if fused else 1):
        raise ModelError(f"{title} works at another size than its target ({hidden} and {stated}).", _UNKNOWN)
    taps = _taps(config, target.layers, joined // hidden) if fused else (FINAL,)
    head = HeadConfig(
        kind="eagle",
        hidden=hidden,
        vocab=vocab,
        taps=taps,
        layers=1 + max(int(name.split(".")[1]) for name in names if name.startswith("layers.")),
        draft_vocab=scored if scored != vocab else 0,
        own_output="output.weight" in names,
        own_embedding="embed_tokens.weight" in names,
        heads=query[0] // size,
        kv_heads=names[f"{first}self_attn.k_proj.weight"][0] // size,
        head_dim=size,
        intermediate=names[f"{first}mlp.gate_proj.weight"][0],
        activation=activation,
        eps=float(layer.get("rms_norm_eps") or 1e-6),
        rope_theta=float(_rope(layer).get("rope_theta") or layer.get("rope_theta") or 10000.0),
        bias=f"{first}self_attn.q_proj.bias" in names,
        qk_norm=f"{first}self_attn.q_norm.weight" in names,
        fuse_bias="fc.bias" in names,
        fused=fused,
        norm_before_residual=fused
        and bool(config.get("norm_before_residual", config.get("speculators_model_type") == "eagle3")),
        input_norm=not fused and f"{first}input_layernorm.weight" in names,
        final_norm=not fused and "norm.weight" in names,
        window=min(WINDOW, int(layer.get("max_position_embeddings") or WINDOW)),
    )
    verifier = (config.get("speculators_config") or {}).get("verifier") or {}
    base = verifier.get("name_or_path") or config.get("base_model_name_or_path") or ""
    return HeadFile(head, Layout.EAGLE, base=str(base), rope=_stretched(layer))


def _taps(config: Mapping[str, Any], layers: int, count: int) -> tuple[int, ...]:
    """The layers of the target that an EAGLE-3 head reads, as outputs counted from 0.

    At the top of a config (speculators, vLLM) i means what goes into layer i, in `eagle_config` (SpecForge, SGLang)
    what comes out of it. Without either: what goes into the 3rd, the middle and the 3rd last layer.
    """
    into = config.get("eagle_aux_hidden_state_layer_ids")
    out = (config.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
    taps = [int(i) - 1 for i in into] if into else [int(i) for i in out] if out else []
    taps = taps or [1, layers // 2 - 1, layers - 4]
    if config.get("norm_output"):
        raise ValueError("norm_output")
    if min(taps) < 0:
        raise ValueError(f"no layer gives the state that goes into layer {min(taps) + 1}")
    if len(taps) != count:
        raise ValueError(f"{count} layers are joined, {len(taps)} are named")
    return tuple(sorted(taps))


def _rope(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a config says about rotary positions, in its older or newer form."""
    return layer.get("rope_parameters") or layer.get("rope_scaling") or {}


def _stretched(layer: Mapping[str, Any]) -> Rope | None:
    rope = _rope(layer)
    kind = str(rope.get("rope_type") or rope.get("type") or "default")
    if kind == "default":
        return None
    read: Callable[[str, float], float] = lambda key, default: float(rope.get(key) or default)  # noqa: E731
    original = int(read("original_max_position_embeddings", 8192))
    return Rope(kind, read("factor", 1.0), read("low_freq_factor", 1.0), read("high_freq_factor", 4.0), original)
