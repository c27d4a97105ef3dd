"""The noise and the filters."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from localchat.engine.sampling import Picker, noise
from localchat.engine.sureness import SURE, middle, sureness
from localchat.engine.types import NO_DRAFT, ROOT, Draft, Sampling

CPU = torch.device("cpu")


def chi_square(counts: Tensor, expected: Tensor) -> tuple[float, int]:
    """Pearson's statistic over cells of at least 5 expected draws (the rest pooled), and its degrees of freedom."""
    big = expected >= 5
    cells = [(counts[big], expected[big]), (counts[~big].sum()[None], expected[~big].sum()[None])]
    used = [(seen, due) for seen, due in cells if due.sum() > 0]
    statistic = sum(float(((seen - due) ** 2 / due).sum()) for seen, due in used)
    return statistic, sum(len(due) for _, due in used) - 1


def limit(freedom: int, sigmas: float) -> float:
    """Wilson-Hilferty: the chi-square value that many standard deviations out."""
    ninth = 2.0 / (9.0 * freedom)
    return freedom * (1.0 - ninth + sigmas * math.sqrt(ninth)) ** 3


@pytest.mark.parametrize(("temperature", "vocabulary"), [(1.0, 50), (0.7, 20), (1.3, 400)])
def test_picks_are_drawn_from_the_softmax(temperature: float, vocabulary: int) -> None:
    """Guards the noise: 60,000 picks at successive positions against softmax. Limit 4.0 sigma: a correct sampler
    fails once in about 30,000 runs of a case; the seed is fixed, so this case passes always or never."""
    logits = torch.randn(vocabulary, generator=torch.Generator().manual_seed(3)) * 2
    draws = 60_000
    scores = logits / temperature
    picks = torch.cat([
        (scores + noise(11, range(start, start + 2000), torch.arange(vocabulary)[None])).argmax(-1)
        for start in range(0, draws, 2000)
    ])  # fmt: skip
    counts = torch.bincount(picks, minlength=vocabulary).double()
    statistic, freedom = chi_square(counts, torch.softmax(scores.double(), -1) * draws)
    assert statistic < limit(freedom, 4.0)


def test_picks_over_seeds_are_drawn_from_the_softmax() -> None:
    """Guards the other counter: one position, 50,000 seeds. Limit 4.0 sigma, false alarm 1 in 30,000; fixed seeds."""
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 0.5])
    ids = torch.arange(5)[None]
    picks = torch.tensor([int((logits + noise(seed, [17], ids)).argmax()) for seed in range(50_000)])
    counts = torch.bincount(picks, minlength=5).double()
    statistic, freedom = chi_square(counts, torch.softmax(logits.double(), -1) * 50_000)
    assert statistic < limit(freedom, 4.0)


def test_neighbouring_counters_are_independent() -> None:
    """Guards the hash: noise at position p and p + 1, token t and t + 1, seed s and s + 1 must not correlate.
    Over 100,000 pairs a correlation beyond 0.02 is 6 sigma: a false alarm in 5e8 runs."""
    ids = torch.arange(100_000)[None]
    base = noise(5, [9], ids)[0]
    for other in (noise(5, [10], ids)[0], noise(6, [9], ids)[0], noise(5, [9], ids + 1)[0]):
        assert abs(float(torch.corrcoef(torch.stack([base, other]))[0, 1])) < 0.02


def test_noise_is_a_pure_function() -> None:
    """Guards reproducibility across versions: these values may never change, or old seeds change their texts."""
    known = [[-0.0036884621, 0.7864607573, -0.8524447680], [2.5537552834, -1.3589060307, -1.1384471655]]
    torch.testing.assert_close(noise(42, [0, 7], torch.tensor([[0, 1, 151_935]])), torch.tensor(known))
    values = noise(42, [0, 7], torch.tensor([[0, 1, 151_935]]))
    assert torch.equal(values, noise(42, [0, 7], torch.tensor([[0, 1, 151_935]])))
    one_by_one = torch.stack([noise(42, [p], torch.tensor([[t]]))[0, 0] for p in (0, 7) for t in (0, 1, 151_935)])
    assert torch.equal(values.flatten(), one_by_one)
    assert torch.isfinite(values).all()


def reference(logits: Tensor, rule: Sampling) -> Tensor:
    """Kept tokens, written the slow way: top-k, top-p, min-p by the definitions."""
    scores = logits.double() / rule.temperature
    keep = torch.ones_like(scores, dtype=torch.bool)
    if rule.top_k:
        keep &= scores >= scores.topk(rule.top_k).values[-1]
    if rule.top_p < 1:
        p = torch.softmax(scores.masked_fill(~keep, -math.inf), -1)
        order = p.argsort(descending=True)
        before = p[order].cumsum(0) - p[order]
        floor = p[order][before < rule.top_p][-1]
        keep &= p >= floor
    if rule.min_p:
        p = torch.softmax(scores, -1)
        keep &= p >= rule.min_p * p.max()
    return keep


@pytest.mark.parametrize(
    "rule",
    [
        Sampling(temperature=1.0, top_k=5),
        Sampling(temperature=0.8, top_p=0.7),
        Sampling(temperature=1.2, min_p=0.05),
        Sampling(temperature=0.9, top_k=30, top_p=0.9, min_p=0.01),
    ],
)
def test_filters_keep_what_their_definitions_keep(rule: Sampling) -> None:
    """Guards top-k, top-p and min-p and their order; picks at many positions reach every kept token and no other.
    A kept token of probability 1/500 is missed by 8,000 picks with odds 1e-7."""
    logits = torch.randn(60, generator=torch.Generator().manual_seed(1)) * 1.5
    keep = reference(logits, rule)
    picker = Picker(rule, [1], 60, CPU)
    seen = torch.zeros(60, dtype=torch.bool)
    rows = logits.expand(400, -1)
    parents = tuple(range(ROOT, 398))
    for start in range(20):
        picker.length = 1 + start * 400
        draft = Draft(torch.zeros(399, dtype=torch.int64), parents, "x", (0,) * 399)
        seen[picker.rows(rows, draft)[0]] = True
    assert not (seen & ~keep).any()
    likely = torch.softmax(logits.double() / rule.temperature, -1) > 1 / 500
    assert (seen | ~(keep & likely)).all()


def test_a_shortlist_too_short_grows() -> None:
    """Guards the shortlist: a flat distribution keeps more tokens than it first holds, and ties at its end."""
    flat = torch.zeros(5000)
    picker = Picker(Sampling(temperature=1.0, top_p=0.9), [1], 5000, CPU)
    scores, columns = picker._truncated(flat[None], 2)
    assert columns is not None
    assert len(set(columns[0].tolist())) == 5000
    assert torch.isfinite(scores).sum() == 5000, "tokens tied with the last kept one are kept"


def test_temperature_zero_is_argmax() -> None:
    """Guards greedy decoding, and the margin in units of logits."""
    picks, margins = Picker(Sampling(temperature=0.0), [1], 3, CPU).rows(torch.tensor([[1.0, 4.0, 3.5]]), NO_DRAFT)
    assert picks.tolist() == [1]
    assert margins.tolist() == [0.5]


def test_penalties_see_the_prefix_of_their_own_row() -> None:
    """Guards processors at verification: a row's penalty counts the drafted tokens on its path and no sibling."""
    rule = Sampling(temperature=0.0, frequency_penalty=1.0)
    picker = Picker(rule, [0], 4, CPU)
    logits = torch.tensor([[0.05, 1.0, 0.9, -5.0]]).repeat(4, 1)
    draft = Draft(torch.tensor([1, 2, 1]), (ROOT, ROOT, 1), "x", (0, 0, 0))
    picks, _ = picker.rows(logits, draft)
    # Root: 1. After 1: 1 is penalised, so 2. After 2: 1. After 2 and 1: both are penalised, so 0.
    assert picks.tolist() == [1, 2, 1, 0]


def test_drafter_and_target_pick_alike() -> None:
    """Guards the coupling: with equal logits the drafter's pick is the target's at every depth, penalties included."""
    rule = Sampling(temperature=1.0, seed=9, repetition_penalty=1.3, presence_penalty=0.5)
    logits = torch.randn(5, 40, generator=torch.Generator().manual_seed(2))
    picker = Picker(rule, [3, 4], 40, CPU)
    path = torch.empty((1, 0), dtype=torch.int64)
    for depth, row in enumerate(logits):
        best = picker.best(row[None], depth, path, 3)
        assert (best.chances[0].diff() <= 0).all(), "the best comes first"
        path = torch.cat((path, best.ids[:, :1]), dim=1)
    draft = Draft(path[0, :4], tuple(range(ROOT, 3)), "x", (0,) * 4)
    assert picker.rows(logits, draft)[0].tolist() == path[0].tolist()


def test_siblings_share_the_noise_of_their_position() -> None:
    """Guards trees: rows of one depth with equal logits choose alike, other depths differently, and the second best is
    what the target picks where the best is impossible."""
    rule = Sampling(temperature=1.0, seed=2)
    logits = torch.randn(1, 5000, generator=torch.Generator().manual_seed(6)).repeat(2, 1)
    picker, paths = Picker(rule, [1, 2], 5000, CPU), torch.tensor([[7], [8]])
    ids, chances = picker.best(logits, 1, paths, 4)
    assert ids[0].tolist() == ids[1].tolist()
    assert ids[0].tolist() != picker.best(logits, 2, paths, 4).ids[0].tolist()
    without = logits.scatter(1, ids[:, :1], -math.inf)
    assert picker.best(without, 1, paths, 1).ids.tolist() == ids[:, 1:2].tolist()
    assert ((chances > 0) & (chances < 1)).all()


def test_penalties_see_the_hypothetical_path_of_each_row() -> None:
    """Guards trees under penalties: a token on a row's own path is penalised there and nowhere else."""
    picker = Picker(Sampling(temperature=0.0, frequency_penalty=1.0), [0], 4, CPU)
    logits = torch.tensor([[0.05, 1.0, 0.9, -5.0]]).repeat(3, 1)
    best = picker.best(logits, 2, torch.tensor([[1, 3], [2, 3], [1, 2]]), 2)
    assert best.ids[:, 0].tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    "rule", [Sampling(temperature=0.0), Sampling(top_k=5, top_p=0.9), Sampling(presence_penalty=1)]
)
def test_values_that_are_not_numbers_are_chosen_from_without_failing(rule: Sampling) -> None:
    """Guards replies against a damaged drafter: there are tokens, of the vocabulary, and no chance that is one."""
    logits = torch.full((2, 50_000), math.nan)
    ids, chances = Picker(rule, [1], 50_000, CPU).best(logits, 0, torch.empty((2, 0), dtype=torch.int64), 3)
    assert ((ids >= 0) & (ids < 50_000)).all()
    assert {sureness(chance) for chance in chances.flatten().tolist()} == {SURE}


def test_sureness_has_a_class_for_every_chance() -> None:
    """Guards the classes: in order, the middle of each inside it, both ends included."""
    kinds = [sureness(chance / 1000) for chance in range(1001)]
    assert kinds == sorted(kinds)
    assert kinds[0] == SURE
    assert all(sureness(middle(kind)) == kind for kind in set(kinds))


def test_a_reduced_head_picks_among_its_tokens() -> None:
    """Guards the reduced head: ids are those of the vocabulary and the noise is keyed by them."""
    rule = Sampling(temperature=1.0, seed=4)
    logits = torch.randn(40, generator=torch.Generator().manual_seed(5))
    some = torch.tensor([2, 7, 30])
    masked = torch.full_like(logits, -math.inf)
    masked[some] = logits[some]
    picker = Picker(rule, [1], 40, CPU)
    nothing = torch.empty((1, 0), dtype=torch.int64)
    few, all_ = picker.best(logits[None, some], 0, nothing, 3, some), picker.best(masked[None], 0, nothing, 3)
    assert few.ids.tolist() == all_.ids.tolist()
    torch.testing.assert_close(few.chances, all_.chances)
    assert float(few.chances.sum()) == pytest.approx(1.0), "three tokens, and one of them it is"


@pytest.mark.parametrize(
    "rule", [Sampling(temperature=0.3), Sampling(temperature=1.0, top_k=2), Sampling(temperature=0.0)]
)
def test_as_many_choices_as_asked_for(rule: Sampling) -> None:
    """Guards large vocabularies of which few tokens are likely: a drafter counts on getting what it asked for."""
    logits = torch.zeros(2, 20_000)
    logits[:, 5], logits[:, 6] = 20.0, 19.0
    found = Picker(rule, [1], 20_000, CPU).best(logits, 0, torch.empty((2, 0), dtype=torch.int64), 6)
    assert found.ids.shape == found.chances.shape == (2, 6)
    assert {5, 6} == set(found.ids[:, :2].flatten().tolist())
    assert all(len(set(row)) == 6 for row in found.ids.tolist())


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1.0}, {"top_p": 0.0}, {"min_p": 1.0}, {"seed": -1}, {"repetition_penalty": 0.0}]
)
def test_impossible_sampling_is_refused(wrong: dict[str, float]) -> None:
    """Guards the bounds: each is refused in words before anything runs."""
    with pytest.raises(ValueError, match="must be"):
        Sampling(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.5])
def test_leaving_out_hopeless_tokens_changes_no_pick(temperature: float) -> None:
    """Guards the pruning of large vocabularies: over 3,000 picks each equals the race over all tokens."""
    size = 20_000
    logits = torch.randn(60, size, generator=torch.Generator().manual_seed(4)) * 4
    rule = Sampling(temperature=temperature, seed=3)
    picker = Picker(rule, [1], size, CPU)
    draft = Draft(torch.zeros(59, dtype=torch.int64), tuple(range(ROOT, 58)), "x", (0,) * 59)
    for start in range(50):
        picker.length = 1 + 60 * start
        picks, _ = picker.rows(logits.clone(), draft)
        race = logits / temperature + noise(3, range(picker.length, picker.length + 60), torch.arange(size)[None])
        assert picks.tolist() == race.argmax(-1).tolist()
