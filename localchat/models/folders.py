"""Finding a model's folder and saying, before anything is loaded, why it cannot be used. No torch.

Headers of safetensors files are read here (8 bytes of length, then JSON), so that a damaged download is one sentence
and not a crash in the middle of loading.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from localchat.errors import ModelError
from localchat.models.plan import STARTER

STARTER_DRAFT = "starter-draft"
"""Name of the small half of the built-in pair."""

STARTER_HEADS = ("starter-eagle", "starter-medusa")
BUILT_IN = {STARTER: "target", STARTER_DRAFT: "draft", "starter-eagle": "heads/eagle", "starter-medusa": "heads/medusa"}
"""Folders of what is shipped, inside models/starter."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
TEXT_PARTS = ("gemma3_text",)
"""Language models that may be taken out of a model that also reads images."""

TEXT_PREFIX = r"^(model\.)?language_model\.(model\.)?"
"""Start of the names of such a part's weights; they are called "model." when it stands alone."""

_LAYER = re.compile(r"(?:model\.)?(?:layers\.(\d+)|mtp_layers\.\d+|mtp)\.")
_HEADER_LIMIT = 100_000_000
_RECURRENT = re.compile(
    r"mamba|rwkv|jamba|zamba|bamba|xlstm|qwen3_next|qwen3_5|qwen4_exp|falcon_h1|recurrent_?gemma|lfm2|lfm3|"
    r"granitemoehybrid|nemotron_h|kimi_linear|olmo_hybrid|bailing_hybrid|minimax$|lara_mini|glm5_next|griffin"
)
_RECURRENT_LAYERS = {"linear_attention", "mamba", "recurrent", "conv", "ssm", "rglru", "lightning_attention", "hybrid"}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model", "tekken.json")
REPAIR = "Download it again: localchat models pull ID, or copy the folder anew."


@dataclass(frozen=True, slots=True)
class Source:
    """A model that is on this machine."""

    name: str
    """What the user calls it: a hub id, a folder, a GGUF file, or one of the built-in names."""
    folder: Path
    gguf: str = ""
    """File name inside the folder if the weights are a GGUF file, else empty."""

    @property
    def title(self) -> str:
        """Short name for the screen: the last part of a path or of a hub id."""
        return Path(self.gguf).stem if self.gguf else self.name.rstrip("/").rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One entry of a safetensors header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def count(self) -> int:
        """Number of elements."""
        total = 1
        for size in self.shape:
            total *= size
        return total


def short_name(name: str) -> str:
    """The last part of a hub id, a folder or a file, in small letters: enough to know a model by."""
    return name.rstrip("/").rsplit("/", 1)[-1].removesuffix(".gguf").lower()


def hub_cache() -> Path:
    """Folder of the local hub cache, honouring HF_HUB_CACHE, HF_HOME and XDG_CACHE_HOME."""
    for variable, below in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if os.environ.get(variable):
            return Path(os.environ[variable]).expanduser() / below
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def snapshot(hub_id: str) -> Path | None:
    """The newest complete snapshot of a hub model in the local cache, or None."""
    base = hub_cache() / ("models--" + hub_id.replace("/", "--"))
    reference = base / "refs" / "main"
    candidates = [base / "snapshots" / reference.read_text().strip()] if reference.is_file() else []
    if (base / "snapshots").is_dir():
        candidates += sorted((base / "snapshots").iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    return next((path for path in candidates if (path / "config.json").is_file()), None)


def cached_models() -> tuple[Source, ...]:
    """Hub models with a usable snapshot in the local cache, by name."""
    names = sorted(path.name for path in hub_cache().glob("models--*--*"))
    ids = [name.removeprefix("models--").replace("--", "/", 1) for name in names]
    found = ((hub_id, snapshot(hub_id)) for hub_id in ids)
    return tuple(Source(hub_id, folder) for hub_id, folder in found if folder is not None)


def own_folders(kind: str) -> tuple[Path, ...]:
    """What `localchat train` made on this machine: folders of "heads" or of "models", by name."""
    from localchat.paths import data_dir

    return tuple(path.parent for path in sorted((data_dir() / kind).glob("[!.]*/config.json")))


def _own(name: str) -> Path | None:
    """A head or a model that was trained here under this name."""
    found = (folder for kind in ("heads", "models") for folder in own_folders(kind) if folder.name == name)
    return next(found, None)


def find_model(name: str) -> Source:
    """The model or drafting head called `name`, looked for on this machine only.

    Raises:
        ModelError: there is none.
    """
    builtin = BUILT_IN.get(name)
    if builtin:
        return Source(name, Path(__file__).parent / "starter" / builtin)
    if own := _own(name):
        return Source(name, own)
    path = Path(name).expanduser()
    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise ModelError(f"There is no file {name}.", "Check the path.")
        return Source(name, path.parent, path.name)
    if path.is_dir():
        return Source(name, path)
    if _HUB_ID.fullmatch(name) and not name.startswith("."):
        folder = snapshot(name)
        if folder is None:
            raise ModelError(f"{name} is not on this machine.", f"Get it with: localchat models pull {name}")
        return Source(name, folder)
    raise ModelError(
        f"There is no model called {name} on this machine.",
        "Name a folder, a .gguf file or a hub id such as Qwen/Qwen3-0.6B; localchat models list shows what is here.",
    )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        ModelError: it is unreadable or no object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON.", REPAIR) from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds no JSON object.", REPAIR)
    return value


def read_config(folder: Path) -> dict[str, Any]:
    """The folder's config.json.

    Raises:
        ModelError: no folder, no config.json, or a broken one.
    """
    if not folder.is_dir():
        raise ModelError(f"There is no folder {folder}.", "Check the path.")
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"{folder} has no config.json, so it is no model folder.",
            "Point at the folder that holds config.json and *.safetensors, or at a .gguf file.",
        )
    return read_json(folder / "config.json")


def read_header(path: Path) -> tuple[TensorInfo, ...]:
    """Tensors of one safetensors file, checked against the file's size.

    Raises:
        ModelError: the header is damaged or the file is shorter than its header says.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
            if not 2 <= length <= min(_HEADER_LIMIT, size - 8):
                raise ModelError(f"{path} is damaged or cut short: its header is not all there.", REPAIR)
            header = json.loads(file.read(length))
        tensors = tuple(_tensors(header))
        end = max((int(entry["data_offsets"][1]) for name, entry in _entries(header)), default=0)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.", "Check the path and its permissions.") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ModelError(f"{path} is damaged: its header makes no sense.", REPAIR) from error
    if end > size - 8 - length:
        missing = end - (size - 8 - length)
        raise ModelError(f"{path} is cut short: {missing} bytes are missing.", REPAIR)
    return tensors


def _entries(header: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, entry) for name, entry in header.items() if name != "__metadata__")


def _tensors(header: Mapping[str, Any]) -> Iterator[TensorInfo]:
    for name, entry in _entries(header):
        start, end = (int(offset) for offset in entry["data_offsets"])
        if not 0 <= start <= end:
            raise ValueError("offsets run backwards")
        yield TensorInfo(name, str(entry["dtype"]), tuple(int(size) for size in entry["shape"]), end - start)


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files that hold the weights.

    Raises:
        ModelError: there are none (pickled weights are named), or a shard of the index is missing.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted({str(name) for name in read_json(index).get("weight_map", {}).values()})
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise ModelError(f"{folder} lacks {len(missing)} of {len(names)} weight files ({missing[0]} ...).", REPAIR)
        return tuple(folder / name for name in names)
    if (folder / "model.safetensors").is_file():
        return (folder / "model.safetensors",)
    if pickled := sorted(path.name for suffix in ("bin", "pt", "pth") for path in folder.glob(f"*.{suffix}")):
        raise ModelError(
            f"{folder} holds its weights as a Python pickle ({pickled[0]}), which can run code when it is opened.",
            "Use a version of the model in safetensors; many models offer one as a separate revision.",
        )
    raise ModelError(f"{folder} holds no weights (model.safetensors).", REPAIR)


def tensors(folder: Path) -> tuple[TensorInfo, ...]:
    """Every tensor of the language model, from the headers of its safetensors files (raises ModelError as they do).

    Of a model that also reads images only the language part counts, under the names it has when it stands alone.
    """
    infos = tuple(info for path in weight_files(folder) for info in read_header(path))
    inner = tuple(
        replace(info, name=re.sub(TEXT_PREFIX, "model.", info.name))
        for info in infos
        if re.match(TEXT_PREFIX, info.name)
    )
    return inner or infos


def beyond(name: str, layers: int) -> bool:
    """True for a tensor of a layer that predicts further tokens (MTP): it comes after the last of `layers`."""
    found = _LAYER.match(name)
    return found is not None and (found[1] is None or int(found[1]) >= layers)


def text_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of config.json that describes the language model (multimodal models nest it)."""
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, dict) else dict(config)


def refusal(config: Mapping[str, Any], *, trust_remote_code: bool = False) -> tuple[str, str] | None:
    """Why a model of this kind cannot run here, as (sentence, hint), or None if it can."""
    text = text_config(config)
    kind = str(text.get("model_type", ""))
    layers = {str(layer) for layer in text.get("layer_types") or ()}
    names = [str(name) for name in config.get("architectures") or ()]
    if _RECURRENT.search(kind) or layers & _RECURRENT_LAYERS:
        return (
            f"This is a recurrent or hybrid model ({kind}): its state cannot be rolled back after a rejected token.",
            "Choose a model with attention in every layer, such as Qwen3, Llama or Gemma 3.",
        )
    if config.get("is_encoder_decoder") or (any("Conditional" in name for name in names) and kind != "gemma3_text"):
        return (
            f"{kind or 'This model'} is not a text-only decoder (it encodes first, or it reads images or sound).",
            "Choose a causal language model: one whose config.json names a ...ForCausalLM architecture.",
        )
    if names and not any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names) and kind not in TEXT_PARTS:
        return (
            f"{names[0]} does not write text.",
            "Choose a causal language model: one whose config.json names a ...ForCausalLM architecture.",
        )
    if config.get("auto_map") and not trust_remote_code:
        return (
            "This model brings its own Python code, which would run on this machine.",
            "Read that code first; if you trust it, allow it for this model with --trust-remote-code.",
        )
    return _unsupported_cache(text) or _quantized(config)


def _unsupported_cache(text: Mapping[str, Any]) -> tuple[str, str] | None:
    layers = {str(layer) for layer in text.get("layer_types") or ()} - {"full_attention", "sliding_attention"}
    if text.get("kv_lora_rank"):
        reason = "its attention keeps a compressed cache (multi-head latent attention)"
    elif text.get("num_kv_shared_layers"):
        reason = "some of its layers share one cache"
    elif layers:
        reason = f"it has layers of a kind localchat does not know ({', '.join(sorted(layers))})"
    else:
        return None
    return f"This model cannot run here yet: {reason}.", "Choose a model such as Qwen3, Llama or Gemma 3."


def _quantized(config: Mapping[str, Any]) -> tuple[str, str] | None:
    stored = config.get("quantization_config")
    if not isinstance(stored, dict):
        return None
    method = stored.get("quant_method", "another tool")
    return (
        f"These weights are already quantized ({method}).",
        "Use the original model: localchat quantizes it while loading (--precision nf4).",
    )


def check_folder(folder: Path, *, trust_remote_code: bool = False) -> dict[str, Any]:
    """Everything that can be said against a model folder without loading it.

    Returns:
        Its config.json.

    Raises:
        ModelError: it cannot be used; the message says why, the hint what to do.
    """
    config = read_config(folder)
    if reason := refusal(config, trust_remote_code=trust_remote_code):
        raise ModelError(f"{folder.name}: {reason[0]}", reason[1])
    tensors(folder)
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise ModelError(
            f"{folder} has no tokenizer (tokenizer.json).",
            "Copy the tokenizer files of the model it was made from into the folder.",
        )
    return config


def eos_ids(folder: Path) -> frozenset[int]:
    """Ids that end a reply, from generation_config.json and config.json."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file():
            value = text_config(read_json(folder / name)).get("eos_token_id")
            found.update(value if isinstance(value, list) else [] if value is None else [value])
    return frozenset(int(token) for token in found)


def fingerprint(folder: Path) -> str:
    """A hash that is equal for equal weights: sizes, first and last megabyte of every weight file."""
    digest = hashlib.sha256()
    for path in weight_files(folder):
        size = path.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with path.open("rb") as file:
            digest.update(file.read(1 << 20))
            file.seek(max(0, size - (1 << 20)))
            digest.update(file.read(1 << 20))
    return digest.hexdigest()


def token_texts(folder: Path) -> tuple[str, ...] | None:
    """The text of every id from tokenizer.json ("" where an id is unused), or None if there is no such file.

    Raises:
        ModelError: the file is damaged.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    state = path.stat()
    return _token_texts(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=4)
def _token_texts(path: Path, _size: int, _changed: int) -> tuple[str, ...]:
    data = read_json(path)
    try:
        vocabulary = data["model"]["vocab"]
        pairs = (
            [(str(text), int(token)) for text, token in vocabulary.items()]
            if isinstance(vocabulary, dict)
            else [(str(entry[0]), token) for token, entry in enumerate(vocabulary)]
        )
        pairs += [(str(entry["content"]), int(entry["id"])) for entry in data.get("added_tokens") or ()]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelError(f"{path} is damaged: its vocabulary makes no sense.", REPAIR) from error
    texts = [""] * (1 + max((token for _, token in pairs), default=-1))
    for text, token in pairs:
        texts[token] = text
    return tuple(texts)
