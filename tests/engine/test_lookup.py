"""The suffix automaton and the drafts made from it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localchat.engine.drafters import lookup
from localchat.engine.drafters.lookup import Automaton, Lookup, grades
from localchat.engine.governor import Timings
from localchat.engine.tree import ancestors
from localchat.engine.types import Pick, Verdict, Weighed
from tests.support.tiny import Generous, generous

PICK: Pick = None  # type: ignore[assignment]  # a copy asks nobody


def longest_repeat(text: list[int]) -> int:
    """Length of the longest suffix that also ends earlier, the slow way."""
    for size in range(len(text) - 1, 0, -1):
        if any(text[end - size : end] == text[-size:] for end in range(size, len(text))):
            return size
    return 0


@given(st.lists(st.integers(0, 3), max_size=40))
def test_longest_match_by_brute_force(text: list[int]) -> None:
    """Guards the automaton: the longest repeated suffix and a true earlier occurrence of each shorter match."""
    automaton = Automaton()
    for token in text:
        automaton.extend(token)
    found = automaton.matches(50)
    assert (found[0][0] if found else 0) == longest_repeat(text)
    for length, end in found:
        assert end < len(text) - 1
        assert text[end - length + 1 : end + 1] == text[len(text) - length :]


def test_the_newest_occurrence_is_copied() -> None:
    """Guards recency: of two continuations of the same text the later one is proposed."""
    drafter = Lookup()
    drafter.start([1, 2, 3, 9, 1, 2, 4, 9, 1, 2], None)
    room = generous(3)
    room.open(10)
    draft = drafter.propose([], PICK, room)
    assert draft.ids is not None
    assert draft.ids.tolist()[:2] == [4, 9]


def test_a_copy_past_the_end_feeds_itself() -> None:
    """Guards periodic text: a loop is continued as a loop, not cut at the end of the text."""
    automaton = Automaton()
    for token in [5, 6, 7, 5, 6, 7, 5, 6, 7]:
        automaton.extend(token)
    _, end = automaton.matches(1)[0]
    assert automaton.after(end, 8) == [5, 6, 7, 5, 6, 7, 5, 6]


def test_earlier_replies_are_remembered_until_forgotten() -> None:
    """Guards memory across replies, its end, and that no draft runs from one text into the next."""
    drafter = Lookup()
    room = generous(6)
    drafter.start([1, 2, 3, 4, 5], None)
    drafter.start([8, 1, 2], None)
    room.open(10)
    draft = drafter.propose([8, 1, 2], PICK, room)
    assert draft.ids is not None
    assert draft.ids.tolist()[:3] == [3, 4, 5]
    assert -1 not in draft.ids.tolist()
    drafter.forget()
    drafter.start([8, 1, 2], None)
    assert len(drafter.propose([8, 1, 2], PICK, room)) == 0


def test_a_second_turn_reads_only_what_is_new() -> None:
    """Guards the cost of long chats: a prompt that goes on where the last reply stopped is not read again."""
    drafter = Lookup()
    drafter.start([1, 2, 3], None)
    size = len(drafter._memory.text)
    drafter.start([1, 2, 3, 4], None)
    assert len(drafter._memory.text) == size + 1
    drafter.start([1, 9], None)
    assert len(drafter._memory.text) == size + 4, "an edited chat is another text"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards resident memory over many replies: old texts go, the one being written stays."""
    monkeypatch.setattr(lookup, "_CAPACITY", 500)
    drafter = Lookup()
    source = random.Random(1)
    for _ in range(60):
        prompt = [source.randrange(50) for _ in range(90)]
        drafter.start(prompt, None)
        assert len(drafter._memory.text) <= 500
        assert list(drafter._memory.text)[-90:] == prompt


class Everything(Generous):
    """Keeps every node, however many."""

    def weigh(self, source: str, parents: Sequence[int], classes: Sequence[int], steps: int) -> Weighed:
        return Weighed(tuple(range(len(parents))), deeper=False)


def test_several_matches_become_one_trie() -> None:
    """Guards merged matches: agreeing parts are drafted once, each differing one is a branch where it differs."""
    drafter, room = Lookup(), Everything(Timings(), 6)
    # After 1 2 3 came 4 5 6 0 3, after 2 3 last came 4 7 9 0, after 3 before that 8 9 0 2.
    drafter.start([1, 2, 3, 4, 5, 6, 0, 3, 8, 9, 0, 2, 3, 4, 7, 9, 0, 5, 1, 2, 3], None)
    room.open(31)
    draft = drafter.propose([], PICK, room)
    assert draft.ids is not None
    paths = [tuple(int(draft.ids[at]) for at in ancestors(draft.parents, node)) for node in range(len(draft))]
    assert paths[:5] == [(4, 5, 6, 0, 3)[:size] for size in range(1, 6)], "the longest match comes first"
    assert paths[5:8] == [(4, 7), (4, 7, 9), (4, 7, 9, 0)], "what is shared is there once"
    assert paths[8:] == [(8, 9, 0, 2)[:size] for size in range(1, 5)]
    assert draft.classes[5] == 16 + draft.classes[1], "a branch is judged by what it stands beside"
    assert draft.classes[8] == 16 + draft.classes[0]


def test_where_only_chains_can_be_verified_the_best_match_is_copied_alone() -> None:
    """Guards exact mode."""
    drafter, room = Lookup(), generous(fixed_width=16)
    drafter.start([1, 2, 3, 4, 5, 6, 0, 3, 8, 9, 0, 2, 3, 4, 7, 9, 0, 5, 1, 2, 3], None)
    room.open(31)
    draft = drafter.propose([], PICK, room)
    assert len(draft) > 3
    assert draft.is_chain


def test_a_copy_is_followed_into_its_branch() -> None:
    """Guards what is remembered of an accepted branch: the copy goes on where the branch was taken from."""
    drafter, room = Lookup(), generous(32)
    text = [1, 2, 3, 4, 5, 6, 0, 2, 3, 7, 8, 9, 10, 11, 12, 0, 5, 1, 2, 3]
    drafter.start(text, None)
    room.open(31)
    draft = drafter.propose([], PICK, room)
    assert draft.ids is not None
    seven = draft.ids.tolist().index(7)
    drafter.learn([*text, 7, 99], Verdict((seven,), (7, 99)), None)
    draft = drafter.propose([], PICK, room)
    assert draft.ids is not None
    assert draft.ids.tolist()[:3] == [9, 10, 11]


def test_grades_grow_with_the_match() -> None:
    """Guards classes: each accepted token makes the match longer, and the last class holds the rest."""
    assert grades(1, 8) == [1, 2, 2, 3, 3, 3, 3, 4]
    assert grades(200, 2) == [7, 7]


def test_a_copy_goes_on_after_an_edit() -> None:
    """Guards edited copies (renamed code): after a correction the source is followed from where the copy stood."""
    drafter, room = Lookup(), generous(9)
    drafter.start([10, 11, 12, 1, 13, 14, 15, 16, 50, 51, 10, 11], None)
    room.open(8)
    draft = drafter.propose([], PICK, room)
    assert draft.ids is not None
    assert draft.ids.tolist()[:5] == [12, 1, 13, 14, 15]
    tokens = [10, 11, 12, 1, 13, 14, 15, 16, 50, 51, 10, 11, 12, 2]
    drafter.learn(tokens, Verdict((0,), (12, 2)), None)
    draft = drafter.propose(tokens, PICK, room)
    assert draft.ids is not None
    assert draft.ids.tolist()[:4] == [13, 14, 15, 16]
