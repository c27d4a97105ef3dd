"""What only a CUDA device can show; everything here is skipped where there is none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch

from localchat.engine.drafters import Parts, build
from localchat.engine.sampling import noise
from localchat.engine.target import Target
from localchat.engine.types import Sampling
from localchat.models.loader import load
from localchat.models.plan import LoadPlan, Precision
from tests.engine.matrix import SETTINGS, compare, prompts
from tests.engine.real import run
from tests.support.tiny import generous, plain, tiny, write

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture
def pair() -> Iterator[tuple[Target, Target]]:
    """A tiny random pair on the GPU in float64."""
    yield Target(tiny("gemma3").cuda(), 256), Target(tiny("llama", seed=1, layers=1).cuda(), 256)
    torch.cuda.empty_cache()


def test_noise_is_the_same_on_every_device() -> None:
    """Guards seeds across devices: hashed bits are integers, and the logarithm is taken in float64."""
    ids = torch.arange(150_000)[None]
    assert torch.equal(noise(7, [3, 9], ids), noise(7, [3, 9], ids.cuda()).cpu())


@pytest.mark.parametrize("setting", range(len(SETTINGS)))
def test_equality_in_float64(pair: tuple[Target, Target], setting: int) -> None:
    """Guards losslessness with device tensors in every place where the CPU run has none."""
    found = compare(pair[0], Parts(*pair), prompts(4), range(2), 24, SETTINGS[setting : setting + 1])
    assert found.differences == ()
    assert found.accepted


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16, Precision.NF4])
def test_exact_mode(precision: Precision) -> None:
    """Guards exact mode with the device's own kernels, inside the width where the 4-bit kernel does not change."""
    found = run("starter", precision, width=4, prompts=5, tokens=32)
    assert found.replies >= 100
    assert found.differences == ()


def test_one_synchronisation_per_round(pair: tuple[Target, Target]) -> None:
    """Guards the GPU pipeline: outside the forwards only the round's read-back waits for the device."""
    target, draft = pair
    drafter = build("model", Parts(draft=draft))
    write(target, drafter, prompts(1)[0], Sampling(seed=1), 4)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, rounds = write(target, drafter, prompts(1)[0], Sampling(seed=1), 24, generous(5))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waits = [warning for warning in caught if "synchroniz" in str(warning.message)]
    assert len(waits) <= len(rounds)


def test_memory_is_the_planned_one() -> None:
    """Guards the plan on the device: weights within 3 %, caches within 2 %."""
    for precision in (Precision.BF16, Precision.NF4):
        models = load(LoadPlan(precision=precision, context=2048, device="cuda"), lambda *_: None)
        target = Target(models.target_model, 2048, models.vocab)
        write(target, plain(), [5] * 8, Sampling(), 4)
        assert abs(models.target_bytes / models.memory.target - 1) < 0.03
        assert abs(target.cache.bytes / models.memory.target_cache - 1) < 0.02
