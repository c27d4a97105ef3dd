"""New networks, what they are asked, and what they are worth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import AutoConfig

from localchat.engine.governor import Timings
from localchat.models.choice import inspect
from localchat.models.folders import Source
from localchat.train import pupil, unroll, worth
from localchat.train.cut import CutPupil, cut_model, kept_layers
from localchat.train.pupil import HeadPupil, draft_ids, new_pupil
from localchat.train.teacher import Exam
from tests.support.models import save_tiny, tiny_model

TOKENS = torch.randint(0, 250, (3, 24), generator=torch.Generator().manual_seed(3))
FLAT = Timings(verify=((1, 1.0), (8, 1.2), (32, 2.0)), draft=(("trained", 0.1),))


def test_the_draft_vocabulary_is_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a vocabulary without the end of a reply, with ids that are none, or in another order than the
    head's file has it."""
    monkeypatch.setattr(pupil, "VOCABULARY", 6)
    rows = [(9, 9, 9, 40, 40, 7), (40, 7, 300)]
    assert draft_ids(rows, 100, frozenset({55, 999})) == (0, 1, 7, 9, 40, 55)
    assert draft_ids(rows, 6, frozenset()) is None


@pytest.mark.parametrize("ids", [None, torch.arange(0, 262, 2)])
@pytest.mark.parametrize("kind", ["eagle", "medusa", "mtp"])
def test_only_the_head_learns(kind: str, ids: torch.Tensor | None) -> None:
    """Guards against gradients that do not arrive, and against a target that changes while it teaches."""
    model = tiny_model(layers=3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    one = HeadPupil(kind, model, ids)
    trained = {name: value for name, value in one.module.named_parameters() if value.requires_grad}
    optimizer = torch.optim.SGD(trained.values(), lr=0.1)
    for _ in range(2):  # Medusa's later layers learn nothing before the first step
        optimizer.zero_grad()
        one.loss(TOKENS).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert all(value.grad is not None and bool(value.grad.abs().sum() > 0) for value in trained.values())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("kind", ["eagle", "medusa", "mtp"])
def test_a_head_begins_well(kind: str) -> None:
    """Guards against minutes of training from random weights: a linear guess must do better before the first step."""
    model = tiny_model(layers=3)
    one = HeadPupil(kind, model, None)
    before = float(one.loss(TOKENS).detach())
    one.begin([TOKENS])
    assert float(one.loss(TOKENS).detach()) < before


def test_exams_are_taken_once() -> None:
    """Guards against asking the target again at every judgement, and against an answer for another text."""
    one = HeadPupil("eagle", tiny_model(layers=3), torch.arange(0, 262, 2))
    fresh = one._teacher.exam(TOKENS)
    for tokens in (TOKENS, TOKENS.flip(0), TOKENS):
        one.judge(tokens)
    assert len(one._exams._kept) == 2
    assert torch.equal(one._exams(TOKENS).choice, fresh.choice)
    assert torch.equal(one._exams(TOKENS.flip(0)).choice, fresh.choice.flip(0))


def test_states_are_given_back() -> None:
    """Guards against memory that is kept for speed while a training ends for lack of it."""
    one = HeadPupil("eagle", tiny_model(layers=3), None, room=10**9)
    before = one.loss(TOKENS)
    assert one._teacher._kept
    assert one.release()
    assert not one._teacher._kept
    assert torch.equal(one.loss(TOKENS), before)
    assert not one.release()


def test_a_beginning_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against hooks of a beginning that ran out of memory, which keep its states alive and slow every step."""
    one = HeadPupil("eagle", tiny_model(layers=3), None)

    def lacks(*_: object) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr("localchat.train.start._show", lacks)
    with pytest.raises(torch.OutOfMemoryError):
        one.begin([TOKENS])
    assert not any(module._forward_pre_hooks for module in one.head.modules())


def test_depths_that_hardly_any_draft_came_to_are_unknown() -> None:
    """Guards against a rate of 0 or 1 from two places, which a drafter would take for never or always."""
    marks = unroll.Marks((300, 40, 3, 0), ((100, 20), (10, 0), (0, 0), (0, 0)))
    assert marks.acceptance == ((1 / 3, 1 / 15), (0.25, 0.0))
    assert unroll.Marks((2, 0), ((1,), (0,))).acceptance == ((0.5,),)
    assert marks.tokens_per_round == pytest.approx(1 + 1 / 3 + 1 / 12)
    assert worth.speedup(FLAT, marks.acceptance, None) >= 1.0


def test_a_cut_model_may_need_code_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a target that is loaded with its own code, and a question on the terminal when it is cut."""
    trusted = []
    real = AutoConfig.from_pretrained

    def from_pretrained(folder: Path, **fields: Any) -> Any:
        trusted.append(fields.get("trust_remote_code"))
        return real(folder, **fields)

    monkeypatch.setattr(AutoConfig, "from_pretrained", from_pretrained)
    side = inspect(Source("target", save_tiny(tmp_path / "target", layers=2, dtype="float32")))
    new_pupil("draft", side, tiny_model(layers=2), None, trust_remote_code=True)
    assert trusted == [True]


def test_a_cut_model_has_the_targets_layers(tmp_path: Path) -> None:
    """Guards against layers in another order, and against random weights where the target's belong."""
    folder = save_tiny(tmp_path / "target", layers=12, dtype="float32")
    model = tiny_model(layers=12)
    cut = cut_model(inspect(Source("target", folder)), torch.device("cpu"))
    assert kept_layers(12) == (0, 11)
    assert kept_layers(28) == (0, 1, 2, 26, 27)
    for mine, theirs in zip(cut.base_model.layers, (model.model.layers[0], model.model.layers[11]), strict=True):
        for (name, a), (_, b) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
            assert torch.equal(a, b), name
    assert torch.equal(cut.get_input_embeddings().weight, model.get_input_embeddings().weight)
    assert not cut.get_input_embeddings().weight.requires_grad


def test_an_uncut_model_is_always_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against marks that compare different places: a draft model with every layer agrees with its target."""
    monkeypatch.setattr("localchat.train.cut.kept_layers", lambda count: tuple(range(count)))
    side = inspect(Source("target", save_tiny(tmp_path / "target", layers=2, dtype="float32")))
    model = tiny_model(layers=2)
    one = new_pupil("draft", side, model, None)
    assert isinstance(one, CutPupil)
    own = model.generate(TOKENS[:, :4], do_sample=False, max_new_tokens=20, eos_token_id=None, pad_token_id=0)
    marks = one.judge(own)
    assert [row[0] for row in marks.acceptance] == [1.0] * len(marks.asked)
    assert marks.asked[0] == own.shape[0] * (own.shape[1] - len(marks.asked) + 1)
    assert marks.asked[-1] >= marks.asked[0] - 4 * own.shape[0]


def test_costs_leave_the_target_as_it_was() -> None:
    """Guards against a target that is left with the engine's attention, or with hooks that fill the memory."""
    model = tiny_model(layers=3)
    one = HeadPupil("eagle", model, None)
    before = one.loss(TOKENS)
    timings = one.costs()
    assert torch.equal(one.loss(TOKENS), before)
    assert timings.draft[0][1] > 0
    seconds = [cost for _, cost in timings.verify]
    assert seconds == sorted(seconds)


def test_what_a_network_is_worth() -> None:
    """Guards against promises that no acceptance supports, and against pricing a step for each of Medusa's heads."""
    nothing = worth.speedup(FLAT, [(0.0, 0.0), (0.0, 0.0)], None)
    chain = worth.speedup(FLAT, [(0.7,), (0.7,)], None)
    tree = worth.speedup(FLAT, [(0.7, 0.2), (0.7, 0.2)], None)
    at_once = worth.speedup(FLAT, [(0.7, 0.2), (0.7, 0.2)], 1)
    assert nothing == 1.0
    assert chain == pytest.approx((1 + 0.7 + 0.49) / (1.2 + 0.2))
    assert nothing < chain < tree < at_once


def test_marks_are_those_of_a_draft_that_the_text_went_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against asking a draft about places that its own tokens do not lead to: in a text that the target would
    not have gone on with (a file, a warm temperature) a head that is always right would look wrong."""
    count, ahead, vocabulary = 400, 4, 97

    def following(token: torch.Tensor) -> torch.Tensor:
        return (3 * token + 1) % vocabulary

    text = torch.randint(vocabulary, (1, count), generator=torch.Generator().manual_seed(1))
    for place in range(1, count):
        if place % 7:
            text[0, place] = following(text[0, place - 1])
    choice = following(text)
    taken = torch.cat((choice[:, :-1] == text[:, 1:], torch.zeros(1, 1, dtype=torch.bool)), dim=1)
    nothing = torch.zeros(1, count, 1)

    def oracle(_head: object, _exam: object, depth: int) -> Iterator[unroll.Guess]:
        said = choice
        for offset in range(1, depth + 1):
            said = following(said)
            rows = said[:, : count - offset]
            yield unroll.Guess(nothing, functional.one_hot(rows, vocabulary).float(), offset)

    monkeypatch.setattr(unroll, "guesses", oracle)
    head: Any = None
    marks = unroll.judge(head, Exam(nothing, nothing, (), nothing, choice=choice, taken=taken), ahead)
    assert [row[0] for row in marks.acceptance] == [1.0] * ahead
    assert marks.asked[0] > marks.asked[-1] > count / 3
    assert marks.tokens_per_round == 1 + ahead
