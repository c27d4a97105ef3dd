"""Memory arithmetic: no model is loaded here."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from localchat.engine.sizes import SPARE_ROWS
from localchat.models.catalog import spec_for
from localchat.models.memory import GIB, Request, Shape, cheaper, default_reserve, gib, plan_memory
from localchat.models.plan import Precision

NF4, BF16, FP32, INT8 = Precision.NF4, Precision.BF16, Precision.FP32, Precision.INT8


def known(name: str) -> Shape:
    spec = spec_for(name)
    assert spec is not None
    return spec.shape


def request_for(target: str = "Qwen3-8B", draft: str = "Qwen3-0.6B", **changes: Any) -> Request:
    base = Request(known(target), known(draft) if draft else None, 16384, NF4, NF4, 24 * GIB, GIB)
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("name", "nf4_gib", "bf16_gib", "step_gb", "kib_per_token"),
    [
        ("Qwen3-0.6B", 0.50, 1.11, 0.54, 112),
        ("Qwen3-8B", 5.66, 15.26, 4.83, 144),
        ("Qwen3-14B", 9.25, 27.5, 8.37, 160),
        ("Llama-3.1-8B-Instruct", 5.31, 14.96, 4.65, 128),
        ("Qwen2.5-7B-Instruct", 5.17, 14.2, 4.46, 56),
    ],
)
def test_published_models(name: str, nf4_gib: float, bf16_gib: float, step_gb: float, kib_per_token: int) -> None:
    """Guards the catalog's numbers and the byte formulas against a slip in either: both must agree to a percent."""
    shape = known(name)
    assert shape.weight_bytes(NF4) / GIB == pytest.approx(nf4_gib, rel=0.01)
    assert shape.weight_bytes(BF16) / GIB == pytest.approx(bf16_gib, rel=0.01)
    assert shape.step_bytes(NF4) / 1e9 == pytest.approx(step_gb, rel=0.01)
    assert shape.cache_bytes(9000, BF16) == kib_per_token * 1024 * (9000 + SPARE_ROWS)


LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 512,
}


@pytest.mark.parametrize(
    ("fields", "windows"),
    [
        ({}, [None] * 8),
        ({"sliding_window": 64, "model_type": "mistral"}, [64] * 8),
        ({"sliding_window": None, "model_type": "mistral"}, [None] * 8),
        ({"sliding_window": 64, "model_type": "phi3"}, [64] * 8),
        ({"sliding_window": 64, "model_type": "qwen2"}, [None] * 8),
        ({"sliding_window": 64, "model_type": "qwen2", "use_sliding_window": False}, [None] * 8),
        (
            {"sliding_window": 64, "model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 6},
            [None] * 6 + [64] * 2,
        ),
        ({"sliding_window": 64, "model_type": "gemma2"}, [64, None] * 4),
        ({"sliding_window": 64, "model_type": "gemma3_text"}, [64] * 5 + [None] + [64] * 2),
        ({"sliding_window": 64, "model_type": "gemma3_text", "sliding_window_pattern": 4}, ([64] * 3 + [None]) * 2),
        (
            {"sliding_window": 64, "layer_types": ["full_attention"] * 7 + ["sliding_attention"]},
            [None] * 7 + [64],
        ),
    ],
)
def test_windows(fields: dict[str, Any], windows: list[int | None]) -> None:
    """Guards against a family's window rule being missed, which plans several times too much or too little cache."""
    assert list(Shape.from_config({**LLAMA, **fields}).windows) == windows


def test_sliding_layers_cost_their_window_only() -> None:
    """Guards against planning the full context for a layer that keeps a ring."""
    shape = Shape.from_config({**LLAMA, "model_type": "mistral", "sliding_window": 64})
    assert shape.cache_bytes(512, BF16) == 8 * 2 * 2 * 16 * 2 * (64 + SPARE_ROWS)
    assert shape.cache_bytes(32, FP32) == 8 * 2 * 2 * 16 * 4 * (32 + SPARE_ROWS)


def test_nested_text_config() -> None:
    """Guards against reading the outer config of a model that also reads images (its sizes are nested)."""
    inner = {"model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 6, "intermediate_size": 128}
    shape = Shape.from_config({"model_type": "gemma3", "text_config": {**inner, "sliding_window": 32}})
    assert (shape.heads, shape.kv_heads, shape.head_dim, shape.vocab) == (8, 4, 256, 262208)
    assert shape.tied


def test_mixture_keeps_experts_out_of_the_quantized_part() -> None:
    """Guards against promising 4-bit experts: bitsandbytes quantizes linear layers, and experts are none."""
    shape = Shape.from_config({**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2})
    experts = 8 * 8 * 3 * 64 * 128
    assert shape.mixture
    assert shape.expert == experts
    assert shape.weight_bytes(NF4) > 2 * experts
    assert shape.step_bytes(BF16) < shape.weight_bytes(BF16) - 2 * experts * 0.7


def test_plan_adds_up_and_fits() -> None:
    """Guards the sum, the shortfall and the parts shown on the screen against drifting apart."""
    plan = plan_memory(request_for())
    assert plan.total == sum(size for _, size in plan.parts())
    assert plan.fits
    assert plan.shortfall == 0
    assert plan.free == plan.available - plan.total
    small = plan_memory(request_for(available=plan.total - 1))
    assert not small.fits
    assert small.shortfall == 1


def test_longest_context_is_the_last_that_fits() -> None:
    """Guards the search for the longest context against being off by one."""
    request = request_for(available=10 * GIB)
    longest = plan_memory(request).longest_context
    assert 0 < longest < known("Qwen3-8B").max_context
    assert plan_memory(replace(request, context=longest)).fits
    assert not plan_memory(replace(request, context=longest + 1)).fits
    assert plan_memory(request_for(available=GIB)).longest_context == 0
    assert plan_memory(request_for(available=200 * GIB)).longest_context == 40960


def test_draft_cache_stops_at_the_draft_models_own_limit() -> None:
    """Guards against reserving cache for a draft model beyond the tokens it can follow."""
    draft = replace(known("Qwen3-0.6B"), max_context=2048)
    plan = plan_memory(replace(request_for(), draft=draft))
    assert plan.draft_cache == draft.cache_bytes(2048, NF4)


def test_cheaper_lists_what_fits_cheapest_loss_first() -> None:
    """Guards against suggesting changes that do not help, or a loss of quality before a free one."""
    request = request_for(precision=BF16, draft_precision=BF16, available=19 * GIB)
    changes = cheaper(request)
    titles = [change.title for change in changes]
    assert all(change.plan.fits for change in changes)
    assert titles[0].startswith("draft model in nf4")
    assert titles[1].startswith("context ")
    assert titles.index("target in nf4") > titles.index("no draft model")
    assert len({change.request for change in changes}) == len(changes)


def test_cheaper_is_empty_where_nothing_is_wrong_or_nothing_helps() -> None:
    """Guards against advice for a plan that fits, and against a context of a few tokens as advice."""
    assert cheaper(request_for()) == ()
    assert cheaper(request_for(available=2 * GIB)) == ()


def test_int8_and_repacked_bytes() -> None:
    """Guards the scales: one fp32 per int8 row, one bf16 per 64 repacked 4-bit weights."""
    shape = Shape.from_config(LLAMA)
    kept = 2 * (shape.embedding + shape.other)
    assert shape.weight_bytes(INT8) == shape.linear + 4 * shape.linear_rows + kept
    assert shape.weight_bytes(NF4, repacked=True) == shape.linear * 17 // 32 + kept


def test_reserve_and_words() -> None:
    """Guards the reserve's bounds and the unit: GiB is 2^30."""
    assert default_reserve(8 * GIB, cuda=False) == 256 * 2**20
    assert default_reserve(1024 * GIB, cuda=False) == 2 * GIB
    assert default_reserve(80 * GIB, cuda=True) == 80 * GIB // 32
    assert gib(3 * GIB) == "3.0 GiB"
    assert gib(18 * 2**20) == "18 MiB"


def test_no_torch() -> None:
    """Guards the screen's process: catalog, memory, pairing, folders and choice must not pull in torch."""
    code = (
        "import sys, localchat.models.catalog, localchat.models.pairing, localchat.models.loader, "
        "localchat.models.choice; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_models_that_change_their_rotation_are_used_up_to_there() -> None:
    """Guards losslessness with dynamic and long rotary embeddings: a draft must never reach past the change."""
    base = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    base |= {"intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 131072}
    long = base | {"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096}
    assert Shape.from_config(base).max_context == 131072
    assert Shape.from_config(long).max_context == 4096 - 32
    assert Shape.from_config(base | {"rope_scaling": {"rope_type": "dynamic"}}).max_context == 131072 - 32
