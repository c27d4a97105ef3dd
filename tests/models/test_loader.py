"""Loading tiny models: what is measured, what is refused, and that nothing is written to the terminal."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from localchat.errors import ModelError
from localchat.models import gguf
from localchat.models.choice import inspect
from localchat.models.folders import find_model
from localchat.models.loader import LoadedModels, load
from localchat.models.plan import LoadPlan, Precision
from localchat.models.quantization import odd_layers, quantization_config
from tests.support.models import (
    SPECIALS,
    TEMPLATE,
    edit_config,
    save_tiny,
    tiny_tokenizer,
    vocab_id,
    write_gguf,
)

PLENTY = (2**40, 2**40)


def run(model: Path | str, memory: tuple[int, int] = PLENTY, **plan: Any) -> LoadedModels:
    return load(LoadPlan(model=str(model), device="cpu", **plan), lambda *_: None, memory=memory)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("pair")
    return save_tiny(base / "big", layers=3, seed=1), save_tiny(base / "small", layers=1, seed=2)


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.NF4, Precision.INT8, Precision.FP32])
def test_plan_against_measured(pair: tuple[Path, Path], precision: Precision) -> None:
    """Guards the memory plan: loaded weights must take what was planned, within 3 %."""
    loaded = run(pair[0], precision=precision)
    assert loaded.target_bytes == pytest.approx(loaded.memory.target, rel=0.03)
    assert loaded.plan.precision is precision
    assert bool(loaded.fast_only) is (precision is Precision.INT8)
    assert not loaded.target_model.training
    assert not any(parameter.requires_grad for parameter in loaded.target_model.parameters())


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.NF4])
def test_starter_plan_against_measured(precision: Precision) -> None:
    """Guards the same on the built-in pair: within 3 % for target and draft."""
    loaded = run("starter", precision=precision, draft_precision=precision)
    assert loaded.target_bytes == pytest.approx(loaded.memory.target, rel=0.03)
    assert loaded.draft_bytes == pytest.approx(loaded.memory.draft, rel=0.03)
    assert (loaded.plan.draft, loaded.draft_name) == ("mixed", "starter-draft")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("llama", {"tied": False}),
        ("mistral", {"sliding_window": 128}),
        ("qwen2", {}),
        ("qwen3", {}),
        ("gemma2", {"sliding_window": 128}),
        ("gemma3_text", {"sliding_window": 64, "layers": 7}),
        ("phi3", {"sliding_window": 100}),
        ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    ],
)
def test_families(tmp_path: Path, kind: str, fields: dict[str, Any]) -> None:
    """Guards every family's parameter split and window rule against the library's own reading of the config."""
    loaded = run(save_tiny(tmp_path / "m", kind, **fields), precision=Precision.BF16)
    config = loaded.target_model.config
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    window = getattr(config, "sliding_window", None)
    assert list(loaded.target_shape.windows) == [window if kind == "sliding_attention" else None for kind in kinds]
    assert loaded.target_bytes == pytest.approx(loaded.memory.target, rel=0.01)
    assert ("experts" in loaded.fast_only) is (kind == "mixtral")


def test_resolved_plan(pair: tuple[Path, Path]) -> None:
    """Guards against "auto" and 0 left in the plan that the screen shows."""
    loaded = run(pair[0], draft=str(pair[1]))
    plan = loaded.plan
    assert (plan.precision, plan.draft, plan.draft_model) == (Precision.BF16, "mixed", str(pair[1]))
    assert (plan.context, plan.device, plan.draft_precision) == (2048, "cpu", Precision.BF16)
    assert loaded.pairing is not None
    assert loaded.pairing.ok
    assert loaded.eos_ids == {vocab_id("<|end|>")}
    assert (loaded.model_name, loaded.draft_name) == ("big", "small")


def test_padded_head(tmp_path: Path) -> None:
    """Guards against choosing a padding row of the head: it stands for no token."""
    loaded = run(save_tiny(tmp_path / "m", vocab=320))
    assert loaded.target_shape.vocab == 320
    assert loaded.vocab == len(loaded.tokenizer) == 262


def test_draft_is_the_target(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Guards against a model drafting for itself, by the same path or as a copy."""
    copy = save_tiny(tmp_path / "copy", layers=3, seed=1)
    for draft in (pair[0], copy):
        with pytest.raises(ModelError, match="same model") as caught:
            run(pair[0], draft=str(draft))
        assert "smaller model" in caught.value.hint


def test_other_tokenizer(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Guards against a draft model with other tokens: refused if asked for."""
    specials = (*SPECIALS[:2], *(f"<x{i}>" for i in range(60)), SPECIALS[-1])
    other = save_tiny(tmp_path / "other", layers=1, tokenizer=tiny_tokenizer(specials=specials), vocab=330)
    with pytest.raises(ModelError, match="different tokenizers"):
        run(other, draft=str(pair[1]))


def test_unsuited_automatic_pair_falls_back(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards "auto": a pair that does not match, or has no room, must cost the speed and never the chat."""
    monkeypatch.setattr("localchat.models.choice.local_draft", lambda _: find_model(str(pair[0])))
    loaded = run(pair[0])
    assert (loaded.plan.draft, loaded.draft_model) == ("lookup", None)
    assert "same model" in loaded.notes[0]
    monkeypatch.setattr("localchat.models.choice.local_draft", lambda _: find_model(str(pair[1])))
    whole = run(pair[0]).memory
    tight = run(
        pair[0],
        (whole.total + 2**28 - whole.reserve - 1, 0),
        context=2048,
        precision=Precision.BF16,
        draft_precision=Precision.BF16,
    )
    assert tight.plan.draft == "lookup"
    assert "no room" in tight.notes[0]
    assert tight.memory.draft == 0


def test_known_pair_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the hint to the speed that one download would bring."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    loaded = run(save_tiny(tmp_path / "Qwen3-8B"))
    assert loaded.notes == ("A draft model would make this faster: localchat models pull Qwen/Qwen3-0.6B",)


def test_incomplete_weights(tmp_path: Path) -> None:
    """Guards against random weights where a file lacks some: the library would only warn."""
    folder = save_tiny(tmp_path / "m", layers=1)
    edit_config(folder, num_hidden_layers=2)
    with pytest.raises(ModelError, match="lacks 9 of its weights"):
        run(folder)


def test_wrong_sizes(tmp_path: Path) -> None:
    """Guards against a traceback where config.json belongs to another model."""
    folder = save_tiny(tmp_path / "m", layers=1)
    edit_config(folder, intermediate_size=192)
    with pytest.raises(ModelError, match="could not be loaded"):
        run(folder)


def test_unknown_kind(tmp_path: Path) -> None:
    """Guards against a traceback for a model the library does not know."""
    folder = save_tiny(tmp_path / "m", layers=1)
    edit_config(folder, model_type="brand_new")
    with pytest.raises(ModelError, match="could not be loaded"):
        run(folder)


def test_broken_tokenizer(tmp_path: Path) -> None:
    """Guards against the bare exception that the tokenizers library raises."""
    folder = save_tiny(tmp_path / "m", layers=1)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}}}')
    with pytest.raises(ModelError, match="tokenizer"):
        run(folder)


def test_quiet_and_with_progress(
    pair: tuple[Path, Path], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the terminal: no bar and no warning on stdout or stderr, and steps that reach their total."""
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    steps: list[tuple[str, int, int]] = []
    plan = LoadPlan(model=str(pair[0]), draft=str(pair[1]), precision=Precision.NF4, device="cpu")
    load(plan, lambda *step: steps.append(step), memory=PLENTY)
    assert capfd.readouterr() == ("", "")
    stages = list(dict.fromkeys(stage for stage, _, _ in steps))
    assert stages == ["checking", "loading the target weights", "loading the draft weights"]
    last = [step for step in steps if step[0] == "loading the target weights"][-1]
    assert last[1] == last[2] > 20


def test_image_model_loads_its_language_part(tmp_path: Path) -> None:
    """Guards Gemma 3 4B and larger: their weights lie under other names and beside an image part."""
    import transformers as tf

    text = tf.Gemma3TextConfig(
        vocab_size=262,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=256,
    )
    vision = tf.SiglipVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14
    )
    config = tf.Gemma3Config(text_config=text.to_dict(), vision_config=vision.to_dict(), mm_tokens_per_image=4)
    whole = tf.Gemma3ForConditionalGeneration(config)
    whole.save_pretrained(tmp_path / "m")
    tiny_tokenizer().save_pretrained(tmp_path / "m")
    loaded = run(tmp_path / "m", precision=Precision.FP32)
    assert type(loaded.target_model).__name__ == "Gemma3ForCausalLM"
    there = loaded.target_model.model.layers[1].mlp.up_proj.weight
    assert (there == whole.model.language_model.layers[1].mlp.up_proj.weight).all()
    assert loaded.target_bytes == pytest.approx(loaded.memory.target, rel=0.02)


def test_turn_end_of_the_template_is_an_end(tmp_path: Path) -> None:
    """Guards converted models whose config forgets the end of a turn: the reply would never stop."""
    folder = save_tiny(tmp_path / "m", layers=1)
    for name in ("config.json", "generation_config.json"):
        edit = folder / name
        edit.write_text(edit.read_text().replace(str(vocab_id("<|end|>")), "257"))
    assert run(folder).eos_ids == {257, vocab_id("<|end|>")}


def test_odd_layers_stay_unquantized(tmp_path: Path) -> None:
    """Guards the CPU's 4-bit kernel: it fails on rows that are no multiple of 32."""
    folder = save_tiny(tmp_path / "m", kind="llama", layers=2, tied=False)
    side = inspect(find_model(str(folder)))
    assert odd_layers(side.infos) == ["lm_head"]
    import torch

    config = quantization_config(Precision.NF4, side.infos, "cpu", torch.bfloat16)
    assert (config.bnb_4bit_quant_type, config.bnb_4bit_use_double_quant) == ("nf4", True)
    assert config.bnb_4bit_compute_dtype is torch.bfloat16
    assert run(folder, precision=Precision.NF4).target_model(torch.tensor([[1]])).logits.shape == (1, 1, 262)


def test_odd_sizes_run_in_nf4(tmp_path: Path) -> None:
    """Guards a model with a layer of 80 rows: that layer stays in 16 bits, the rest is packed, and it runs."""
    import torch
    import transformers as tf

    from localchat.engine.packed import PackedLinear

    config = tf.LlamaConfig(
        vocab_size=262,
        hidden_size=64,
        intermediate_size=80,
        num_hidden_layers=11,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=256,
        eos_token_id=261,
    )
    tf.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path / "m")
    tiny_tokenizer().save_pretrained(tmp_path / "m")
    loaded = run(tmp_path / "m", precision=Precision.NF4)
    layer = loaded.target_model.model.layers[10]

    def kept(linear: Any) -> bool:
        return isinstance(linear, PackedLinear) or linear.weight.dtype is torch.bfloat16

    assert kept(layer.mlp.up_proj)
    assert layer.self_attn.q_proj.weight.dtype is torch.uint8
    assert kept(loaded.target_model.lm_head)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def converted(home: Path) -> list[Path]:
    return [path for path in (home / "cache" / "gguf").glob("*") if path.name != "."]


def test_gguf(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Guards the whole way of a GGUF file: unpacked once, privately and quietly, then found again."""
    file = write_gguf(tmp_path / "tiny.gguf")
    loaded = run(file)
    assert find_model(str(file)).gguf == "tiny.gguf"
    assert capfd.readouterr() == ("", "")
    assert loaded.model_name == "tiny"
    assert loaded.eos_ids == {261}
    [folder] = converted(home)
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}
    before = (folder / "model.safetensors").stat().st_mtime_ns
    run(file)
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_gguf_on_a_full_disk(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a half-written folder that the next start would take for a model."""

    def full(_: Path, folder: Path, __: Any) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    file = write_gguf(tmp_path / "tiny.gguf")
    monkeypatch.setattr(gguf, "_convert", full)
    with pytest.raises(ModelError, match="disk is full"):
        run(file)
    assert converted(home) == []


def test_gguf_leftovers_are_cleared(home: Path, tmp_path: Path) -> None:
    """Guards the cache folder: what a killed conversion left must not stay for good, a running one is left alone."""
    file = write_gguf(tmp_path / "tiny.gguf")
    run(file)
    [folder] = converted(home)
    old, young = (folder.with_name(f".{folder.name}.{number}") for number in (1, 2))
    folder.rename(tmp_path / "away")
    for left in (old, young):
        left.mkdir()
    os.utime(old, (0, 0))
    run(file)
    assert set(converted(home)) == {folder, young}


def test_gguf_of_an_unknown_kind(home: Path, tmp_path: Path) -> None:
    """Guards against a traceback for a file that starts well and goes on badly."""
    file = tmp_path / "bad.gguf"
    file.write_bytes(b"GGUF\3\0\0\0" + b"\xff" * 100)
    with pytest.raises(ModelError, match=r"bad\.gguf could not be"):
        run(file)
    assert converted(home) == []


def test_template_survives(pair: tuple[Path, Path]) -> None:
    """Guards the chat template's way through saving and loading."""
    assert run(pair[0]).tokenizer.chat_template == TEMPLATE
