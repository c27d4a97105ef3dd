"""What can be chosen, and what it comes to, on GPUs of the usual sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter

import pytest

from localchat.engine.sizes import MAX_WIDTH
from localchat.models import offer
from localchat.models.beginning import beginnings, suggested
from localchat.models.catalog import spec_for
from localchat.models.choice import Side, settle
from localchat.models.devices import Machine
from localchat.models.folders import Source, TensorInfo, find_model
from localchat.models.memory import GIB
from localchat.models.offer import Key, Row, Stock, concrete, estimate, fit_for_me, rows, same, smaller
from localchat.models.pace import gain, guess
from localchat.models.pairing import best_depth
from localchat.models.plan import LoadPlan, Mode, Precision
from localchat.models.stock import Found, Part, Partner, find, partners, parts, with_heads
from tests.support.models import bare_folder
from tests.support.shelf import stock_hub
from tests.support.shelf_heads import put_head

BIG = "Qwen/Qwen3-8B"
GPUS = {8: "NVIDIA GeForce RTX 4060", 12: "NVIDIA GeForce RTX 3060", 24: "NVIDIA GeForce RTX 4090", 48: "NVIDIA L40S"}


def side(name: str, dtype: str = "BF16") -> Side:
    spec = spec_for(name)
    assert spec is not None
    return Side(Source(name, Path(name)), spec.shape, (TensorInfo("w", dtype, (1,), 2),))


def machine(gib: int) -> Machine:
    return Machine("cuda:0", GPUS[gib], int((gib - 0.6) * GIB), gib * GIB)


def stock(gib: int, *drafts: str, more: tuple[str, ...] = ()) -> Stock:
    """Qwen3-8B, draft models that suit it, and other models, on a GPU of that size."""
    sides = tuple(side(name) for name in (BIG, *drafts, *more))
    return Stock(
        machine(gib), sides, tuple(Partner(found) for found in sides[1 : 1 + len(drafts)]), guess(machine(gib))
    )


SMALL = "Qwen/Qwen3-0.6B"


def row(found: tuple[Row, ...], key: Key) -> Row:
    return next(one for one in found if one.key is key)


def marks(found: Row) -> str:
    return " ".join(("" if item.fits else "!") + item.label for item in found.items)


@pytest.mark.parametrize(
    ("gib", "settled", "precisions", "contexts"),
    [
        (8, "nf4 lookup 8192", "!bf16 !int8 nf4", "1k 2k 4k 8k 8.5k !16k !32k !40k"),
        (12, "nf4 mixed 8192", "!bf16 !int8 nf4", "1k 2k 4k 8k 16k 18.5k !32k !40k"),
        (24, "bf16 mixed 8192", "bf16 int8 nf4", "1k 2k 4k 8k 16k 24.25k !32k !40k"),
        (48, "bf16 mixed 8192", "bf16 int8 nf4", "1k 2k 4k 8k 16k 32k 40k"),
    ],
)
def test_what_a_gpu_can_hold(gib: int, settled: str, precisions: str, contexts: str) -> None:
    """Guards the marks: what is said to fit is what the loader would take, on the sizes that people have."""
    here = stock(gib, SMALL)
    plan = concrete(here, LoadPlan(model=BIG))
    assert f"{plan.precision.value} {plan.draft} {plan.context}" == settled
    found = rows(here, plan)
    assert marks(row(found, Key.PRECISION)) == precisions
    assert marks(row(found, Key.CONTEXT)) == contexts
    for one in found:
        if one.key is not Key.FIT:
            assert same(one.items[one.chosen].plan, plan), one.title


@pytest.mark.parametrize("gib", GPUS)
def test_fit_for_me(gib: int) -> None:
    """Guards the three aims: each fits, and none is beaten at its own by another or by any choice beside it."""
    here = stock(gib, SMALL, "Qwen/Qwen3-1.7B")
    plan = concrete(here, LoadPlan(model=BIG))
    fastest, longest, precise = fit_for_me(here, plan).items
    for item in (fastest, longest, precise):
        assert item.fits
        assert estimate(here, item.plan).memory == item.estimate.memory
    assert fastest.estimate.drafted >= max(longest.estimate.drafted, precise.estimate.drafted)
    assert longest.plan.context >= max(fastest.plan.context, precise.plan.context)
    assert min(fastest.plan.context, precise.plan.context) >= 4096
    order = [Precision.NF4, Precision.INT8, Precision.BF16]
    assert order.index(precise.plan.precision) >= order.index(fastest.plan.precision)
    for one in rows(here, longest.plan):
        if one.key is Key.CONTEXT:
            assert all(not item.fits for item in one.items if item.plan.context > longest.plan.context)


def test_the_loader_takes_every_plan_that_is_said_to_fit() -> None:
    """Guards against two estimators: the loader's own arithmetic agrees on each choice, fit or no fit."""
    here = stock(12, SMALL)
    for one in rows(here, concrete(here, LoadPlan(model=BIG))):
        for item in one.items:
            if item.plan.model != BIG:
                continue
            draft = here.side(item.plan.draft_model) if item.plan.draft_model else None
            choice = settle(replace(item.plan, force=True), here.sides[0], draft, here.machine, MAX_WIDTH)
            assert choice.memory.total == item.estimate.memory.total, item.label
            assert choice.memory.fits == item.fits


def test_what_would_fit_instead() -> None:
    """Guards the way out of a red choice: changes come cheapest first, and every one of them fits."""
    here = stock(24, SMALL)
    plan = replace(concrete(here, LoadPlan(model=BIG)), context=40960)
    assert not estimate(here, plan).memory.fits
    found = smaller(here, plan)
    assert found[0].label.startswith("draft model in nf4")
    assert all(item.fits for item in found)
    assert any(item.plan.draft == "lookup" and not item.plan.draft_model for item in found)
    assert smaller(here, concrete(here, LoadPlan(model=BIG))) == ()


def test_a_measured_speed_corrects_the_guess() -> None:
    """Guards predictions: half the bytes is nearly twice the speed, and one measurement moves all of them."""
    here = stock(24, SMALL)
    shape = here.sides[0].shape
    measured = here.pace.corrected(shape, Precision.BF16, 20.0)
    assert measured.speed(shape, Precision.BF16) == pytest.approx(20.0)
    assert 1.5 < measured.speed(shape, Precision.NF4) / 20.0 < 3.0
    assert here.pace.corrected(shape, Precision.BF16, 0.0) == here.pace
    assert guess(Machine("cpu")).speed(shape, Precision.BF16) < guess(machine(8)).speed(shape, Precision.BF16)


def test_drafting_pays_what_pairing_says() -> None:
    """Guards the break-even: a draft model of a fifth of the size costs more than one of a tenth."""
    here = stock(24, SMALL, "Qwen/Qwen3-1.7B")
    found = {
        item.label: item.estimate for item in row(rows(here, concrete(here, LoadPlan(model=BIG))), Key.DRAFT).items
    }
    assert list(found) == [
        "none", "lookup", "Qwen3-0.6B + lookup", "Qwen3-0.6B", "Qwen3-1.7B + lookup", "Qwen3-1.7B"
    ]  # fmt: skip
    assert found["none"].drafted == found["none"].plain
    assert 0.03 < found["Qwen3-0.6B"].break_even < found["Qwen3-1.7B"].break_even < 1.0
    assert found["Qwen3-0.6B"].drafted > found["Qwen3-1.7B"].drafted > found["none"].drafted


def test_plans_stay_possible() -> None:
    """Guards against choices the loader refuses: int8 cannot be exact, and a model that is not here has no rows."""
    here = stock(24, SMALL)
    plan = replace(concrete(here, LoadPlan(model=BIG)), mode=Mode.EXACT)
    eight = next(item for item in row(rows(here, plan), Key.PRECISION).items if item.label == "int8")
    assert eight.plan.mode is Mode.AUTO
    assert marks(row(rows(here, eight.plan), Key.MODE)) == "auto fast"
    gone = LoadPlan(model="gone")
    assert concrete(here, gone) == gone
    with pytest.raises(KeyError):
        estimate(here, gone)
    only = offer.models_only(here, gone)
    assert [item.label for item in only[0].items] == ["Qwen3-0.6B", "Qwen3-8B"]
    assert only[0].chosen == -1


def test_nothing_fits() -> None:
    """Guards a machine that is too small: rows still show, marked, and the aims are left out."""
    here = replace(stock(8), machine=Machine("cuda:0", "", GIB, 2 * GIB))
    plan = concrete(here, LoadPlan(model=BIG))
    assert (plan.precision, plan.context, plan.draft) == (Precision.NF4, 1024, "lookup")
    assert fit_for_me(here, plan).items == ()
    assert marks(row(rows(here, plan), Key.PRECISION)) == "!bf16 !int8 !nf4"
    assert row(rows(here, plan), Key.CONTEXT).chosen == 0


def test_steps_along_a_row() -> None:
    """Guards the ends of a row, and a row in which nothing stands."""
    here = stock(24, SMALL)
    found = row(rows(here, concrete(here, LoadPlan(model=BIG))), Key.PRECISION)
    assert found.step(-1) is None
    step = found.step(1)
    assert step is not None
    assert step.label == "int8"
    nothing = replace(found, chosen=-1)
    assert nothing.step(1) == found.items[0]
    assert nothing.step(-1) == found.items[-1]


def test_a_key_press_is_quick() -> None:
    """Guards the bar's immediate answer: all rows of eight models in well under a frame (100 ms with slack)."""
    here = stock(24, SMALL, "Qwen/Qwen3-1.7B", more=("Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "google/gemma-3-12b-it"))
    plan = concrete(here, LoadPlan(model=BIG))
    rows(here, plan)
    begun = perf_counter()
    rows(here, replace(plan, context=2048))
    assert perf_counter() - begun < 0.1


def test_partners_are_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards the drafting row: only models whose tokens mean the same, best pair first, others with a reason."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    stock_hub(tmp_path, BIG, "Qwen/Qwen3-1.7B", SMALL, "meta-llama/Llama-3.2-1B-Instruct")
    stock_hub(tmp_path, "Qwen/Qwen2.5-0.5B-Instruct", words="other")
    found = find()
    target = next(one for one in found.sides if one.source.name == BIG)
    suit = partners(target, found.sides)
    assert [one.side.source.name for one in suit.usable] == [SMALL, "Qwen/Qwen3-1.7B"]
    assert [(left.name, left.reason) for left in suit.left] == [("Qwen/Qwen2.5-0.5B-Instruct", "different tokenizers")]
    alone = partners(target, (target,))
    assert alone.hint.endswith("localchat models pull Qwen/Qwen3-0.6B")


def test_find_survives_what_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards the listing: a broken, a missing and an unknown file are left out with a reason, nothing is raised."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mystery.gguf").write_bytes(b"GGUF")
    (tmp_path / "models" / "Qwen3-8B.gguf").write_bytes(b"GGUF")
    config = {
        "model_type": "mamba",
        "num_hidden_layers": 1,
        "hidden_size": 8,
        "num_attention_heads": 1,
        "vocab_size": 9,
    }
    bare_folder(tmp_path / "models" / "mamba", config)
    (tmp_path / "models" / "lost.gguf").symlink_to(tmp_path / "nowhere")
    found = find((tmp_path / "models",), ("gone/model", "starter"))
    assert [one.source.title for one in found.sides] == ["starter", "starter-draft", "Qwen3-8B"]
    left = {Path(one.name).name: one for one in found.left}
    assert "not on this machine" in left["model"].reason
    assert left["mystery.gguf"].may_try
    assert "cannot be read" in left["lost.gguf"].reason
    assert "rolled back" in left["mamba"].reason


@pytest.mark.parametrize(("gib", "best"), [(8, "Qwen3-8B"), (12, "Qwen3-14B"), (24, "Qwen3-32B"), (48, "Qwen3-32B")])
def test_what_to_begin_with(gib: int, best: str) -> None:
    """Guards the suggestion: the largest model that fits with room to talk, never one that crawls; the guide first."""
    sides = find().sides[:2] + tuple(side(name) for name in (BIG, SMALL, "Qwen/Qwen3-14B", "Qwen/Qwen3-32B"))
    items = beginnings(machine(gib), Found(sides))
    assert [item.label for item in items] == ["starter", "Qwen3-32B", "Qwen3-14B", "Qwen3-8B", "Qwen3-0.6B"]
    assert items[suggested(items)].label == best
    assert suggested(items[:1]) == 0
    slow = beginnings(Machine("cpu", "cpu", 6 * GIB, 8 * GIB), Found(sides))
    assert slow[suggested(slow)].label == SMALL.rsplit("/", 1)[-1]


def test_gain_is_the_best_of_all_draft_lengths() -> None:
    """Guards predictions of heads: falling acceptance ends the draft, one step for all places is cheaper, none is 1."""
    assert gain((0.7,) * 16, 0.1) == pytest.approx(best_depth(0.7, 0.1)[1])
    assert gain((0.7, 0.1, 0.0), 0.1) == pytest.approx(1.7 / 1.13)
    assert gain((0.7, 0.6), 0.2, at_once=True) == pytest.approx((1 + 0.7 + 0.42) / (1 + 0.2 + 0.06))
    assert gain((0.1,), 0.5) == gain((), 0.1) == 1.0


@pytest.fixture
def headed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Qwen3-8B and its draft model in a hub cache, and an empty home for heads; returns the folder of the heads."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    stock_hub(tmp_path / "hub", BIG, SMALL)
    return tmp_path / "home" / "data" / "heads"


def test_heads_are_partners(headed: Path) -> None:
    """Guards the drafting row: heads stand between the known pair and others, marked if their target has changed, and
    one of another size is left out with its reason."""
    target = find_model(BIG).folder
    put_head(headed / "an-eagle", "eagle", target, name=BIG, acceptance=[[0.7, 0.1], [0.6, 0.1]])
    put_head(headed / "medusa", "medusa", target, name=BIG, changed=True)
    put_head(headed / "wrong", "eagle", find_model(SMALL).folder, name=BIG)
    found = find()
    suit = partners(next(one for one in found.sides if one.source.name == BIG), found.sides)
    assert [(one.title, one.kind, one.shares) for one in suit.usable] == [
        ("Qwen3-0.6B", "model", ()), ("an-eagle", "eagle", (0.7, 0.6)), ("! medusa", "medusa", ())
    ]  # fmt: skip
    assert suit.usable[-1].reach == 3
    assert [(left.name, left.reason) for left in suit.left] == [("wrong", "it was made for another size")]
    assert [part.kind for part in parts(BIG)] == ["model", "eagle", "medusa"]
    assert parts(BIG, ["wrong", SMALL]) == (Part("wrong", "eagle"), Part(SMALL, "model"))
    assert parts(SMALL) == (Part("wrong", "eagle"),)  # its fingerprint says so


def test_a_head_in_the_rows(headed: Path) -> None:
    """Guards plans with heads: alone by its own method or mixed, stored as the target is, no row for its precision,
    never dearer than a draft model that is larger, and the loader takes what is said to fit."""
    put_head(headed / "an-eagle", "eagle", find_model(BIG).folder, name=BIG, acceptance=[[0.9], [0.9], [0.9]])
    found = find()
    target = next(one for one in found.sides if one.source.name == BIG)
    here = Stock(machine(24), found.sides, partners(target, found.sides).usable, guess(machine(24)))
    plan = concrete(here, LoadPlan(model=BIG, draft="eagle"))
    assert (plan.draft, plan.draft_model, plan.draft_precision) == ("eagle", "an-eagle", plan.precision)
    assert concrete(here, LoadPlan(model=BIG, draft="an-eagle")).draft == "mixed"
    assert concrete(here, LoadPlan(model=BIG, draft="medusa")).draft == "lookup"
    shown = rows(here, plan)
    assert Key.DRAFT_PRECISION not in [one.key for one in shown]
    choices = {item.label: item for item in row(shown, Key.DRAFT).items}
    assert {choices[label].plan.draft for label in ("an-eagle", "an-eagle + lookup")} == {"eagle", "mixed"}
    assert choices["an-eagle"].estimate.cost_ratio < choices["Qwen3-0.6B"].estimate.cost_ratio
    for item in row(shown, Key.PRECISION).items:
        assert item.plan.draft_precision is item.plan.precision
        choice = settle(replace(item.plan, force=True), target, here.partners[1].side, here.machine, MAX_WIDTH)
        assert choice.memory.total == item.estimate.memory.total
    assert {item.plan.draft_model for item in fit_for_me(here, plan).items} == {"an-eagle"}


def test_a_model_with_a_head_and_no_pair_begins_with_it(headed: Path, tmp_path: Path) -> None:
    """Guards the start page: what it loads is what loading by name would take, a head where no pair is known."""
    stock_hub(tmp_path / "hub", "Qwen/Qwen3-1.7B")
    put_head(headed / "an-eagle", "eagle", find_model("Qwen/Qwen3-1.7B").folder, name="Qwen3-1.7B")
    found = with_heads(find())
    plans = {item.plan.model: item.plan for item in beginnings(machine(24), found)}
    assert (plans["Qwen/Qwen3-1.7B"].draft, plans["Qwen/Qwen3-1.7B"].draft_model) == ("mixed", "an-eagle")
    assert plans[BIG].draft_model == SMALL
    assert plans[SMALL].draft == "lookup"


def test_layers_inside_the_target_are_a_head_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards multi-token prediction that a target brings: offered under the target's own name, called what it is."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    config = {
        "model_type": "mimo", "architectures": ["MiMoForCausalLM"], "num_hidden_layers": 1, "hidden_size": 8,
        "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 16, "vocab_size": 9,
    }  # fmt: skip
    ahead = "model.mtp_layers.0"
    tensors = {f"{ahead}.input_proj.weight": (8, 16), f"{ahead}.self_attn.q_proj.weight": (8, 8)}
    norms = {f"{ahead}.{name}.weight": (8,) for name in ("token_layernorm", "hidden_layernorm", "final_layernorm")}
    folder = bare_folder(tmp_path / "mimo", config, {"model.embed_tokens.weight": (9, 8), **tensors, **norms})
    found = find((), (str(folder),))
    target = next(one for one in found.sides if one.source.folder == folder)
    own = partners(target, found.sides).usable
    assert [(one.kind, one.title, one.side.source.name) for one in own] == [("mtp", "own mtp", str(folder))]
    assert parts(str(folder)) == (Part(str(folder), "mtp"),)
    here = Stock(machine(8), found.sides, own, guess(machine(8)))
    plan = concrete(here, LoadPlan(model=str(folder)))
    assert (plan.draft, plan.draft_model) == ("mixed", str(folder))
    assert [item.label for item in row(rows(here, plan), Key.DRAFT).items][2:] == ["own mtp + lookup", "own mtp"]
