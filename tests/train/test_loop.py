"""Steps, the learning rate, and what happens where memory runs out."""

from __future__ import annotations

import time

import pytest
import torch

from localchat.errors import FitError, GenerationError
from localchat.train.loop import FALL, PATIENCE, WARM_UP, Loop
from localchat.train.unroll import Marks
from tests.train.support import Line, loop, rows


def values(one: Loop) -> list[torch.Tensor]:
    """What was learnt."""
    return [value.detach().clone() for value in one.parameters.values()]


def equal(left: Loop, right: Loop) -> bool:
    """Both learnt the same, bit for bit."""
    return all(torch.equal(a, b) for a, b in zip(values(left), values(right), strict=True))


def test_it_learns() -> None:
    """Guards against a loop that does everything but learn."""
    one = loop(Line())
    before = one.judge(rows(), 64).acceptance[0][0]
    for _ in range(150):
        one.step()
    assert one.judge(rows(), 64).acceptance[0][0] > max(0.8, before)
    assert one.progress.step == 150
    assert one.progress.tokens == 150 * 64


def test_it_begins_with_some_texts() -> None:
    """Guards against reading everything before the first step, or nothing."""
    pupil = Line()
    one = loop(pupil)
    one.begin(100)
    assert pupil.begun == 128
    one.begin(10_000)
    assert pupil.begun == sum(map(len, rows()))
    assert one.progress.seconds > 0


def test_going_on_changes_nothing() -> None:
    """Guards against moments, order or noise that are lost in an interruption: 40 steps are 40 steps, however cut."""
    whole, cut = loop(Line()), loop(Line())
    for _ in range(40):
        whole.step()
    for step in range(40):
        if step in (1, 2, 17):
            again = loop(Line())
            assert again.restore({name: value.clone() for name, value in cut.state().items()}, cut.progress)
            cut = again
        cut.step()
    assert equal(whole, cut)
    assert whole.progress.loss == cut.progress.loss


def test_an_interruption_costs_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against less learning for each interruption: reading all texts again takes time that is not training."""
    clock, cost = [0.0], [1.0]

    class Slow(Line):
        def loss(self, tokens: torch.Tensor) -> torch.Tensor:
            clock[0] += cost[0]
            return super().loss(tokens)

        def judge(self, tokens: torch.Tensor) -> Marks:
            clock[0] += cost[0]
            return super().judge(tokens)

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    one = loop(Slow())
    for _ in range(4):
        one.step()
    again, cost[0] = loop(Slow()), 5.0
    assert again.restore(one.state(), one.progress)
    again.judge(rows(4), 64)
    for _ in range(again.batches.count):
        again.step()
    assert again.progress.seconds == pytest.approx(4.0 + again.batches.count)
    again.step()
    again.judge(rows(4), 64)
    assert again.progress.seconds == pytest.approx(4.0 + again.batches.count + 10.0)


def test_a_state_of_another_network_is_refused() -> None:
    """Guards against weights of another size or place."""
    one = loop(Line())
    state = dict(one.state())
    state["value.1.bias"] = torch.zeros(3)
    assert not one.restore(state, one.progress)
    assert not one.restore({}, one.progress)


def test_less_memory_takes_smaller_parts() -> None:
    """Guards against an end, or another result, where memory runs out: parts add up to the batch."""
    ample, scarce = Line(), Line(lacks=2, most=1)
    left, right = loop(ample), loop(scarce)
    for _ in range(3):
        left.step()
        right.step()
    assert ample.rows == [4, 4, 4]
    assert scarce.rows == [1] * 12
    assert right.progress.parts == 4
    assert [note.split(": ")[1] for note in right.notes] == [
        "from now on 2 texts are computed at a time instead of 4.",
        "from now on 1 texts are computed at a time instead of 2.",
    ]
    for a, b in zip(values(left), values(right), strict=True):
        assert torch.allclose(a, b, atol=2e-3)


def test_what_can_be_spared_is_given_back_first() -> None:
    """Guards against ever smaller batches beside gigabytes of remembered states."""
    pupil = Line(lacks=2, most=0, spare=1)
    one = loop(pupil)
    one.step()
    assert pupil.rows == [2, 2]
    assert [note.split(": ")[1] for note in one.notes] == [
        "from now on texts that come again are read again, which is slower.",
        "from now on 2 texts are computed at a time instead of 4.",
    ]


def test_memory_runs_out_at_the_beginning() -> None:
    """Guards against an end before the first step where smaller parts would do."""
    pupil = Line(lacks=2, most=1)
    one = loop(pupil)
    one.begin(100)
    assert pupil.begun == 128
    assert one.progress.parts == 4


def test_memory_runs_out_in_the_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an end, or moments that are half made, where the update itself lacks memory."""
    one, ample, lacks = loop(Line(spare=1)), loop(Line()), [True]
    real = torch.optim.AdamW.step

    def step(optimizer: torch.optim.AdamW) -> object:
        if lacks and lacks.pop():
            raise torch.OutOfMemoryError("out of memory")
        return real(optimizer)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    for _ in range(3):
        one.step()
        ample.step()
    assert equal(one, ample)


def test_any_seed_will_do() -> None:
    """Guards against a number that torch cannot hold, found out at the first step."""
    loop(Line(), seed=2**63 - 1).step()


def test_no_memory_at_all() -> None:
    """Guards against trying for ever."""
    with pytest.raises(FitError, match="one text at a time"):
        loop(Line(lacks=100, most=0)).step()


def test_other_errors_are_not_a_lack_of_memory() -> None:
    """Guards against hiding a bug behind ever smaller batches."""
    pupil = Line()
    pupil.module = torch.nn.Sequential(torch.nn.Embedding(64, 8), torch.nn.Linear(9, 64))
    with pytest.raises(RuntimeError, match="shape"):
        loop(pupil).step()


def test_a_loss_that_is_no_number() -> None:
    """Guards against training on with broken weights."""
    with pytest.raises(GenerationError, match="no number"):
        loop(Line(broken=True)).step()


def test_the_rate_rises_stays_and_falls() -> None:
    """Guards against a rate that never falls, which costs most of the gain, or that falls to less than nothing."""
    one = loop(Line(), seconds=100.0)
    assert one.factor() == pytest.approx(1 / WARM_UP)
    one.progress.step = WARM_UP
    one.progress.seconds = 50.0
    assert one.factor() == 1.0
    one.progress.seconds = 100.0 * (1 - FALL)
    assert one.factor() == 1.0
    one.progress.seconds = 100.0 * (1 - FALL / 2)
    assert one.factor() == pytest.approx(0.5)
    assert one.left > 0
    one.progress.seconds = 120.0
    assert one.factor() == 0.0
    assert one.done
    assert one.reason == "The time was up."


def test_more_time_lets_the_rate_rise_again() -> None:
    """Guards against a training that was paused while its rate fell and then ends where the old time ended, with the
    wrong reason."""
    paused = loop(Line(), seconds=100.0)
    paused.step()
    paused.progress.step, paused.progress.seconds = WARM_UP, 90.0
    assert paused.factor() == pytest.approx(0.25)
    for value in [1.0] * (PATIENCE + 2):  # what does not rise now is the falling rate's doing
        paused.judged(value)
    more = loop(Line(), seconds=1000.0)
    assert more.restore(paused.state(), paused.progress)
    assert more.factor() == 1.0
    assert more.left == pytest.approx(910.0)
    more.progress.seconds = 1000.0
    assert more.done
    assert more.reason == "The time was up."


def test_it_ends_where_nothing_is_gained() -> None:
    """Guards against training for an hour after the last gain, and against giving up before it began."""
    one = loop(Line(), seconds=1000.0)
    one.progress.step = WARM_UP
    early, late = [1.5, 1.0, 1.0, 1.0], [1.0, 1.2, 1.1, 1.3, 1.4, *[1.4] * PATIENCE]
    for number, value in enumerate([*early, *late]):
        assert not one.progress.stalled
        one.progress.seconds = 50.0 * number
        one.judged(value)
    stalled = one.progress.seconds
    assert one.progress.stalled == stalled
    assert one.factor() == 1.0
    one.step()
    one.progress.seconds = stalled / (1 - FALL)
    assert one.done
    assert one.reason == "Acceptance on held-out text no longer rose."


def test_judgements_are_spread_over_the_time() -> None:
    """Guards against judging at every step, or never."""
    one = loop(Line(), seconds=100.0)
    seen = []
    for seconds in range(0, 101, 5):
        one.progress.seconds = float(seconds)
        if one.due:
            seen.append(seconds)
            one.judged(1.0)
    assert seen == list(range(5, 101, 5))
