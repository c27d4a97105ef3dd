"""Heads on this machine: found, matched with a target, refused in one sentence, and counted in plans."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from localchat.engine.head_config import FINAL, HeadConfig
from localchat.engine.heads import build
from localchat.engine.target import Block
from localchat.errors import LocalchatError, ModelError
from localchat.models.catalog import local_models
from localchat.models.choice import Side, choose, drafting, inspect
from localchat.models.folders import Source, find_model, fingerprint
from localchat.models.head_shape import HeadShape
from localchat.models.heads import all_heads, is_head, read_head, registered
from localchat.models.loader import load
from localchat.models.memory import Request, cheaper, plan_memory
from localchat.models.pairing import Level, check_head, read_candidate
from localchat.models.plan import LoadPlan, Precision
from tests.support.head_files import HIDDEN, LAYERS, PLENTY, Edit, eagle3, medusa, run, save_head
from tests.support.models import VOCABULARY, save_tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("heads") / "Tiny-4L", layers=LAYERS, hidden=HIDDEN)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "home" / "data"


def target(model: Path) -> Side:
    return inspect(find_model(str(model)))


def test_a_trained_head_is_found(model: Path, home: Path, tmp_path: Path) -> None:
    """Guards what the trainer registers: found by name, by kind and by "auto", and by nobody else's target."""
    assert run(model).plan.draft == "lookup"
    medusa(home / "heads" / "mine", mark=fingerprint(model))
    medusa(home / "heads" / "others", base="any/Other-4L")
    medusa(home / "heads" / "larger", hidden=2 * HIDDEN)
    (home / "heads" / "broken").mkdir()
    (home / "heads" / "broken" / "config.json").write_text("{")
    assert [head.source.name for head in registered(target(model))] == ["mine"]
    assert {source.name for source in all_heads()} >= {"mine", "others", "larger"}
    for plan, method in (({}, "mixed"), ({"draft": "medusa"}, "medusa"), ({"draft": "mine"}, "mixed")):
        models = run(model, **plan)
        assert (models.plan.draft, models.plan.draft_model, models.draft_name) == (method, "mine", "mine")
        assert models.head is not None
        assert models.draft_model is None
        assert models.head.acceptance == ((0.5, 0.1), (0.3, 0.1))
        assert models.head.ids is not None
        assert models.head.ids.tolist() == list(range(100, 130))
    renamed = tmp_path / "renamed"
    shutil.copytree(model, renamed)
    assert [head.source.name for head in registered(target(renamed))] == ["mine"]
    assert "mine" not in [found.source.name for found in local_models((home / "heads",))]


@pytest.mark.parametrize("kind", ["medusa", "eagle", "mtp"])
@pytest.mark.parametrize("reduced", [0, 30])
def test_what_was_trained_is_what_is_loaded(model: Path, tmp_path: Path, kind: str, reduced: int) -> None:
    """Guards our own files: the network under training, kept as it is, comes back with every weight in its place."""
    network_model = run(model, draft="off", precision=Precision.FP32).target_model
    taps = (0, 2) if kind == "eagle" else (FINAL,)
    config = HeadConfig(
        kind, HIDDEN, VOCABULARY, taps, layers=2 if kind == "medusa" else 1, depth=2, draft_vocab=reduced, heads=2,
        kv_heads=1, head_dim=32, intermediate=80, fused=kind == "eagle", recur_normed=True,
    )  # fmt: skip
    ids = torch.arange(50, 50 + reduced) if reduced else None
    output = network_model.get_output_embeddings()
    blocks = [Block(network_model, step) for step in range(2)] if kind == "mtp" else []
    rows = output.weight[ids].clone() if ids is not None else None
    network = build(config, network_model.get_input_embeddings(), output, rows, ids, blocks)
    stored = {name: tensor.clone().normal_() for name, tensor in network.own_state().items()}
    about = {"architectures": ["LocalchatHead"], "localchat_head": asdict(config), "target": {"name": "Tiny-4L"}}
    extra = {} if ids is None else {"ids": ids}
    save_head(tmp_path / "h", about, {name: tensor.contiguous() for name, tensor in {**stored, **extra}.items()})
    models = run(model, draft=kind, draft_model=str(tmp_path / "h"), precision=Precision.FP32)
    assert models.head is not None
    assert models.head.config == config
    found = models.head.own_state()
    assert found.keys() == stored.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in stored.items())
    assert models.draft_bytes == pytest.approx(models.memory.draft, rel=0.02)


def test_a_trained_model_is_found(model: Path, home: Path) -> None:
    """Guards draft models that were cut here: they go by their name, as heads do."""
    shutil.copytree(model, home / "models" / "short")
    assert find_model("short") == Source("short", home / "models" / "short")
    assert "short" in [found.source.name for found in local_models()]


def test_hub_heads(model: Path, home: Path, tmp_path: Path) -> None:
    """Guards the hub cache: a head there is no model, and serves the target that its files or its name say."""
    snapshot = tmp_path / "hub" / "models--any--Tiny-4L_eagle3" / "snapshots" / "1"
    eagle3(snapshot)
    assert "any/Tiny-4L_eagle3" not in [found.source.name for found in local_models()]
    assert [head.source.name for head in registered(target(model))] == ["any/Tiny-4L_eagle3"]
    assert run(model, draft="eagle").draft_name == "Tiny-4L_eagle3"


def test_what_is_no_head(model: Path, tmp_path: Path) -> None:
    """Guards models from being taken for heads, and damaged folders from raising."""
    assert not is_head(model)
    assert not is_head(find_model("starter").folder)
    assert not is_head(tmp_path)
    assert is_head(eagle3(tmp_path / "h"))
    first = tmp_path / "EAGLE-LLaMA"  # EAGLE-1 and -2 are published so
    first.mkdir()
    (first / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1}')
    (first / "pytorch_model.bin").touch()
    assert is_head(first)


@pytest.mark.parametrize(
    ("draft", "named", "message"),
    [
        ("eagle", "", "No eagle head for"),
        ("mtp", "", "No mtp head for"),
        ("eagle", "mine", "is a head of kind medusa"),
        ("model", "mine", "is a head of kind medusa"),
        ("medusa", "starter-draft", "is a model"),
        ("mixed", "", "No draft model"),
    ],
)
def test_another_kind(model: Path, home: Path, draft: str, named: str, message: str) -> None:
    """Guards against drafting otherwise than asked; the hint says what to do."""
    medusa(home / "heads" / "mine", base="any/Other")
    with pytest.raises(ModelError, match=message) as raised:
        run(model, draft=draft, draft_model=named)
    assert raised.value.hint


def test_the_plan_names_what_it_found(model: Path, home: Path) -> None:
    """Guards settings: a known pair is asked for first, a kind of head never takes a model."""
    medusa(home / "heads" / "mine")
    side = target(model)
    assert drafting(LoadPlan(model=str(model), draft="medusa"), side)[0] == "medusa"
    starter = inspect(find_model("starter"))
    method, source = drafting(LoadPlan(), starter)
    assert (method, source.name if source else "") == ("mixed", "starter-draft")


def _drop(name: str) -> Edit:
    return lambda _, tensors: tensors.__delitem__(name)


def _put(name: str, tensor: Tensor) -> Edit:
    return lambda _, tensors: tensors.update({name: tensor})


def _say(**fields: Any) -> Edit:
    return lambda config, _: config.update(fields)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_drop("norm.weight"), r"h lacks 1 of its weights \(norm.weight"),
        (_drop("fc.weight"), "damaged, or a head of a kind localchat does not know"),
        (_drop("d2t"), "does not say which tokens it proposes"),
        (_put("d2t", torch.full((40,), 1000)), "names tokens that its target does not have"),
        (_put("d2t", torch.arange(40).flip(0)), "names tokens that its target does not have"),
        (_put("midlayer.self_attn.o_proj.weight", torch.zeros(HIDDEN, 3)), "a weight of another size"),
        (_put("input_norm.weight", torch.zeros(HIDDEN)), r"does not know \(input_norm.weight\)"),
        (_put("fc.weight", torch.zeros(HIDDEN, HIDDEN, dtype=torch.int8)), "already quantized|layers are joined"),
        (_say(norm_output=True), "does not know"),
        (_say(target_hidden_size=128), "works at another size than its target"),
        (_say(speculators_model_type="dflash"), r"a kind localchat does not know \(dflash\)"),
        (_say(eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1]}), "does not know"),
        (_say(eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1, 30]}), "made for more layers"),
        (_say(vocab_size=200), "made for another vocabulary"),
        (_say(hidden_act="swish7"), "does not know"),
    ],
)
def test_heads_that_cannot_be_used(model: Path, tmp_path: Path, edit: Edit, message: str) -> None:
    """Guards strangers' files: each fault is one sentence with a hint, never a traceback."""
    with pytest.raises(LocalchatError, match=message) as raised:
        run(model, draft=str(eagle3(tmp_path / "h", edit)))
    assert isinstance(raised.value, ModelError)
    assert raised.value.hint


def test_a_head_of_another_size(model: Path, tmp_path: Path, home: Path) -> None:
    """Guards heads of larger models: refused when named."""
    folder = medusa(tmp_path / "h", hidden=2 * HIDDEN)
    with pytest.raises(ModelError, match="made for another size") as raised:
        run(model, draft=str(folder))
    assert "reads states of 128 numbers" in raised.value.hint


def test_a_newer_layout(model: Path, tmp_path: Path) -> None:
    """Guards heads that a later localchat trained."""
    folder = medusa(tmp_path / "h")
    config = json.loads((folder / "config.json").read_text())
    config["localchat_head"]["quantum"] = 1
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="newer localchat"):
        run(model, draft=str(folder))


@pytest.mark.parametrize(
    ("base", "mark", "level", "title"),
    [
        ("any/Tiny-4L", "", Level.OK, "made for this model"),
        ("elsewhere/Other", "", Level.WARN, "made for another model"),
        ("", "", Level.NOTE, "maker unknown"),
        ("any/Tiny-4L", "0123", Level.WARN, "target has changed"),
    ],
)
def test_who_it_was_made_for(model: Path, tmp_path: Path, base: str, mark: str, level: Level, title: str) -> None:
    """Guards the warnings: a head of other weights is used, and said to be."""
    head = read_head(find_model(str(medusa(tmp_path / "h", base, mark=mark))), target(model))
    pairing = check_head(read_candidate(str(model), model, Precision.BF16), head)
    assert pairing.ok
    assert (level, title) in [(found.level, found.title) for found in pairing.findings]
    assert run(model, draft=str(tmp_path / "h")).pairing == replace(pairing, cost_ratio=pairing.cost_ratio)


def test_a_head_in_the_memory_plan(model: Path, tmp_path: Path) -> None:
    """Guards plans: a head is as precise as its target, and nobody proposes to quantize it."""
    side, head = target(model), read_head(find_model(str(medusa(tmp_path / "h"))), None)
    assert isinstance(head.shape, HeadShape)
    choice = choose(LoadPlan(model=str(model), precision=Precision.NF4), side, head, "cpu", 16, PLENTY)
    assert choice.request.draft_precision is Precision.NF4
    assert choice.memory.draft == 2 * (2 * (HIDDEN * HIDDEN + HIDDEN) + 30 * HIDDEN)
    assert choice.memory.draft_cache == 0
    pairing = check_head(read_candidate(str(model), model, Precision.NF4), head)
    assert "trained on other states" in [found.title for found in pairing.findings]
    request = Request(side.shape, head.shape, 2048, Precision.BF16, Precision.BF16, 2**40, 0)
    tight = replace(request, available=plan_memory(request).total - 1)
    titles = [change.title for change in cheaper(tight)]
    assert titles
    assert not any("draft" in title and "nf4" in title for title in titles if "without" not in title)
    with_head = [change.request for change in cheaper(tight) if change.request.draft]
    assert all(changed.draft_precision is changed.precision for changed in with_head)


def test_a_broken_head_that_nobody_asked_for(model: Path, home: Path) -> None:
    """Guards "auto": a trained head that lost a weight must not keep the model from loading."""
    folder = medusa(home / "heads" / "mine")
    config = json.loads((folder / "config.json").read_text())
    save_head(folder, config, {"blocks.0.0.weight": torch.zeros(HIDDEN, HIDDEN), "ids": torch.arange(100, 130)})
    models = run(model)
    assert (models.head, models.plan.draft, models.draft_name, models.memory.draft) == (None, "lookup", "", 0)
    assert models.notes == ("Drafting by lookup only: mine lacks 1 of its weights (blocks.1.0.weight ...).",)
    with pytest.raises(ModelError, match="lacks 1 of its weights"):
        run(model, draft="mine")


def test_no_room_for_the_head(model: Path, home: Path) -> None:
    """Guards "auto": a head that does not fit is left out, and that is said."""
    medusa(home / "heads" / "mine")
    side = target(model)
    bare = choose(LoadPlan(model=str(model), context=256), side, None, "cpu", 16, PLENTY).memory
    models = load(
        LoadPlan(model=str(model), device="cpu", context=256, precision=Precision.BF16),
        lambda *_: None,
        memory=(bare.total - bare.reserve + 2**28 + 100, 0),
    )
    assert models.head is None
    assert models.notes == ("Drafting by lookup only: no room for the head.",)
