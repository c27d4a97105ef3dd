"""The governor against simulated drafters and costs."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from localchat.engine.governor import Governor, Timings
from localchat.engine.sizes import WIDTHS
from localchat.engine.sureness import sureness
from localchat.engine.types import NO_DRAFT, ROOT, Draft, Verdict

FLAT = Timings(tuple((width, 1.0 + 0.013 * (width - 1)) for width in WIDTHS), (("model", 0.1),), (("model", 0.02),))


class Ids(list[int]):
    """Stands in for a tensor of ids: the governor only counts."""


def chain(size: int, source: str = "model") -> Draft:
    """A chain whose tokens do not matter."""
    if not size:
        return NO_DRAFT
    return Draft(Ids(range(size)), tuple(range(ROOT, size - 1)), source, tuple(range(size)))  # type: ignore[arg-type]


def grown(governor: Governor, source: str = "model") -> Draft:
    """The chain that a network would grow which never says how sure it is."""
    size = 0
    weighed = governor.weigh(source, (), (), 0)
    while weighed.deeper:
        size += 1
        weighed = governor.weigh(source, range(ROOT, size - 1), range(size), size)
    return replace(chain(len(weighed.keep), source), steps=size)


def play(
    governor: Governor, rounds: int, acceptance: float, seed: int = 0, source: str = "model"
) -> tuple[float, list[int]]:
    """Tokens per unit of time over some rounds with a drafter of that acceptance, and the depths chosen."""
    luck = random.Random(seed)
    tokens, seconds, depths = 0, 0.0, []
    for _ in range(rounds):
        governor.open(100)
        draft = grown(governor, source)
        depth = len(draft)
        governor.decide(draft)
        hits = 0
        while hits < depth and luck.random() < acceptance:
            hits += 1
        cost = FLAT.seconds(depth + 1)
        verdict = Verdict(tuple(range(hits)), (0,) * (hits + 1))
        governor.learn(draft, verdict, 0.1 * draft.steps, cost)
        tokens += hits + 1
        seconds += cost + 0.1 * draft.steps
        depths.append(depth)
    return tokens / seconds, depths


@pytest.mark.parametrize("acceptance", [0.0, 0.05, 0.3, 0.6, 0.8, 0.95])
def test_never_slower_and_near_the_best_fixed_depth(acceptance: float) -> None:
    """Guards both halves of the promise: at worst plain speed less 4 %, at best the best fixed depth less 12 %."""
    speed, _ = play(Governor(FLAT, 32), 600, acceptance)
    expected = {n: sum(acceptance**i for i in range(n + 1)) / (FLAT.seconds(n + 1) + 0.1 * n) for n in range(31)}
    assert speed >= 0.96
    assert speed >= 0.88 * max(expected.values())


def test_a_useless_drafter_is_parked_soon_and_tried_again() -> None:
    """Guards parking (within 64 tokens) and its end: probes come ever more rarely, but they come."""
    _, depths = play(Governor(FLAT, 32), 600, 0.0)
    assert sum(depths[64:128]) <= 3
    probes = [at for at, depth in enumerate(depths) if at > 64 and depth]
    assert probes
    assert len(probes) < 20
    gaps = [b - a for a, b in itertools.pairwise(probes)]
    assert gaps == sorted(gaps)


def test_a_drafter_that_becomes_good_is_used_again() -> None:
    """Guards recovery: TensorRT-LLM's gate never reopens; ours must, within a few probes."""
    governor = Governor(FLAT, 32)
    play(governor, 100, 0.0)
    speed, depths = play(governor, 800, 0.9)
    assert sum(depths[-100:]) > 200
    assert speed > 1.5


def test_a_noisy_machine_does_not_park_a_good_drafter() -> None:
    """Guards against other programs: a machine that slows down slows plain decoding too."""
    governor = Governor(FLAT, 32)
    play(governor, 50, 0.8)
    for _ in range(100):
        governor.open(100)
        draft = grown(governor)
        governor.decide(draft)
        governor.learn(draft, Verdict((0,), (0, 0)) if draft else Verdict((), (0,)), 0.3, 3.0)
    assert draft
    assert 1 / governor.plain_seconds < 0.6


def test_a_kernel_cliff_is_not_crossed() -> None:
    """Guards widths where a 4-bit kernel changes: past the cliff a row costs more than it can earn."""
    cliff = Timings(((1, 1.0), (5, 1.05), (6, 4.0), (32, 4.5)), (("model", 0.05),))
    governor = Governor(cliff, 32)
    governor.trust({"model": (0.8,)})
    governor.open(100)
    assert 1 <= len(grown(governor)) <= 4


def test_a_wait_is_repaid_before_it_is_spent() -> None:
    """Guards the first token: a draft model reads a long prompt only once the reply has run long enough."""
    governor = Governor(FLAT, 32)
    governor.trust({"model": (0.8,)})
    governor.begin_reply()
    governor.open(100)
    assert not governor.repays("model", 1000), "never before the first token"
    for _ in range(160):
        governor.open(100)
        governor.decide(NO_DRAFT)
        governor.learn(NO_DRAFT, Verdict((), (0,)), 0.0, 1.0)
    assert governor.repays("model", 1000)
    assert not governor.repays("model", 10_000)


def test_reasons_are_in_words() -> None:
    """Guards the screen: a parked round says which acceptance was seen and which one would pay."""
    governor = Governor(FLAT, 32)
    play(governor, 100, 0.0)
    governor.open(100)
    draft = grown(governor)
    decision = governor.decide(draft)
    assert decision.parked == (not draft)
    assert "pays above" in decision.reason or "trying again" in decision.reason


def test_a_branch_is_kept_only_where_it_pays() -> None:
    """Guards trees: a second continuation is worth rows when the first is doubtful, and not when it is certain."""
    costs = Timings(tuple((width, 1.0 + 0.05 * (width - 1)) for width in range(1, 33)))
    governor = Governor(costs, 32)
    governor.trust({"lookup": (0.5, 0.95, 0.3, 0.02)})
    governor.open(100)
    parents = (ROOT, 0, 1, ROOT, 3)
    assert governor.weigh("lookup", parents, (0, 0, 0, 2, 0), 0).keep == (0, 1, 2, 3, 4)
    assert governor.weigh("lookup", parents, (1, 1, 1, 3, 1), 0).keep == (0, 1, 2)


def test_siblings_exclude_each_other() -> None:
    """Guards expected tokens: rates of siblings that add up to more than 1 are taken as shares of 1."""
    governor = Governor(FLAT, 32)
    governor.trust({"lookup": (0.8,)})
    governor.open(100)
    two = Draft(Ids(range(3)), (ROOT, ROOT, 1), "lookup", (0, 0, 0))  # type: ignore[arg-type]
    assert governor.decide(two).expected_tokens == pytest.approx(1 + 0.5 + 0.5 + 0.5 * 0.8)


def test_what_a_network_is_sure_of_is_learnt_by_class_and_by_level() -> None:
    """Guards both uses of a verdict: how good such nodes are, and how far drafts of this source go."""
    governor, sure, unsure = Governor(FLAT, 32), sureness(0.95), sureness(0.3)
    draft = Draft(Ids(range(3)), (ROOT, ROOT, 0), "model", (sure, unsure, sure), 2)  # type: ignore[arg-type]
    for _ in range(60):
        governor.open(100)
        governor.learn(draft, Verdict((0,), (0, 0)), 0.2, 1.0)
    rate = governor._acceptance.rate
    assert rate("model", sure) == pytest.approx(0.5, abs=0.05), "one of the two that were asked"
    assert rate("model", unsure) < 0.1
    assert rate("model", 0) > 0.9, "some node of the first level was right"
    assert rate("model", 1) < 0.1


def test_a_source_that_finds_nothing_worth_a_row_is_parked() -> None:
    """Guards plain speed: drafts that come to nothing are never verified, and yet must count as failures."""
    governor, steps = Governor(FLAT, 32), 0
    for _ in range(200):
        governor.open(100)
        if governor.weigh("model", (), (), 0).deeper:
            steps += 1
            weighed = governor.weigh("model", (ROOT,), (sureness(0.001),), 1)
            if not weighed.keep:
                assert "unsure" in governor.decide(NO_DRAFT).reason
        governor.learn(NO_DRAFT, Verdict((), (0,)), 0.1, 1.0)
    assert 2 <= steps <= 20


def test_a_probe_is_one_node() -> None:
    """Guards the price of trying again: a parked source gets one row, its likeliest, and one step."""
    governor, kinds = Governor(FLAT, 32), (sureness(0.1), sureness(0.6))
    play(governor, 100, 0.0)
    for _ in range(600):
        governor.open(100)
        if governor.weigh("model", (), (), 0).deeper:
            break
    assert governor.weigh("model", (ROOT, ROOT), kinds, 1) == ((1,), False)


def test_value_counts_a_step_per_level() -> None:
    """Guards competing sources: what is not drafted yet costs its steps, level by level; asking changes nothing."""
    governor = Governor(FLAT, 32)
    governor.trust({"model": (0.5, 0.01), "lookup": (0.5, 0.01)})
    governor.open(100)
    paid = governor.value("model", (ROOT, 0), (0, 1), None)
    free = governor.value("lookup", (ROOT, 0), (0, 1), 0)
    assert paid == pytest.approx(1.5 / (FLAT.seconds(2) + 0.1))
    assert free == pytest.approx(1.5 / FLAT.seconds(2))
    assert governor.decide(NO_DRAFT).reason == "nothing to draft"


def test_costs_are_those_of_the_padded_width() -> None:
    """Guards the cost table: rows are padded to a measured width, and cost what that one costs."""
    table = Timings(((1, 1.0), (4, 1.2), (8, 1.5)))
    assert [table.seconds(width) for width in (1, 2, 4, 5, 8, 40)] == [1.0, 1.2, 1.2, 1.5, 1.5, 1.5]


@pytest.mark.parametrize(("cost", "length"), [(0.05, 16), (0.1, 24), (0.3, 24), (0.1, 512)])
def test_a_useless_drafter_costs_short_replies_little(cost: float, length: int) -> None:
    """Guards many short replies: what was learnt in one is not paid for again in the next."""
    governor = Governor(Timings(FLAT.verify, (("model", cost),)), 32)
    governor.trust({"model": (0.75,)})
    seconds = 0.0
    for _ in range(40):
        governor.begin_reply()
        for _ in range(length):
            governor.open(100)
            draft = grown(governor)
            governor.decide(draft)
            governor.learn(draft, Verdict((), (0,)), cost * draft.steps, FLAT.seconds(len(draft) + 1))
            seconds += FLAT.seconds(len(draft) + 1) + cost * draft.steps
    assert 40 * length / seconds >= 0.96


def test_what_did_badly_once_is_tried_again_in_later_replies() -> None:
    """Guards against rates that only fall: after a few unlucky guesses drafts would stay one token deep for good, since
    nothing is learnt of a depth that is never drafted. True of 39 of 40 chats at this acceptance."""
    stuck = 0
    for seed in range(20):
        governor = Governor(FLAT, 32)
        governor.trust({"model": (0.6, 0.55, 0.5, 0.45)})
        deepest = []
        for reply in range(29):
            governor.begin_reply()
            deepest.append(max(play(governor, 60, 0.5, seed=1000 * seed + reply)[1]))
        stuck += max(deepest[-4:]) <= 1
    assert stuck == 0


def test_a_class_that_did_badly_once_is_tried_again_beside_a_good_one() -> None:
    """Guards lookup: a source that pays with one class is never parked, so nothing else would try its other classes."""
    governor = Governor(Timings(tuple((width, 1.0 + 0.15 * (width - 1)) for width in WIDTHS)), 32)
    governor.trust({"lookup": (0.6, 0.9)})

    def drafted(kind: int, right: bool) -> bool:
        governor.open(100)
        found = governor.weigh("lookup", (ROOT,), (kind,), 0).keep
        draft = Draft(Ids([0]), (ROOT,), "lookup", (kind,)) if found else NO_DRAFT  # type: ignore[arg-type]
        hit = bool(draft) and right
        governor.decide(draft)
        governor.learn(draft, Verdict((0,) if hit else (), (0,) * (1 + hit)), 0.0, 1.15)
        return bool(draft)

    governor.begin_reply()
    assert sum(drafted(0, False) for _ in range(30) if drafted(1, True)) < 15
    for _ in range(20):
        governor.begin_reply()
        last = [drafted(0, True) for _ in range(20) if drafted(1, True)]
    assert all(last)


def test_a_promise_counts_the_branch() -> None:
    """Guards predicted speed: a branch adds what it earns when the main chain fails, not a longer chain."""
    governor = Governor(FLAT, 32)
    governor.trust({"lookup": (0.5, 0.3)})
    governor.open(100)
    both = Draft(Ids(range(4)), (ROOT, 0, ROOT, 2), "lookup", (0, 0, 1, 0))  # type: ignore[arg-type]
    assert governor.decide(both).expected_tokens == pytest.approx(1 + 0.5 + 0.25 + 0.3 + 0.15)
    assert governor.decide(both).reason == "lookup, 4 tokens 2 deep"


def test_switched_off_means_no_room() -> None:
    """Guards the switch: nothing is drafted, the reason is said, it is not called parked, and it can be undone."""
    governor = Governor(FLAT, 32)
    governor.allowed = False
    governor.open(100)
    assert governor.limit == len(grown(governor)) == 0
    decision = governor.decide(NO_DRAFT)
    assert (decision.parked, decision.reason) == (False, "switched off")
    governor.allowed = True
    governor.open(100)
    assert grown(governor)
