"""The fold that the panel shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localchat.chat.events import Failed, Finished, Loading, Memory, Prefilling, Wrote
from localchat.models.memory import MIB
from localchat.models.plan import LoadPlan
from localchat.tui.live import RECENT_TOKENS, Live, Phase, Standing
from tests.support.backend import PLAIN_SECONDS, USAGE, Scripted
from tests.support.rounds import STORY, a_round, events, heard, loaded, story


def test_phases_follow_the_engine() -> None:
    """Guards the sign in the title bar: it must name what the engine does now."""
    live = Live()
    assert live.phase is Phase.EMPTY
    assert live.hear(Loading("Loading", 1, 2), 0.0).phase is Phase.LOADING
    live = loaded()
    assert live.phase is Phase.READY
    assert live.loaded
    live = live.begin(accelerate=True, now=1.0)
    assert live.phase is Phase.PREFILLING
    assert live.hear(Prefilling(3, 5), 1.1).phase is Phase.PREFILLING
    live = live.hear(a_round(), 1.2)
    assert live.phase is Phase.WRITING
    assert live.stopping().hear(a_round(1), 1.3).phase is Phase.STOPPING
    assert story().phase is Phase.READY


def test_a_failure_says_whether_the_engine_lives() -> None:
    """Guards the restart offer: it must appear when the child has died, and only then."""
    writing = story(finished=False)
    broken = writing.hear(Failed("generation", "NaN.", "Try again."), 9.0)
    assert broken.phase is Phase.READY
    assert broken.problem
    assert broken.stats == writing.stats, "what was written stands"
    dead = writing.hear(Failed("engine", "Killed.", "Restart."), 9.0)
    assert dead.phase is Phase.DEAD
    assert dead.loaded is None
    cancelled = Live().hear(Loading("Loading"), 0.0).hear(Failed("cancelled", "Cancelled.", ""), 1.0)
    assert cancelled.phase is Phase.EMPTY


def test_a_finished_reply_brings_its_own_figures() -> None:
    """Guards the panel against its own sums: at the end the engine's figures are shown."""
    backend = Scripted(STORY)
    said = events(backend)
    live = heard(loaded(backend), said)
    last = said[-1]
    assert isinstance(last, Finished)
    assert live.stats == last.reply.stats
    assert live.speedup == pytest.approx(last.reply.speedup)
    assert live.first_seconds == last.reply.first_token_seconds
    assert live.saved == pytest.approx(last.reply.saved_seconds)
    assert live.saved > 0


@pytest.mark.parametrize("step", [0.001, 5.0])
def test_speed_is_the_engines(step: float) -> None:
    """Guards the promise that a slow screen cannot make the engine look slow: only the rounds' seconds count."""
    backend = Scripted(STORY)
    said = [event for event in events(backend) if isinstance(event, Wrote)]
    live = heard(loaded(backend), said, step=step)
    assert live.speed == pytest.approx(3 / (PLAIN_SECONDS + 0.001))


def test_speed_now_forgets_what_was_before() -> None:
    """Guards F5: the speed shown must fall within seconds when drafting is switched off in a long reply."""
    live = loaded().begin(accelerate=True, now=0.0)
    for number in range(1000):
        live = live.hear(a_round(number, "abcd"), 0.0)
    assert live.speed == pytest.approx(500)
    for number in range(250):
        live = live.switched(on=False).hear(a_round(1000 + number), 0.0)
    assert live.speed == pytest.approx(100)
    assert live.standing is Standing.OFF


def test_plain_speed_follows_the_machine() -> None:
    """Guards the comparison while writing: on a machine that has slowed down, plain would be slower too."""
    live = loaded().begin(accelerate=True, now=0.0)
    assert live.plain_speed == pytest.approx(100)
    for number in range(20):
        live = live.hear(a_round(number, "ab"), 0.0)
    assert live.plain_speed == pytest.approx(1.5 / 0.010), "a round of 10 ms is worth 1.5 plain ones"
    assert live.round_cost == pytest.approx(1.5)


def test_recent_rounds_are_bounded() -> None:
    """Guards memory and speed of the screen in a reply of any length."""
    live = loaded().begin(accelerate=True, now=0.0)
    for number in range(2000):
        live = live.hear(a_round(number, "ab"), 0.0)
    tokens = sum(len(wrote.round.tokens) for wrote in live.rounds)
    assert RECENT_TOKENS <= tokens < RECENT_TOKENS + 3
    assert live.rounds[-1].round.index == 1999
    assert live.stats.rounds == 2000


def test_seconds_saved_add_up_over_a_chat() -> None:
    """Guards "saved in this chat": earlier replies count once, and another chat begins with its own."""
    backend = Scripted(STORY)
    once = story(backend)
    twice = heard(once, events(backend))
    assert twice.saved == pytest.approx(2 * once.saved)
    assert twice.tokens == 2 * once.tokens
    opened = twice.chat(saved_seconds=7.0, tokens=50)
    assert (opened.saved, opened.tokens) == (7.0, 50)
    assert opened.stats.rounds == 0
    assert opened.loaded == twice.loaded


def test_another_model_is_not_compared_with_the_last_reply() -> None:
    """Guards a change of settings: the old model's speed over the new one's plain speed would be nonsense."""
    before = story()
    live = before
    for event in Scripted().load(LoadPlan()):
        live = live.hear(event, 200.0)
    assert live.stats.rounds == 0
    assert live.speedup == 0.0
    assert live.saved == pytest.approx(before.saved)
    assert live.tokens == before.tokens


def test_plain_replies_save_nothing() -> None:
    """Guards against crediting drafting with the noise of a plain reply."""
    live = story(accelerate=False)
    assert live.saved == 0.0
    assert live.standing is Standing.OFF


@pytest.mark.parametrize(
    ("wrote", "standing"),
    [
        (a_round(0, "abc", rejected="d"), Standing.PAYS),
        (a_round(0, "", rejected="abc"), Standing.COSTS),
        (a_round(0, source="", parked=True), Standing.PARKED),
    ],
)
def test_standing(wrote: Wrote, standing: Standing) -> None:
    """Guards the headline: it must say whether drafting pays, as measured."""
    live = loaded().begin(accelerate=True, now=0.0)
    assert live.standing is Standing.NONE
    assert live.hear(wrote, 0.0).standing is Standing.MEASURING
    for _ in range(8):
        live = live.hear(wrote, 0.0)
    assert live.standing is standing


def test_a_good_reply_that_ends_parked_paid_off() -> None:
    """Guards the word at the end of a reply: a few parked rounds at its end do not undo what was gained."""
    live = story(finished=False)
    for number in range(6):
        live = live.hear(a_round(live.stats.rounds + number, source="", parked=True), 0.0)
    assert live.standing is Standing.PARKED
    last = events(Scripted(STORY))[-1]
    assert live.hear(last, 0.0).standing is Standing.PAYS


def test_growth_is_that_of_the_chat() -> None:
    """Guards the memory row: growth is counted from when the chat was opened, not from when the model was loaded."""
    live = loaded().hear(Memory(replace(USAGE, process=USAGE.process + 9 * MIB)), 0.0)
    assert live.growth == 9 * MIB
    live = live.chat(saved_seconds=0.0, tokens=0)
    assert live.growth == 0
    assert live.hear(Memory(replace(USAGE, process=USAGE.process + 12 * MIB)), 0.0).growth == 3 * MIB


def test_time_to_the_first_token_and_in_all() -> None:
    """Guards the two times: the first counts from the call, and the total goes on while nothing arrives."""
    live = loaded().begin(accelerate=True, now=10.0).hear(Prefilling(5, 5), 10.5)
    assert live.first_seconds is None
    held_back = replace(a_round(), text="")
    live = live.hear(held_back, 11.0)
    assert live.first_seconds is None, "nothing was visible yet"
    live = live.hear(a_round(1), 12.0).hear(a_round(2), 13.0)
    assert live.first_seconds == 2.0
    assert live.tick(17.0).total_seconds == 7.0
