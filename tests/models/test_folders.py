"""Finding models and refusing them with a reason, before anything is loaded."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localchat.errors import ModelError
from localchat.models.folders import (
    cached_models,
    check_folder,
    eos_ids,
    find_model,
    fingerprint,
    hub_cache,
    read_header,
    refusal,
    tensors,
    token_texts,
)
from localchat.models.gguf import check_gguf
from localchat.models.memory import Shape
from tests.support.models import bare_folder, write_safetensors

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "vocab_size": 8,
}


def test_a_whole_folder_passes(tmp_path: Path) -> None:
    """Guards the checks against refusing what is good."""
    assert check_folder(bare_folder(tmp_path / "m", LLAMA))["model_type"] == "llama"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "mamba2"}, "rolled back"),
        ({"model_type": "rwkv"}, "rolled back"),
        ({"model_type": "qwen3_next"}, "rolled back"),
        ({"model_type": "qwen3_5_text"}, "rolled back"),
        ({"model_type": "recurrent_gemma"}, "rolled back"),
        ({"model_type": "falcon_h1"}, "rolled back"),
        ({"model_type": "lfm2"}, "rolled back"),
        ({"model_type": "granitemoehybrid"}, "rolled back"),
        ({"model_type": "jamba"}, "rolled back"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "rolled back"),
        ({"layer_types": ["chunked_attention"]}, "kind localchat does not know"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "text-only decoder"),
        ({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}, "text-only decoder"),
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "does not write text"),
        ({"auto_map": {"AutoModelForCausalLM": "modeling_x.X"}}, "Python code"),
        ({"kv_lora_rank": 512}, "compressed cache"),
        ({"num_kv_shared_layers": 10}, "share one cache"),
        ({"quantization_config": {"quant_method": "gptq"}}, "already quantized (gptq)"),
    ],
)
def test_kinds_that_cannot_run_are_refused(config: dict[str, Any], words: str) -> None:
    """Guards against loading a model that then fails, or writes nonsense after the first rejected token."""
    reason = refusal({**LLAMA, **config})
    assert reason is not None
    assert words in reason[0]
    assert reason[1]


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]},
        {"model_type": "gemma3_text", "layer_types": ["sliding_attention", "full_attention"]},
        {
            "model_type": "gemma3",
            "architectures": ["Gemma3ForConditionalGeneration"],
            "text_config": {"model_type": "gemma3_text"},
        },
        {"model_type": "minimax_m2"},
    ],
)
def test_kinds_that_can_run_are_not_refused(config: dict[str, Any]) -> None:
    """Guards against refusing by a name that only looks like a recurrent or image model."""
    assert refusal({**LLAMA, **config}) is None


def test_own_code_needs_permission() -> None:
    """Guards against running a model's code unasked, and against asking twice."""
    assert refusal({**LLAMA, "auto_map": {"x": "y"}}, trust_remote_code=True) is None


def _no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def _broken_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def _list_config(folder: Path) -> None:
    (folder / "config.json").write_text("[]")


def _no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def _no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _missing_shard(folder: Path) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")


def _cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-3])


def _cut_in_header(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:20])


def _empty(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def _garbage(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"<!DOCTYPE html><html>" * 50)


def _no_json(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 10) + b"{not json}" + bytes(8))


def _odd_json(folder: Path) -> None:
    text = b'{"a": {"dtype": "BF16", "shape": [2], "data_offsets": [4]}}'
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))


def _backwards(folder: Path) -> None:
    text = b'{"a": {"dtype": "BF16", "shape": [2], "data_offsets": [4, 0]}}'
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_no_config, "no config.json"),
        (_broken_config, "cannot be read as JSON"),
        (_list_config, "no JSON object"),
        (_no_tokenizer, "no tokenizer"),
        (_no_weights, "holds no weights"),
        (_pickle, "Python pickle"),
        (_missing_shard, "lacks 1 of 2 weight files"),
        (_cut, "cut short: 3 bytes"),
        (_cut_in_header, "cut short"),
        (_empty, "header"),
        (_garbage, "header"),
        (_no_json, "makes no sense"),
        (_odd_json, "makes no sense"),
        (_backwards, "makes no sense"),
    ],
)
def test_damaged_folders(tmp_path: Path, damage: Callable[[Path], None], words: str) -> None:
    """Guards against a traceback, or a crash in native code, where a download broke off."""
    folder = bare_folder(tmp_path / "m", LLAMA)
    damage(folder)
    with pytest.raises(ModelError, match=words) as caught:
        check_folder(folder)
    assert caught.value.hint
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no GGUF file"),
        (b"GGUF\3\0\0\0", "only the start"),
        (b"GGML" + bytes(40), "no GGUF file"),
        (b"GGUF\1\0\0\0" + bytes(40), "version 1"),
        (b"GGUF\0\0\0\3" + bytes(40), "version"),
    ],
)
def test_broken_gguf(tmp_path: Path, content: bytes, words: str) -> None:
    """Guards against handing a file to the reader that is no GGUF file, or one of an unknown (big-endian) version."""
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=words):
        check_gguf(path)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nobody/nothing", "localchat models pull nobody/nothing"),
        ("/no/such/folder", "localchat models list"),
        ("missing.gguf", "Check the path"),
        ("nonsense", "localchat models list"),
    ],
)
def test_missing_models_say_what_to_do(name: str, hint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards against a network call or a traceback for a model that is not here."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError) as caught:
        find_model(name)
    assert hint in caught.value.hint


def hub_folder(cache: Path, hub_id: str, revision: str = "abc", main: bool = True) -> Path:
    base = cache / ("models--" + hub_id.replace("/", "--"))
    folder = bare_folder(base / "snapshots" / revision, LLAMA)
    if main:
        (base / "refs").mkdir(exist_ok=True)
        (base / "refs" / "main").write_text(revision)
    return folder


def test_hub_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards the layout of the hub cache: names with dashes, the main revision, and half-made entries."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    hub_folder(tmp_path, "some-one/a--b.c", "old", main=False)
    folder = hub_folder(tmp_path, "some-one/a--b.c", "new")
    (tmp_path / "models--x--half" / "snapshots" / "r").mkdir(parents=True)
    assert find_model("some-one/a--b.c").folder == folder
    assert [source.name for source in cached_models()] == ["some-one/a--b.c"]


def test_hub_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards the order in which the variables that move the cache are honoured."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert hub_cache() == Path("/x/huggingface/hub")
    monkeypatch.setenv("HF_HOME", "/h")
    assert hub_cache() == Path("/h/hub")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert hub_cache() == tmp_path


def test_language_part_of_an_image_model(tmp_path: Path) -> None:
    """Guards the count: the image part is not loaded, so it must not be planned for; names must be the loaded ones."""
    weights = {
        "language_model.model.embed_tokens.weight": (8, 4),
        "language_model.model.layers.0.mlp.up_proj.weight": (8, 4),
        "vision_tower.big.weight": (512, 64),
    }
    folder = bare_folder(tmp_path / "m", {**LLAMA, "tie_word_embeddings": True}, weights)
    assert [info.name for info in tensors(folder)] == ["model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"]
    shape = Shape.from_folder(folder)
    assert (shape.linear, shape.embedding, shape.other) == (32, 32, 0)


def test_a_stored_copy_of_a_tied_head_is_not_counted(tmp_path: Path) -> None:
    """Guards against planning a tied head twice because the file repeats it."""
    weights = {"model.embed_tokens.weight": (8, 4), "lm_head.weight": (8, 4)}
    tied = bare_folder(tmp_path / "tied", {**LLAMA, "tie_word_embeddings": True}, weights)
    untied = bare_folder(tmp_path / "untied", LLAMA, weights)
    assert Shape.from_folder(tied).embedding == 32
    assert Shape.from_folder(untied).embedding == 64


def test_end_ids_of_both_files(tmp_path: Path) -> None:
    """Guards against missing an end: a list and a number, in either file."""
    folder = bare_folder(tmp_path / "m", {**LLAMA, "eos_token_id": 1})
    (folder / "generation_config.json").write_text('{"eos_token_id": [1, 106]}')
    assert eos_ids(folder) == {1, 106}


def test_token_texts_of_both_vocabulary_forms(tmp_path: Path) -> None:
    """Guards the reading of tokenizer.json: a map or a list of pieces, added tokens on top, gaps empty."""
    folder = bare_folder(tmp_path / "m", LLAMA)
    path = folder / "tokenizer.json"
    path.write_text('{"model": {"vocab": {"a": 0, "b": 1}}, "added_tokens": [{"id": 3, "content": "<e>"}]}')
    assert token_texts(folder) == ("a", "b", "", "<e>")
    path.write_text('{"model": {"vocab": [["a", 0.0], ["b", -1.5]]}}')
    assert token_texts(folder) == ("a", "b")
    path.write_text('{"model": {"vocab": [0, 1]}}')
    with pytest.raises(ModelError, match="makes no sense"):
        token_texts(folder)
    path.unlink()
    assert token_texts(folder) is None


def test_fingerprint_tells_weights_apart(tmp_path: Path) -> None:
    """Guards the check for a model paired with itself: a copy is equal, other weights are not."""
    one, two, other = (bare_folder(tmp_path / name, LLAMA) for name in ("one", "two", "other"))
    write_safetensors(other / "model.safetensors", {"model.norm.weight": (5,)})
    assert fingerprint(one) == fingerprint(two) != fingerprint(other)


def test_header_of_a_real_file(tmp_path: Path) -> None:
    """Guards our header reader against the library's format: metadata is skipped, sizes are those of the tensors."""
    import torch
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(3, 2), "b": torch.zeros(4)}, tmp_path / "x.safetensors", metadata={"format": "pt"})
    infos = {info.name: info for info in read_header(tmp_path / "x.safetensors")}
    assert (infos["a"].shape, infos["a"].nbytes, infos["a"].dtype, infos["a"].count) == ((3, 2), 24, "F32", 6)
    assert infos["b"].nbytes == 16
