"""What a plan comes to: precisions, context and draft, or a refusal that helps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localchat.errors import FitError, ModelError, UsageError
from localchat.models.catalog import spec_for
from localchat.models.choice import Side, choose, drafting, inspect
from localchat.models.folders import Source, TensorInfo, find_model
from localchat.models.memory import GIB
from localchat.models.plan import LoadPlan, Precision


def side(name: str, dtype: str = "BF16") -> Side:
    spec = spec_for(name)
    assert spec is not None
    return Side(Source(name, Path(name)), spec.shape, (TensorInfo("w", dtype, (1,), 2),))


BIG, SMALL = side("Qwen/Qwen3-8B"), side("Qwen/Qwen3-0.6B")


def settled(plan: LoadPlan, gib: float, draft: Side | None = SMALL, target: Side = BIG, device: str = "cpu") -> str:
    memory = (int(gib * GIB), int(64 * GIB))
    choice = choose(plan, target, draft, device, 16, memory)
    assert choice.memory.fits
    request = choice.request
    own = f" {request.draft_precision.value}" if request.draft else ""
    return f"{request.precision.value}{own} {request.context}{' dropped' if choice.drops_draft else ''}"


@pytest.mark.parametrize(
    ("plan", "gib", "expected"),
    [
        (LoadPlan(), 40, "bf16 bf16 8192"),
        (LoadPlan(), 19.5, "bf16 nf4 6656"),
        (LoadPlan(), 12, "nf4 bf16 8192"),
        (LoadPlan(context=4096), 40, "bf16 bf16 4096"),
        (LoadPlan(precision=Precision.NF4, draft_precision=Precision.BF16), 40, "nf4 bf16 8192"),
        (LoadPlan(), 9.5, "nf4 nf4 4608"),
        (LoadPlan(), 9.0, "nf4 8192 dropped"),
        (LoadPlan(), 8.2, "nf4 2560 dropped"),
    ],
)
def test_the_best_that_fits(plan: LoadPlan, gib: float, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards "auto": precision goes first, then context, then the draft model; what is asked for is never changed."""
    monkeypatch.setattr("localchat.models.choice.repacks", lambda: False)
    assert settled(plan, gib) == expected


def test_a_stored_precision_is_kept_on_the_cpu() -> None:
    """Guards AUTO on the CPU: fp32 stays fp32, fp16 becomes bf16 (slow there)."""
    assert settled(LoadPlan(), 60, None, side("Qwen/Qwen3-0.6B", "F32")) == "fp32 8192"
    assert settled(LoadPlan(), 60, None, side("Qwen/Qwen3-0.6B", "F16")) == "bf16 8192"


def test_gpu_without_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards older GPUs: bf16 asked for or automatic becomes fp16, and the draft of a 4-bit target is 4-bit too."""
    monkeypatch.setattr("localchat.models.choice.computes_bf16", lambda _: False)
    assert settled(LoadPlan(), 40, device="cuda:0") == "fp16 fp16 8192"
    assert settled(LoadPlan(precision=Precision.BF16), 40, None, device="cuda:0") == "fp16 8192"
    assert settled(LoadPlan(), 12, device="cuda:0") == "nf4 nf4 8192"


def test_no_room_says_what_is_missing_and_what_would_fit() -> None:
    """Guards the refusal: parts in the message, the cheapest change first in the hint, exit code 3."""
    plan = LoadPlan(precision=Precision.BF16, draft="model", draft_precision=Precision.BF16, context=32768)
    with pytest.raises(FitError) as caught:
        choose(plan, BIG, SMALL, "cpu", 16, (20 * GIB, 64 * GIB))
    assert "target 15.3 GiB" in caught.value.message
    assert "draft cache 3.5 GiB" in caught.value.message
    assert "20.0 GiB are free" in caught.value.message
    assert caught.value.hint.startswith("Would fit: draft model in nf4, context")
    assert caught.value.exit_code == 3


def test_nothing_helps() -> None:
    """Guards the hint of a hopeless case: it must not be empty or suggest the impossible."""
    with pytest.raises(FitError, match="free") as caught:
        choose(LoadPlan(), BIG, None, "cpu", 16, (GIB, GIB))
    assert caught.value.hint == "Choose a smaller model."


@pytest.mark.parametrize(("context", "words"), [(50000, "made for 40960"), (-1, "too short"), (3, "too short")])
def test_impossible_contexts(context: int, words: str) -> None:
    """Guards against a context the model was never trained for, and against nonsense."""
    with pytest.raises(UsageError, match=words):
        choose(LoadPlan(context=context), BIG, None, "cpu", 16, (99 * GIB, 99 * GIB))


def test_model_without_a_stated_limit() -> None:
    """Guards against an automatic context of zero where config.json states no limit."""
    endless = replace(SMALL, shape=replace(SMALL.shape, max_context=0))
    assert settled(LoadPlan(), 40, None, endless) == "bf16 8192"


@pytest.mark.parametrize(
    ("plan", "method", "source"),
    [
        (LoadPlan(), "mixed", "starter-draft"),
        (LoadPlan(draft="off"), "off", ""),
        (LoadPlan(draft="lookup"), "lookup", ""),
        (LoadPlan(draft="model"), "model", "starter-draft"),
        (LoadPlan(draft="starter-draft"), "mixed", "starter-draft"),
        (LoadPlan(draft="model", draft_model="starter"), "model", "starter"),
        (LoadPlan(model="unknown", draft="auto"), "lookup", ""),
    ],
)
def test_drafting(plan: LoadPlan, method: str, source: str) -> None:
    """Guards the meaning of every value of `draft`."""
    chosen, found = drafting(plan, BIG if plan.model == "unknown" else inspect(find_model("starter")))
    assert (chosen, found.name if found else "") == (method, source)


def test_a_draft_model_that_is_not_here() -> None:
    """Guards against silently drafting otherwise than asked."""
    with pytest.raises(ModelError, match="No draft model"):
        drafting(LoadPlan(model="unknown", draft="model"), BIG)
    with pytest.raises(ModelError, match="not on this machine"):
        drafting(LoadPlan(draft="nobody/nothing"), BIG)


def test_inspect_reads_the_built_in_pair() -> None:
    """Guards the shipped folders: every check must pass without loading them."""
    assert inspect(find_model("starter")).shape.vocab == inspect(find_model("starter-draft")).shape.vocab
