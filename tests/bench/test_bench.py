"""The bench's prompts, its arithmetic and its verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localchat.bench import compare, hear, runner
from localchat.bench.categories import KINDS, Form, choose, prompts
from localchat.bench.runner import Spread
from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Failed
from localchat.engine.types import Sampling
from localchat.errors import FitError
from localchat.models.plan import LoadPlan
from tests.support.backend import Scripted

OPTIONS = ReplyOptions(Sampling(seed=1))


def a_run(text: str = "Drafts are guesses.", margin: float = 1.0, method: str = "off") -> hear.Run:
    """A reply of the scripted engine."""
    return hear.reply(Scripted(text, margin=margin), Conversation().user("Hi"), runner.using(OPTIONS, method))


@pytest.mark.parametrize("form", [Form.CHAT, Form.COMPLETION])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_prompts_in_every_form(form: Form, kind: str) -> None:
    """Guards against a kind that is silently left out for base models."""
    assert len(choose(form, (kind,))) >= 2


def test_prompts_are_distinct() -> None:
    """Guards against a prompt that is measured twice."""
    assert len({prompt.text for prompt in prompts()}) == len(prompts())


def test_spread_is_median_and_range() -> None:
    """Guards against a mean, which one slow run would spoil."""
    assert Spread.of([3.0, 1.0, 100.0]) == Spread(3.0, 1.0, 100.0)
    assert Spread.of([4.0, 1.0]) == Spread(2.5, 1.0, 4.0)


def test_sameness() -> None:
    """Guards against a tie that is none: only the margin at the first difference counts, not one elsewhere."""
    plain = a_run()
    assert compare.sameness(plain, a_run(method="mixed"), 0.1).value is True
    parted = compare.sameness(plain, a_run("Drafts are gifts."), 0.1)
    assert (parted.value, parted.position, parted.margin) == (False, 6, 1.0)
    close = a_run(margin=0.01)
    assert compare.sameness(close, a_run("Drafts are gifts."), 0.1).value == "tie"
    wrote = tuple(
        replace(item, round=replace(item.round, margin=0.01 if index == 3 else 1.0))
        for index, item in enumerate(plain.wrote)
    )
    assert compare.sameness(replace(plain, wrote=wrote), a_run("Drafts are gifts."), 0.1).value is False


def test_a_shorter_reply_differs() -> None:
    """Guards against a reply that stops early and is called the same."""
    assert compare.first_difference((1, 2), (1, 2, 3)) == 2
    assert compare.first_difference((1, 2), (1, 2)) is None


def a_trial(*drafters: str, repeats: int = 2) -> runner.Trial:
    """A story, measured a few times."""
    return runner.Trial((choose(Form.CHAT, ("story",))[0].task,), drafters, OPTIONS, repeats)


def test_speedup_is_against_the_plain_neighbour() -> None:
    """Guards the ratio: 10 tokens in 10 rounds of 10 ms against 4 rounds of 11 ms, less the cost of exact mode."""
    backend = Scripted()
    exact = replace(backend.loaded(LoadPlan()), exact=True, exact_cost=0.1)
    events = list(runner.measure(backend, a_trial("mixed"), exact))
    plain, mixed = [event for event in events if isinstance(event, runner.Result)]
    assert plain.speedup.median == pytest.approx(1 / 1.1)
    assert mixed.speedup.median == pytest.approx(100 / 44 / 1.1)
    assert mixed.tokens_per_round == pytest.approx(2.5)
    assert mixed.draft_share == pytest.approx(1 / 11)
    assert mixed.runs == 2


def test_each_repeat_runs_all_drafters_in_rotated_order() -> None:
    """Guards against a drafter that is always measured last, on the hottest machine, or helped by earlier replies."""
    backend = Scripted()
    events = list(runner.measure(backend, a_trial("lookup", "mixed"), backend.loaded(LoadPlan())))
    methods = [options.method for options in backend.options[3:]]
    assert methods == ["off", "lookup", "mixed", "lookup", "mixed", "off"]
    assert all(options.fresh for options in backend.options)
    steps = [event for event in events if isinstance(event, runner.Step)]
    assert [step.done for step in steps] == [0, 0, 1, 2, 3, 4, 5]
    assert steps[-1].trial.replies == 6


def test_nothing_is_measured_twice() -> None:
    """Guards `compare --draft off` and a drafter that is named twice: both would end without a result."""
    assert a_trial("off").methods == ("off",)
    assert a_trial("lookup", "lookup").methods == ("off", "lookup")
    backend = Scripted()
    events = runner.measure(backend, a_trial("off"), backend.loaded(LoadPlan()))
    assert [event.speedup.median for event in events if isinstance(event, runner.Result)] == [1.0]


@pytest.mark.parametrize("after", [1, 5, 12])
def test_a_cancelled_reply_ends_the_trial(after: int) -> None:
    """Guards against a half reply that counts as a measurement, and against a trial that goes on after Esc."""
    backend = Scripted()
    replies = 0

    def count() -> None:
        nonlocal replies
        replies += 1

    backend.on_reply = count
    events = runner.measure(backend, a_trial("mixed", repeats=9), backend.loaded(LoadPlan()))
    seen: list[runner.Measured] = []
    for event in events:
        seen.append(event)
        if replies >= after:
            backend.cancel()
    assert replies == after
    assert not [event for event in seen if isinstance(event, runner.Result)]


def test_failures_keep_their_kind() -> None:
    """Guards the exit code of a bench that runs out of memory."""
    backend = Scripted(reply_failure=Failed("fit", "No room.", "Less."))
    with pytest.raises(FitError, match="No room"):
        hear.reply(backend, Conversation().user("Hi"), OPTIONS)
