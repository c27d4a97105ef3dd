"""What is measured after loading."""

from __future__ import annotations

import pytest

from localchat.engine.calibrate import measure
from localchat.engine.drafters import DRAFTERS, Parts, build, suits
from localchat.engine.target import Target
from localchat.engine.types import Sampling
from tests.engine.matrix import prompts
from tests.support.tiny import plain, tiny, write
from tests.support.tiny_heads import tiny_head


@pytest.mark.parametrize("kind", ["", "medusa", "eagle", "mtp"])
def test_every_drafter_is_rehearsed_and_forgets_it(kind: str) -> None:
    """Guards first decisions and first replies: each drafting network has a price, by the name its drafts have, and no
    rehearsal leaves anything behind that changes a text."""
    model = tiny("llama")
    target = Target(model, 256)
    draft = None if kind else Target(tiny("llama", seed=1, layers=1), 256)
    parts = Parts(target, draft, tiny_head(kind, model) if kind else None)
    drafters = {name: build(name, parts) for name in DRAFTERS if suits(name, parts)}
    alone = {name for name, entry in DRAFTERS.items() if entry.alone}
    assert set(drafters) == alone | {"mixed", kind or "model"}
    timings = measure(target, drafters, 8, repeats=1)
    assert [width for width, _ in timings.verify] == [1, 2, 3, 4, 6, 8]
    assert [source for source, _ in timings.draft] == [kind or "model"]
    assert all(seconds > 0 for _, seconds in (*timings.draft, *timings.prepare))
    assert bool(timings.prepare) == (kind != "medusa"), "Medusa reads no prompt"
    assert target.tokens == []
    prompt = [0] * 40 + prompts(1)[0]
    answer, _ = write(target, plain(), prompt, Sampling(seed=3), 20)
    for name, drafter in drafters.items():
        assert write(target, drafter, prompt, Sampling(seed=3), 20)[0] == answer, name
