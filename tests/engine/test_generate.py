"""The loop: rounds, counters, stops and failures."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Sequence
from functools import reduce

import pytest
import torch

from localchat.engine import generate as loop
from localchat.engine.drafters import Parts, build
from localchat.engine.governor import Governor, Timings
from localchat.engine.head_config import FINAL
from localchat.engine.target import Target
from localchat.engine.types import NO_DRAFT, ROOT, Draft, GenerationStats, Pick, Room, Sampling, StopReason
from localchat.errors import GenerationError
from tests.engine.matrix import prompts
from tests.support.tiny import Perfect, RandomTree, Useless, generous, letters, plain, tiny, write


@pytest.fixture(scope="module")
def target() -> Target:
    """A tiny random model."""
    return Target(tiny("llama"), 1024)


def test_a_perfect_drafter_gets_every_token(target: Target) -> None:
    """Guards the ceiling: limit + 1 tokens a round, a bonus each."""
    prompt = prompts(1)[0]
    answer, _ = write(target, plain(), prompt, Sampling(seed=1), 40)
    reply, rounds = write(target, Perfect(answer), prompt, Sampling(seed=1), 40, generous(8))
    assert reply == answer
    assert [len(r.tokens) for r in rounds] == [8] * 5
    assert rounds[0].origins == ("perfect",) * 7 + ("bonus",)


def test_counters_agree(target: Target) -> None:
    """Guards the metrics: emitted = accepted + one per round less what a stop cut; rejected + accepted = drafted."""
    prompt = prompts(2)[1]
    answer, _ = write(target, plain(), prompt, Sampling(seed=3), 60)
    for seed in range(10):
        reply, rounds = write(target, RandomTree(seed, answer), prompt, Sampling(seed=3), 60)
        stats = reduce(operator.add, rounds, GenerationStats())
        assert stats.tokens == len(reply) == 60
        assert stats.rounds + stats.accepted - 60 in (0, 1), "the last round may end on an accepted token"
        assert any(r.drafted > r.accepted + 1 for r in rounds), "what follows a rejected token was verified too"
        for r in rounds:
            assert len(r.rejected) == r.drafted - r.accepted
            assert sum(r.depth_accepted) == r.accepted
            assert r.origins.count("random") == r.accepted


@pytest.mark.parametrize("at", range(1, 14))
def test_eos_inside_a_draft_is_plain_eos(target: Target, at: int) -> None:
    """Guards stops at every place in an accepted path: text, counters and cache end there (transformers #47912)."""
    prompt = prompts(1)[0]
    answer, _ = write(target, plain(), prompt, Sampling(seed=8), 30)
    eos = answer[at]
    expected = answer[: answer.index(eos)]
    reply, rounds = write(target, Perfect(answer), prompt, Sampling(seed=8), 30, generous(7), eos=frozenset({eos}))
    assert reply == expected
    assert rounds[-1].stop is StopReason.EOS
    assert target.tokens == [*prompt, *expected][: len(target.tokens)], "the end-of-reply token stays out of the cache"
    assert len(target.tokens) >= len(prompt) + len(expected) - 1
    assert sum(r.drafted for r in rounds) <= len(expected), "what lies beyond a stop is not counted"


@pytest.mark.parametrize("size", [1, 2, 3])
def test_stop_strings_are_the_same_with_and_without_drafts(target: Target, size: int) -> None:
    """Guards stop strings inside accepted paths."""
    prompt = prompts(1)[0]
    answer, _ = write(target, plain(), prompt, Sampling(seed=8), 30)
    for at in range(2, 20):
        stop = letters(answer[at : at + size])
        without, seen = write(target, plain(), prompt, Sampling(seed=8), 30, stop=(stop,))
        reply, rounds = write(target, Perfect(answer), prompt, Sampling(seed=8), 30, generous(6), stop=(stop,))
        assert (reply, rounds[-1].stop) == (without, seen[-1].stop)


def test_a_useless_drafter_is_parked_and_tried_again(target: Target) -> None:
    """Guards the governor in the real loop: parked within 64 tokens, tried again later, over 512 tokens."""
    governor = Governor(Timings(((1, 1.0), (2, 1.1), (32, 4.1)), (("useless", 0.01),)), 32)
    _, rounds = write(target, Useless(1), prompts(1)[0], Sampling(seed=2), 512, governor)
    written, drafted_at = 0, []
    for r in rounds:
        if r.drafted:
            drafted_at.append(written)
        written += len(r.tokens)
    late = [at for at in drafted_at if at > 64]
    assert late
    assert len(late) <= 12


@pytest.mark.parametrize("depth", [0, 2])
def test_logits_that_are_not_numbers_stop_the_reply(depth: int) -> None:
    """Guards damaged weights: the position is named, and what was written before stands."""
    model = tiny("llama")
    target = Target(model, 256)
    prompt = [1, 2, 3, 4]
    answer, _ = write(target, plain(), prompt, Sampling(temperature=0.0), 10)
    first = [at for at, token in enumerate(answer) if token not in prompt and answer.index(token) == at][depth]
    model.model.embed_tokens.weight[answer[first]] = float("nan")
    with pytest.raises(GenerationError, match=f"position {len(prompt) + first + 1}"):
        write(Target(model, 256), plain(), prompt, Sampling(temperature=0.0), 10)
    with pytest.raises(GenerationError, match=f"position {len(prompt) + first + 1}"):
        write(Target(model, 256), Perfect(answer), prompt, Sampling(temperature=0.0), 10, generous(9))


class Poison(Perfect):
    """Drafts a token whose embedding is not a number before every third true one."""

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        return Draft(torch.tensor([60, 59]), (ROOT, 0), "poison", (0, 0)) if len(tokens) % 3 else NO_DRAFT


def test_a_poisoned_guess_does_not_end_a_reply() -> None:
    """Guards losslessness against values that are not numbers: a rejected draft leaves no trace."""
    model = tiny("gemma3")
    model.model.embed_tokens.weight[60] = float("nan")
    target = Target(model, 256)
    rule = Sampling(temperature=0.8, seed=5, repetition_penalty=1.2)
    answer, _ = write(target, plain(), [1, 2, 3], rule, 40)
    assert 60 not in answer
    reply, rounds = write(target, Poison([]), [1, 2, 3], rule, 40)
    assert reply == answer
    assert not any(r.drafted for r in rounds), "the poisoned drafts were dropped"


@pytest.mark.parametrize("rule", [Sampling(temperature=0.0), Sampling(seed=2, top_p=0.9), Sampling(seed=2, top_k=5)])
def test_a_draft_model_of_no_numbers_does_not_end_a_reply(target: Target, rule: Sampling) -> None:
    """Guards replies against a damaged draft model: what comes of it is verified like any guess, and then parked."""
    model = tiny("llama", seed=1, layers=1)
    model.lm_head.weight.fill_(float("nan"))
    answer, _ = write(target, plain(), [1, 2, 3], rule, 60)
    for governor in (generous(), Governor(Timings(((1, 1.0), (32, 1.5)), (("model", 0.1),)), 32)):
        drafter = build("model", Parts(draft=Target(model, 256)))
        reply, rounds = write(target, drafter, [1, 2, 3], rule, 60, governor)
        assert reply == answer
    assert sum(round_.drafted for round_ in rounds) < 10


def test_a_fully_accepted_branch_earns_a_bonus() -> None:
    """Guards the words: the token after a whole accepted path is a bonus, however long the other branches are."""
    draft = Draft(torch.tensor([1, 2, 3, 4]), (ROOT, 0, 1, ROOT), "x", (0,) * 4)
    assert loop.origins(draft, (3,), 2) == ("x", "bonus")
    assert loop.origins(draft, (0,), 2) == ("x", "correction")
    assert loop.origins(NO_DRAFT, (), 1) == ("plain",)


def test_a_smaller_draft_vocabulary_still_drafts(target: Target) -> None:
    """Guards pairs whose target knows a few more tokens: every way of sampling works, and the text stays the same."""
    draft = Target(tiny("llama", seed=1, layers=1), 256, vocabulary=50)
    for rule in (Sampling(seed=1), Sampling(temperature=0.0, presence_penalty=0.5), Sampling(seed=2, top_k=5)):
        answer, _ = write(target, plain(), [1, 2, 3], rule, 20)
        reply, rounds = write(target, build("model", Parts(draft=draft)), [1, 2, 3], rule, 20)
        assert reply == answer
        assert any(r.drafted for r in rounds)


def test_a_stop_leaves_the_cache_as_plain_decoding_does(target: Target) -> None:
    """Guards the next turn in exact mode: its prefill must begin at the same token with and without drafts."""
    answer, _ = write(target, plain(), [1, 2, 3], Sampling(seed=8), 30)
    stop = letters(answer[7:9])
    write(target, plain(), [1, 2, 3], Sampling(seed=8), 30, stop=(stop,))
    held = list(target.tokens)
    write(target, Perfect(answer), [1, 2, 3], Sampling(seed=8), 30, generous(6), stop=(stop,))
    assert target.tokens == held


def test_a_parked_draft_model_is_tried_again(target: Target) -> None:
    """Guards parking through the drafter itself: what it must read first may not keep it out for good."""
    costs = Timings(((1, 1.0), (32, 1.2)), (("model", 0.3),), (("model", 0.01),))
    draft = Target(tiny("qwen3", seed=9, layers=1), 1024)
    _, rounds = write(target, build("model", Parts(draft=draft)), [1, 2, 3], Sampling(seed=3), 800, Governor(costs, 8))
    assert any(r.drafted for r in rounds[200:])


def test_taps_are_the_accepted_rows(target: Target) -> None:
    """Guards tapped hidden states: of accepted rows only, and equal to a fresh computation."""
    tapping = Target(tiny("llama"), 256)
    tapping.tap((FINAL, 0), 5)
    prompt = prompts(1)[0]
    for _ in tapping.prefill(prompt):
        pass
    tapped = tapping.prompt_tapped()
    assert tapped is not None
    with torch.inference_mode():
        reference = tiny("llama").model
        hidden = reference(input_ids=torch.tensor([prompt]), use_cache=False, output_hidden_states=True).hidden_states
    torch.testing.assert_close(tapped.layers[0], hidden[2][0, -5:])
    torch.testing.assert_close(tapped.layers[1], hidden[1][0, -5:])


def test_the_loop_fits_on_a_screen() -> None:
    """Guards the house rule: one loop, readable at once."""
    tree = ast.parse(inspect.getsource(loop.generate))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert (function.end_lineno or 0) - function.lineno < 70
    assert sum(isinstance(node, ast.While | ast.For) for node in ast.walk(function)) == 1
