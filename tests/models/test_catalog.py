"""The catalog's data, and what is found on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from localchat.models.catalog import catalog, describe, local_draft, local_models, pairs_for, spec_for
from localchat.models.folders import Source
from localchat.models.pairing import TYPICAL_ACCEPTANCE, best_depth
from localchat.models.plan import Precision
from tests.models.test_folders import LLAMA, hub_folder
from tests.support.models import bare_folder


def test_data_is_sound() -> None:
    """Guards catalog.toml against slips: sizes must match the names, pairs must name known models."""
    ids = [spec.id for spec in catalog().models]
    assert len(ids) == len(set(ids))
    for spec in catalog().models:
        assert spec.shape.parameters / 1e9 == pytest.approx(spec.billions, rel=0.12), spec.id
    for pair in catalog().pairs:
        if pair.target != "starter":
            assert {pair.target, pair.draft} <= set(ids)


@pytest.mark.parametrize("pair", [pair for pair in catalog().pairs if pair.target != "starter"], ids=lambda p: p.target)
def test_every_pair_can_pay(pair: object) -> None:
    """Guards against recommending a pair whose draft is too dear in 4 bits to pay at a usual acceptance."""
    target, draft = (spec_for(str(getattr(pair, side))) for side in ("target", "draft"))
    assert target is not None
    assert draft is not None
    ratio = draft.shape.step_bytes(Precision.NF4) / target.shape.step_bytes(Precision.NF4)
    assert best_depth(TYPICAL_ACCEPTANCE, ratio)[1] > 1.2
    assert target.shape.vocab - draft.shape.vocab < 300


def test_lookup_by_id_folder_and_file() -> None:
    """Guards against knowing a model by its hub id only: folders and GGUF files carry the same name."""
    by_id = spec_for("Qwen/Qwen3-8B")
    assert by_id is not None
    assert spec_for("/models/Qwen3-8B/") is by_id
    assert spec_for("x/qwen3-8b.gguf") is by_id
    assert spec_for("something-else") is None
    assert [pair.draft for pair in pairs_for("/models/Qwen3-8B")] == ["Qwen/Qwen3-0.6B"]


def test_local_draft(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards "auto": only a pair that is really here is taken, from the cache or from beside the target."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert local_draft("Qwen/Qwen3-8B") is None
    bare_folder(tmp_path / "Qwen3-0.6B", LLAMA)
    beside = local_draft(str(tmp_path / "Qwen3-8B"))
    assert beside is not None
    assert beside.folder == tmp_path / "Qwen3-0.6B"
    hub_folder(tmp_path / "hub", "Qwen/Qwen3-0.6B")
    cached = local_draft("Qwen/Qwen3-8B")
    assert cached is not None
    assert cached.name == "Qwen/Qwen3-0.6B"


def test_local_models_survive_broken_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards `models list`: a broken folder is listed with its problem, it does not end the listing."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    hub_folder(tmp_path / "hub", "a/good")
    (hub_folder(tmp_path / "hub", "b/broken") / "model.safetensors").write_bytes(b"x")
    bare_folder(tmp_path / "here" / "mamba", {**LLAMA, "model_type": "mamba"})
    (tmp_path / "here" / "m.gguf").write_bytes(b"GGUF")
    found = {model.source.title: model for model in local_models((tmp_path / "here",))}
    assert list(found) == ["starter", "starter-draft", "good", "broken", "mamba", "m"]
    assert not found["starter"].problem
    assert found["good"].shape is not None
    assert "header" in found["broken"].problem
    assert "rolled back" in found["mamba"].problem
    assert found["m"].disk_bytes == 4


def test_describe_of_a_folder_without_config(tmp_path: Path) -> None:
    """Guards `models show` on any folder: a sentence, never an exception."""
    assert "no config.json" in describe(Source("x", tmp_path)).problem
