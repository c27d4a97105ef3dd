"""Verification and tree arithmetic on hand-made drafts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from localchat.engine.governor import tested as put_to_test
from localchat.engine.tree import ancestors, depths, visible
from localchat.engine.types import ROOT, Draft, Verdict
from localchat.engine.verify import verify

CASES = {
    "empty": ([], [], [7], (), (7,)),
    "all accepted": ([1, 2], [ROOT, 0], [1, 2, 3], (0, 1), (1, 2, 3)),
    "first rejected": ([1, 2], [ROOT, 0], [9, 2, 3], (), (9,)),
    "second rejected": ([1, 2], [ROOT, 0], [1, 9, 3], (0,), (1, 9)),
    "second sibling": ([1, 2, 5], [ROOT, ROOT, 1], [2, 8, 5, 6], (1, 2), (2, 5, 6)),
    "same token deeper": ([4, 4, 4], [ROOT, 0, ROOT], [4, 4, 9, 9], (0, 1), (4, 4, 9)),
    "child of a rejected node": ([1, 2], [ROOT, 0], [2, 2, 2], (), (2,)),
}


@pytest.mark.parametrize("case", CASES)
def test_walk(case: str) -> None:
    """Guards the rule on every shape of outcome."""
    tokens, parents, picks, path, emitted = CASES[case]
    assert verify(tokens, parents, picks) == Verdict(path, emitted)


@st.composite
def drafted(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """A random tree over few tokens, and random picks."""
    size = draw(st.integers(0, 12))
    parents = [draw(st.integers(ROOT, node - 1)) for node in range(size)]
    token = st.integers(0, 2)
    return [draw(token) for _ in range(size)], parents, [draw(token) for _ in range(size + 1)]


@given(drafted())
def test_a_verdict_is_what_the_target_says(case: tuple[list[int], list[int], list[int]]) -> None:
    """Guards losslessness by property: the path is a path from the root, and each emitted token is the pick there."""
    tokens, parents, picks = case
    verdict = verify(tokens, parents, picks)
    at = ROOT
    for node, token in zip(verdict.path, verdict.tokens, strict=False):
        assert parents[node] == at
        assert token == tokens[node] == picks[at + 1]
        at = node
    assert verdict.tokens[-1] == picks[at + 1]
    assert len(put_to_test(parents, verdict.path)) >= len(verdict.path)


@given(drafted())
def test_rows_see_their_ancestors_and_nothing_else(case: tuple[list[int], list[int], list[int]]) -> None:
    """Guards the tree mask."""
    _, parents, _ = case
    for node, seen in enumerate(visible(parents)):
        assert {row for row, is_seen in enumerate(seen) if is_seen} == set(ancestors(parents, node))


def test_depths() -> None:
    """Guards positions: by depth, not by row."""
    assert depths([ROOT, 0, ROOT, 2, 3]) == [1, 2, 1, 2, 3]


def test_malformed_values_are_refused() -> None:
    """Guards the invariants of the vocabulary."""
    with pytest.raises(ValueError, match="one parent per token"):
        Draft(torch.tensor([1, 2]), (ROOT,), "x", (0,))
    with pytest.raises(ValueError, match="parent before its child"):
        Draft(torch.tensor([1]), (0,), "x", (0,))
    with pytest.raises(ValueError, match="one class per token"):
        Draft(torch.tensor([1]), (ROOT,), "x", ())
    with pytest.raises(ValueError, match="exactly one more"):
        Verdict((0,), (1,))


def test_what_follows_a_rejected_node_was_never_asked() -> None:
    """Guards the governor's statistics: of siblings one at most is right, and all of them were put to the test."""
    parents = [ROOT, ROOT, ROOT, 1, 0]
    assert put_to_test(parents, (1,)) == [(0, False), (1, True), (2, False), (3, False)]
