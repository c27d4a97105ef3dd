"""Drafting heads change the speed and never the text: random weights of every kind, trees of every shape."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch

from localchat.engine.calibrate import measure
from localchat.engine.drafters import DRAFTERS, Parts, build
from localchat.engine.drafters.features import FeatureDrafter
from localchat.engine.drafters.medusa import RANKS, Medusa, candidates
from localchat.engine.governor import Governor, Timings
from localchat.engine.heads import AnyHead
from localchat.engine.heads import Medusa as Heads
from localchat.engine.packed import pack
from localchat.engine.sampling import Picker
from localchat.engine.target import Target
from localchat.engine.types import ROOT, Sampling, Tapped, Verdict
from tests.engine.matrix import SETTINGS, compare, prompts
from tests.support.tiny import plain, tiny, write
from tests.support.tiny_heads import KINDS, tiny_head, whimsical

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]


def test_every_kind_of_the_table_is_tested_here() -> None:
    """Guards the table: a line that needs a new kind of head must come with a tiny one."""
    model = tiny("llama")
    kinds = {tiny_head(kind, model).config.kind for kind in KINDS}
    assert kinds == {entry.needs_head for entry in DRAFTERS.values() if entry.needs_head}


@pytest.mark.parametrize("kind", KINDS)
def test_every_head_writes_what_plain_decoding_writes(kind: str) -> None:
    """Guards losslessness in float64 with heads, alone and mixed with lookup, over trees of every shape; each drafter
    goes on from reply to reply, and taps change in between."""
    model = tiny("gemma3")
    parts = Parts(Target(model, 256), head=tiny_head(kind, model))
    assert parts.target is not None
    found = compare(parts.target, parts, prompts(2), range(1), 24, SETTINGS[::3], whimsical)
    assert found.differences == ()
    assert found.accepted > 0, "nothing was accepted, so nothing was tested"


@pytest.mark.parametrize("kind", ["medusa", "eagle3", "mtp"])
def test_heads_in_exact_mode(kind: str) -> None:
    """Guards chains: a branch's rows stand elsewhere in the cache, so exact mode must never verify one."""
    model = tiny("llama")
    target = Target(model, 256)
    target.fixed_width = 6
    drafter = build(tiny_head(kind, model).config.kind, Parts(target, head=tiny_head(kind, model)))
    for sampling in SETTINGS[2:4]:
        answer, _ = write(target, plain(), prompts(1, longest=250)[0], sampling, 30)
        reply, rounds = write(target, drafter, prompts(1, longest=250)[0], sampling, 30, whimsical(6))
        assert reply == answer
        assert any(round_.drafted > 1 for round_ in rounds)


def broken(kind: str, model: Any) -> AnyHead:
    """A head with one weight that is not a number."""
    head = tiny_head(kind, model)
    next(head.parameters()).view(-1)[0] = float("nan")
    return head


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_that_is_not_a_number_is_said_once(kind: str) -> None:
    """Guards the fall back to plain: the same text, and one sentence in the first round that would have drafted."""
    model = tiny("llama")
    target, head = Target(model, 256), broken(kind, model)
    drafter = build(head.config.kind, Parts(target, head=head))
    answer, _ = write(target, plain(), PROMPT, Sampling(temperature=0.8), 12)
    reasons = []
    for _ in range(2):
        reply, rounds = write(target, drafter, PROMPT, Sampling(temperature=0.8), 12, whimsical())
        assert reply == answer
        assert not any(round_.drafted for round_ in rounds)
        reasons += [round_.decision.reason for round_ in rounds]
    assert [reason for reason in reasons if "not a number" in reason] == [
        f"{head.config.kind} is off: its output is not a number"
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_that_is_not_a_number_is_said_after_it_was_measured(kind: str) -> None:
    """Guards the one sentence: what a drafter found out while its cost was measured must be said to the user too."""
    model = tiny("llama")
    target, head = Target(model, 256), broken(kind, model)
    drafter = build(head.config.kind, Parts(target, head=head))
    measure(target, {head.config.kind: drafter}, 8, repeats=1)
    _, rounds = write(target, drafter, PROMPT, Sampling(temperature=0.8), 12, whimsical())
    assert rounds[0].decision.reason == f"{head.config.kind} is off: its output is not a number"


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_outlives_states_that_are_not_numbers(kind: str) -> None:
    """Guards a healthy head: one prompt that overflows the target must not switch it off for the rest of the chat, nor
    stay in its cache."""
    model = tiny("llama")
    target, head = Target(model, 256), tiny_head(kind, model)
    drafter = build(head.config.kind, Parts(target, head=head))
    size = (len(PROMPT) - 1, model.config.hidden_size)
    drafter.start(PROMPT, Tapped((torch.full(size, float("nan"), dtype=target.dtype),) * len(head.config.taps)))
    picker = Picker(Sampling(), PROMPT, target.vocabulary, target.device)
    room = whimsical()
    room.open(8)
    assert not drafter.propose(PROMPT, picker, room)
    drafter.forget()
    answer, _ = write(target, plain(), PROMPT, Sampling(temperature=0.8), 40)
    reply, rounds = write(target, drafter, PROMPT, Sampling(temperature=0.8), 40, whimsical())
    assert reply == answer
    assert any(round_.drafted for round_ in rounds)


@pytest.mark.parametrize("kind", ["eagle", "eagle3", "mtp"])
def test_a_head_that_breaks_in_the_middle_of_a_reply_only_costs_speed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards values that are not numbers later on: they are no ids, and must not reach the target."""
    model = tiny("llama")
    target, head = Target(model, 256), tiny_head(kind, model)
    drafter = build(head.config.kind, Parts(target, head=head))
    answer, _ = write(target, plain(), PROMPT, Sampling(temperature=0.8), 30)
    healthy: Any = type(head).scores
    calls = 0

    def scores(self: Any, states: torch.Tensor, ahead: int = 0) -> torch.Tensor:
        nonlocal calls
        calls += 1
        logits: torch.Tensor = healthy(self, states, ahead)
        return logits * (float("nan") if calls > 3 else 1.0)

    monkeypatch.setattr(type(head), "scores", scores)
    reply, rounds = write(target, drafter, PROMPT, Sampling(temperature=0.8), 30, whimsical())
    assert reply == answer
    assert calls > 4, "the head went on after its first values that are not numbers"
    assert any(round_.drafted for round_ in rounds)


def test_a_head_that_is_switched_off_reads_nothing() -> None:
    """Guards plain replies: with drafting off, or at the end of the context, a head must not read pairs nor be called
    parked."""
    model = tiny("llama")
    target, head = Target(model, 256), tiny_head("eagle", model)
    drafter = build("eagle", Parts(target, head=head))
    governor = Noting(Timings(((1, 1.0), (32, 1.05)), (("eagle", 0.01),), (("eagle", 0.01),)), 8)
    Noting.read.clear()
    governor.allowed = False
    _, rounds = write(target, drafter, [*range(1, 61)], Sampling(temperature=0.0), 150, governor)
    assert governor.read == []
    assert {round_.decision.reason for round_ in rounds} == {"switched off"}
    assert not any(round_.decision.parked for round_ in rounds)


class Noting(Governor):
    """Notes how many pairs were read at once."""

    read: ClassVar[list[int]] = []

    def prepared(self, source: str, count: int, seconds: float) -> None:
        self.read.append(count)


def test_reading_a_long_prompt_waits_until_it_pays() -> None:
    """Guards the first token and short replies: pairs of a long prompt are not read before the reply has run a while,
    and then they are read in one go, no more than a window of them."""
    model = tiny("llama")
    target, head = Target(model, 512), tiny_head("eagle", model, window=40)
    drafter = build("eagle", Parts(target, head=head))
    timings = Timings(((1, 1.0), (32, 1.05)), (("eagle", 0.01),), (("eagle", 0.01),))
    governor = Noting(timings, 8)
    _, rounds = write(target, drafter, [*range(1, 61)] * 4, Sampling(temperature=0.0), 60, governor)
    assert "waits: reading 40" in rounds[0].decision.reason
    assert not rounds[1].drafted
    assert any(round_.drafted for round_ in rounds)
    assert governor.read == [40]


def test_a_drafter_that_never_drafts_keeps_no_more_than_it_could_use() -> None:
    """Guards memory: states pile up while a source is parked, in a reply of any length."""
    model = tiny("llama")
    target, head = Target(model, 256), tiny_head("eagle3", model, window=32)
    drafter = build("eagle", Parts(target, head=head))
    assert isinstance(drafter, FeatureDrafter)
    tokens = [1, 2, 3]
    drafter.start(tokens, None)
    tapped = Tapped((torch.zeros(2, 32, dtype=target.dtype),) * 3)
    for _ in range(200):
        tokens += [4, 5]
        drafter.learn(tokens, Verdict((0,), (4, 5)), tapped)
    assert sum(states.shape[1] for states in drafter._waiting) <= 2 * 32


def test_the_static_tree_takes_the_likeliest_paths() -> None:
    """Guards the order of candidates: by the product of rates along the path, every parent before its children."""
    rates = ((0.6, 0.3), (0.5, 0.1))
    parents, classes = candidates(rates, 5, RANKS)
    assert parents == (ROOT, ROOT, 0, 1, 0)
    assert classes == (0, 1, RANKS, RANKS, RANKS + 1)
    assert candidates(rates, 9, 1) == ((ROOT, 0), (0, RANKS))


def test_only_the_heads_that_are_needed_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the cost of Medusa: positions that are not worth a row are not computed; ids are those of the ranks."""
    model = tiny("llama")
    target, head = Target(model, 256), tiny_head("medusa", model)
    assert isinstance(head, Heads)
    drafter = build("medusa", Parts(target, head=head))
    asked: list[int] = []
    honest = Heads.forward

    def counting(self: Heads, tapped: Any, depth: int) -> Any:
        asked.append(depth)
        return honest(self, tapped, depth)

    monkeypatch.setattr(Heads, "forward", counting)
    state = torch.randn(1, 32, dtype=target.dtype)
    drafter.start(PROMPT, Tapped((state,)))
    governor = Governor(Timings(((1, 1.0), (2, 1.0), (3, 1.0), (32, 9.0)), (("medusa", 0.0),)), 32)
    governor.trust(drafter.priors)
    governor.open(8)
    draft = drafter.propose(PROMPT, Picker(Sampling(temperature=0.0), PROMPT, 61, target.device), governor)
    best = honest(head, (state,), 2)[:, 0].topk(2).indices
    assert asked == [max(kind // RANKS for kind in draft.classes) + 1] == [2]
    assert draft.ids is not None
    assert draft.ids.tolist() == [int(best[kind // RANKS, kind % RANKS]) for kind in draft.classes]
    assert (len(draft), draft.steps) == (2, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_head_says_the_same(kind: str) -> None:
    """Guards heads on a CPU in bf16, whose linear layers are packed after loading."""
    model = tiny("llama", dtype=torch.bfloat16)
    target, head = Target(model, 256), tiny_head(kind, model)
    drafter: Any = build(head.config.kind, Parts(target, head=head))
    said = []
    for packs in (False, True):
        assert not packs or pack(head) > 0
        _, rounds = write(target, drafter, PROMPT, Sampling(temperature=1.0), 20)
        assert any(round_.drafted for round_ in rounds)
        with torch.inference_mode():
            states = torch.linspace(-1, 1, 32, dtype=torch.bfloat16)[None]
            said.append(
                head((states,) * len(head.config.taps), 2) if isinstance(head, Heads) else head.scores(states, 0)
            )
    torch.testing.assert_close(said[0], said[1], rtol=0.02, atol=0.1)


def test_a_head_of_the_wrong_kind_is_refused() -> None:
    """Guards the parts: a drafter of another kind would fail in the middle of a reply."""
    model = tiny("llama")
    target = Target(model, 256)
    for name, kind in (("eagle", "mtp"), ("mtp", "medusa"), ("medusa", "eagle")):
        with pytest.raises(ValueError, match="needs a target and"):
            build(name, Parts(target, head=tiny_head(kind, model)))
    assert isinstance(build("medusa", Parts(target, head=tiny_head("medusa", model))), Medusa)
