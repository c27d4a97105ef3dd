"""The cache against a fresh computation, at every kind of rollback."""

from __future__ import annotations

import random

import pytest
import torch

from localchat.engine.cache import Cache
from localchat.engine.drafters import Parts, build
from localchat.engine.governor import Timings
from localchat.engine.sizes import SPARE_ROWS, cache_rows
from localchat.engine.target import Target
from localchat.engine.types import ROOT, Draft, Sampling
from tests.engine.matrix import prompts
from tests.support.tiny import WINDOW, Generous, RandomTree, generous, plain, tiny, write

KINDS = ("llama", "qwen3", "gemma3")


def fresh_logits(kind: str, tokens: list[int]) -> torch.Tensor:
    """Logits after `tokens` by transformers' own code, without any cache."""
    model = tiny(kind)
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
    return logits


@pytest.mark.parametrize("kind", KINDS)
def test_forward_equals_transformers(kind: str) -> None:
    """Guards our attention, masks and positions: prompt, chain, tree and sliding window against the plain model."""
    prompt = prompts(1, longest=70)[0] * 2 + [5, 9, 11] * 10
    target = Target(tiny(kind), 256)
    assert target.packed
    for _ in target.prefill(prompt):
        pass
    #      3       0
    #      ├ 4     ├ 1
    #      │ └ 5   └ 2
    draft = Draft(torch.tensor([1, 2, 3, 4, 5]), (ROOT, ROOT, 1, 0, 3), "x", (0,) * 5)
    logits = target.forward(7, draft).logits
    for row, path in ((0, []), (1, [1]), (2, [2]), (3, [2, 3]), (4, [1, 4]), (5, [1, 4, 5])):
        torch.testing.assert_close(logits[row], fresh_logits(kind, [*prompt, 7, *path]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_after_tree_rounds_the_cache_equals_a_fresh_prefill(kind: str) -> None:
    """Guards compaction and rollback: after many tree rounds the next logits are those of a fresh computation,
    beyond the sliding window and beyond a turn of its ring."""
    target = Target(tiny(kind), 1024)
    prompt = prompts(2)[1]
    answer, _ = write(target, plain(), prompt, Sampling(temperature=0.9, seed=1), 400)
    target.truncate(0)
    reply, rounds = write(target, RandomTree(3, answer), prompt, Sampling(temperature=0.9, seed=1), 400)
    assert reply == answer
    assert any(r.accepted and r.rejected for r in rounds)
    tokens = prompt + reply
    target.truncate(len(tokens) - 1)
    assert target.tokens == tokens[:-1]
    logits = target.forward(tokens[-1], Draft()).logits[0]
    torch.testing.assert_close(logits, fresh_logits(kind, tokens), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_written_by_several_forwards_equals_fresh_computations(kind: str) -> None:
    """Guards drafting in one cache: rows see their own path alone, across forwards, padding and Gemma's window, and
    what is settled of the tree is as good as read anew."""
    source = random.Random(5)
    model = Target(tiny(kind), 256)
    text = [source.randrange(1, 60) for _ in range(WINDOW - 2)]
    for size in (1, 3, 1):  # each time a tree grown, a path of it settled, and some tokens more
        tokens = text + [source.randrange(1, 60) for _ in range(size)]
        torch.testing.assert_close(model.root(tokens)[0], fresh_logits(kind, tokens), rtol=1e-9, atol=1e-9)
        paths: list[list[int]] = []
        for width in (2, 5, 1, 4):
            above = [source.randrange(ROOT, len(paths)) for _ in range(width)]
            ids = [source.randrange(1, 60) for _ in range(width)]
            paths += [[*(paths[row] if row != ROOT else []), token] for row, token in zip(above, ids, strict=True)]
            logits = model.level(torch.tensor(ids), above)
            for row, path in zip(logits, paths[-width:], strict=True):
                torch.testing.assert_close(row, fresh_logits(kind, tokens + path), rtol=1e-9, atol=1e-9)
        longest = max(paths, key=len)
        rows = [paths.index(longest[: size + 1]) for size in range(len(longest))]
        model.settle(rows, longest)
        text = tokens + longest
        assert model.tokens == text


def test_ring_keeps_what_a_rejection_needs() -> None:
    """Guards the ring exactly at its turn: a rejected row must never push out one still inside the window
    (transformers #48280, mlx-lm #1914)."""
    rows = cache_rows(4096, WINDOW)
    target = Target(tiny("gemma3"), 4096)
    source = random.Random(0)
    tokens = [source.randrange(1, 60) for _ in range(rows - 3)]
    for _ in target.prefill(tokens):
        pass
    for _ in range(4):
        wide = Draft(torch.randint(1, 60, (60,)), tuple(range(ROOT, 59)), "x", (0,) * 60)
        target.forward(tokens[-1], wide)  # wrong on purpose, then dropped
        target.forward(9, Draft())
        target.keep(9, (), ())
        tokens.append(9)
    logits = target.forward(5, Draft()).logits[0]
    torch.testing.assert_close(logits, fresh_logits("gemma3", [*tokens, 5]), rtol=1e-9, atol=1e-9)


def test_a_turned_ring_starts_over_rather_than_lie() -> None:
    """Guards going back further than a ring remembers: nothing is kept, so the prompt is computed again."""
    cache = Cache([WINDOW, None], 4096, 1, torch.float32, torch.device("cpu"))
    cache.begin(WINDOW + SPARE_ROWS + 100)
    cache.advance(WINDOW + SPARE_ROWS + 100)
    assert cache.truncate(cache.length - 10) > 0, "a short way back is inside the ring"
    assert cache.truncate(50) == 0


def test_second_turn_computes_the_new_tokens_only() -> None:
    """Guards prefix reuse for target and draft: turn two prefills what is new, and its text is that of a fresh run."""
    target, draft = Target(tiny("llama"), 512), Target(tiny("llama", seed=1, layers=1), 512)
    drafter = build("model", Parts(draft=draft))
    first = prompts(1)[0]
    reply, _ = write(target, drafter, first, Sampling(seed=2), 30)
    second = [*first, *reply, 3, 4, 5, 6]
    read = list(target.prefill(second[:-1]))
    assert read[0] == (0, 4), "the last token of the reply and three new ones; the fourth is read by the first round"
    drafter.start(second, None)
    assert len(draft.tokens) >= len(first) + len(reply) - 3
    again, _ = write(target, drafter, second, Sampling(seed=2), 30)
    fresh, _ = write(Target(tiny("llama"), 512), plain(), second, Sampling(seed=2), 30)
    assert again == fresh


@pytest.mark.parametrize("rounds", range(1, 8))
def test_stopping_at_any_round_leaves_a_valid_cache(rounds: int) -> None:
    """Guards the consumer that walks away: another reply then equals one of a fresh process."""
    target, draft = Target(tiny("gemma3"), 512), Target(tiny("llama", seed=1, layers=1), 512)
    kept = {name: build(name, Parts(draft=draft)) for name in ("lookup", "model", "mixed")}
    one, two = prompts(2)
    for name, drafter in kept.items():
        for following in (two, one, [*one, 8, 9]):
            write(target, drafter, one, Sampling(temperature=0.8, seed=5), 40, rounds=rounds)
            reply, _ = write(target, drafter, following, Sampling(temperature=0.8, seed=6), 25)
            fresh, _ = write(Target(tiny("gemma3"), 512), plain(), following, Sampling(temperature=0.8, seed=6), 25)
            assert reply == fresh, name


def test_context_is_the_limit() -> None:
    """Guards the end of the context: the reply stops there with that reason, drafts or not."""
    target = Target(tiny("llama"), 40)
    reply, rounds = write(target, RandomTree(1), [1] * 30, Sampling(), 500, generous(33))
    assert rounds[-1].stop == "context"
    assert len(reply) == 10


def test_cache_bytes_are_the_planned_ones() -> None:
    """Guards the memory plan: allocated bytes equal 2 x layers x kv heads x head size x rows x item size."""
    target = Target(tiny("gemma3"), 300)
    for _ in target.prefill([1, 2, 3]):
        pass
    rows = 2 * cache_rows(300, WINDOW) + cache_rows(300, None)
    assert target.cache.bytes == 2 * 2 * 8 * rows * 8


def test_exact_mode_never_reads_past_its_bucket() -> None:
    """Guards exact mode: a round's rows lie in one bucket, so each reads the same slots drafted or not."""
    target = Target(tiny("llama"), 600)
    target.fixed_width = 8
    prompt = [1, 2, 3] * 83
    answer, _ = write(target, plain(), prompt, Sampling(temperature=0.0), 40)
    governor = Generous(Timings(), 8, 8)
    reply, rounds = write(target, RandomTree(2, answer), prompt, Sampling(temperature=0.0), 40, governor)
    assert reply == answer
    at = len(prompt) - 1
    for round_ in rounds:
        assert at // 256 == (at + round_.drafted) // 256
        at += len(round_.tokens)


def test_a_reduced_draft_head_scores_as_the_full_one() -> None:
    """Guards the reduced head: same logits for the tokens it keeps, banned ids left out, and still no other text."""
    full, small = (Target(tiny("llama", seed=1, layers=1), 256, banned=(5,)) for _ in range(2))
    small.reduce_head(range(20))
    assert small.head_ids is not None
    assert 5 not in small.head_ids.tolist()
    torch.testing.assert_close(small.root([1, 2, 3]), full.root([1, 2, 3])[:, small.head_ids])
    target = Target(tiny("llama"), 256)
    answer, _ = write(target, plain(), [1, 2, 3], Sampling(seed=3), 40)
    reply, _ = write(target, build("model", Parts(draft=small)), [1, 2, 3], Sampling(seed=3), 40)
    assert reply == answer
