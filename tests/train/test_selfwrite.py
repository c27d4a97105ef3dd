"""The target's own texts, written many at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from localchat.train import selfwrite
from localchat.train.selfwrite import Budget, draw, write
from localchat.train.texts import Text
from tests.support.models import tiny_model

OPENINGS = [tuple(range(1, 2 + number)) for number in range(6)]


def texts(model: Any, **fields: Any) -> list[Text]:
    """Texts of a few tokens that go on from OPENINGS."""
    budget = fields.pop("budget", Budget(10_000))
    return list(write(model, OPENINGS, fields.pop("ends", frozenset()), budget, **fields))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts end early."""
    monkeypatch.setattr(selfwrite, "LONGEST", 24)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", ["llama", "gemma3_text"])
def test_greedy_texts_are_the_models_own(kind: str) -> None:
    """Guards against padding that is attended to, positions that are off, and a cache that mixes up rows: each greedy
    token must be what the model says when it reads that text alone."""
    windows: dict[str, Any] = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
    model = tiny_model(kind, **(windows if kind != "llama" else {})).double()
    for row, text in enumerate(texts(model, ends=frozenset(range(100, 120)))):
        if selfwrite.TEMPERATURES[row % len(selfwrite.TEMPERATURES)]:
            continue
        begin = text.opening + selfwrite._LEAD
        best = model(input_ids=torch.tensor([text.tokens])).logits[0].argmax(-1).tolist()
        assert list(text.tokens[begin:]) == best[begin - 1 : -1]


@pytest.mark.usefixtures("short")
def test_texts_end_where_the_model_ends_them() -> None:
    """Guards against text after the end of a reply, and against rows that are lost when another one ends."""
    ends = frozenset(range(0, 262, 3))
    found = texts(tiny_model(), ends=ends)
    assert [text.tokens[: text.opening] for text in found] == OPENINGS
    for text in found:
        own = text.tokens[text.opening :]
        assert 1 <= len(own) <= 24
        assert not ends & set(own[:-1])
        assert own[-1] in ends or len(own) == 24


@pytest.mark.usefixtures("short")
def test_the_seed_decides() -> None:
    """Guards against texts that differ from run to run."""
    model = tiny_model()
    assert texts(model, seed=5) == texts(model, seed=5) != texts(model, seed=6)


@pytest.mark.usefixtures("short")
def test_enough_is_enough() -> None:
    """Guards against a target that writes on when it was told to stop, or when there is enough."""
    model = tiny_model()
    assert len(texts(model, budget=Budget(1), rows=2)) == 2
    assert texts(model, budget=Budget(1000, seconds=0.0)) == []
    calls = iter([False] * 4)
    cut = texts(model, stop=lambda: next(calls, True), rows=2)
    assert [len(text.tokens) - text.opening for text in cut] == [4, 4]


def test_rows_have_temperatures_of_their_own() -> None:
    """Guards against one temperature for all. A row at 1.0 whose two best tokens are equal takes the same one 64 times
    with odds of 1 in 2^63."""
    logits = torch.full((2, 100), -20.0)
    logits[:, 7], logits[:, 3] = 1.0, 1.0
    logits[0, 7] = 1.001
    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack([draw(logits, torch.tensor([0.0, 1.0]), generator) for _ in range(64)])
    assert set(drawn[:, 0].tolist()) == {7}
    assert set(drawn[:, 1].tolist()) == {3, 7}
