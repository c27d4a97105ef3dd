"""Heads are read the right pairs, and only once: their guesses equal those of a run that computes everything anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from localchat.engine import cache
from localchat.engine.drafters import Parts, build
from localchat.engine.heads import AnyHead, Medusa
from localchat.engine.sampling import Picker
from localchat.engine.target import Target
from localchat.engine.types import Choices, Drafter, Sampling
from localchat.train.teacher import Teacher
from localchat.train.unroll import guesses
from tests.support.tiny import plain, tiny, write
from tests.support.tiny_heads import from_scratch, tiny_head, whimsical

STATE_KINDS = ("eagle", "eagle3", "mtp", "mtp2")
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]


@dataclass(frozen=True, slots=True)
class Guess:
    """What a head said, and after what."""

    length: int
    """Tokens of the text."""
    path: tuple[int, ...]
    logits: Tensor


class Bench:
    """A target and a drafter that write reply after reply, every guess noted."""

    def __init__(self, kind: str, monkeypatch: pytest.MonkeyPatch, window: int = 64, context: int = 256) -> None:
        self.model: Any = tiny("gemma3")
        self.head: AnyHead = tiny_head(kind, self.model, window=window)
        self.target = Target(self.model, context)
        self.drafter: Drafter = build(self.head.config.kind, Parts(self.target, head=self.head))
        self.guesses: list[Guess] = []
        honest = Picker.best

        def noting(
            picker: Picker, logits: Tensor, depth: int, paths: Tensor, count: int, ids: Tensor | None = None
        ) -> Choices:
            rows = paths.tolist() if paths.shape[1] else [()] * len(logits)
            for row, path in zip(logits, rows, strict=True):
                self.guesses.append(Guess(picker.length, tuple(path), row.clone()))
            return honest(picker, logits, depth, paths, count, ids)

        monkeypatch.setattr(Picker, "best", noting)

    def write(self, prompt: Sequence[int], count: int = 24, rounds: int = 0) -> list[int]:
        """The whole text after one more reply."""
        self.guesses = []
        reply, _ = write(
            self.target, self.drafter, prompt, Sampling(temperature=0.9), count, whimsical(), rounds=rounds
        )
        return [*prompt, *reply]

    def worst(self, text: Sequence[int], left_out: Sequence[int] = (), first: int = 0) -> float:
        """Largest difference between what was said and what a run from scratch says.

        Args:
            text: the reply and all before it.
            left_out: positions of pairs that could not be known.
            first: position of the first pair that is known.
        """
        fresh, head = Target(self.model, 1024), self.head
        assert not isinstance(head, Medusa)
        fresh.tap(head.config.taps, 1024)
        list(fresh.prefill(text))
        tapped = fresh.prompt_tapped()
        assert tapped is not None
        worst = 0.0
        for guess in self.guesses:
            at = [position for position in range(first, guess.length - 1) if position not in left_out]
            states, tokens = [layer[at] for layer in tapped.layers], [text[position + 1] for position in at]
            expected = from_scratch(head, states, tokens, guess.path)
            worst = max(worst, float((guess.logits - expected).abs().max()))
        return worst

    def worst_of_some(self, text: Sequence[int]) -> float:
        """The same for every eighth guess."""
        self.guesses = self.guesses[::8]
        return self.worst(text)


@pytest.mark.parametrize("kind", STATE_KINDS)
def test_guesses_are_those_of_a_run_from_scratch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards pairs, positions, masks and rows of the draft in the cache: over trees of every shape, a next turn, the
    same turn again, and a reply cut off in the middle of its rounds."""
    bench = Bench(kind, monkeypatch)
    first = bench.write(PROMPT)
    assert {len(guess.path) for guess in bench.guesses} >= {0, 1, 2}
    assert bench.worst(first) < 1e-4
    second = bench.write([*first, 7, 8, 9])
    assert bench.worst(second) < 1e-4
    again = bench.write([*first, 7, 8, 9], rounds=3)
    # A second step's first row lacks what the first one guessed before it.
    assert bench.worst(again) < 1e-4 or kind == "mtp2"
    assert bench.guesses[0].length > len(first) + 3, "the state before the prompt's last token was not computed again"
    third = bench.write([*again, 11, 12])
    assert bench.worst(third) < 1e-4 or kind == "mtp2"


@pytest.mark.parametrize("kind", ["eagle3", "mtp"])
def test_an_edited_turn_leaves_one_pair_out(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the pairs kept after an edit: a pair of the state before the edit and the old token would be a lie, and
    beginning anew would throw the text before the edit away."""
    bench = Bench(kind, monkeypatch)
    text = bench.write([*bench.write(PROMPT), 7, 8, 9, 10, 11])
    edit = len(PROMPT) + 10
    assert text[edit] != 60
    edited = bench.write([*text[:edit], 60, 13, 12, 13])
    assert bench.guesses[0].length == edit + 4
    assert bench.worst(edited, left_out=[edit - 1]) < 1e-4
    assert bench.worst([*bench.write([*edited, 5, 6])], left_out=[edit - 1]) < 1e-4


def test_states_that_are_missing_begin_a_new_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards a prompt whose prefill was broken off, and a reply that another drafter wrote: the states of what the
    target kept were never seen, and pairs from before must not be taken for their neighbours."""
    bench = Bench("eagle", monkeypatch)
    text = [*bench.write(PROMPT), *range(1, 31)]
    prefill = bench.target.prefill(text[:-12])
    list(prefill)
    after = bench.write(text)
    assert bench.guesses[0].length == len(text)
    assert bench.worst(after, first=len(text) - 12) < 1e-4
    assert bench.worst(after) > 1e-2, "the missing states make no difference, so nothing was tested"
    mine = bench.drafter
    bench.drafter = plain()
    text = [*bench.write([*after, 3, 2, 1]), 4, 5, 6]
    bench.drafter = mine
    last = bench.write(text)
    assert bench.worst(last, first=len(text) - 4) < 1e-4


@pytest.mark.parametrize("kind", ["eagle", "mtp"])
def test_a_text_longer_than_the_window(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the ring: a prompt of several windows, a reply that turns it twice, and a turn after that; no row may see
    what a sliding window hides, nor lose what it shows."""
    bench = Bench(kind, monkeypatch, window=16)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "cache_rows", lambda _context, window: window + 48)
        bench.drafter = build(bench.head.config.kind, Parts(bench.target, head=bench.head))
    text = bench.write([(7 * at) % 60 + 1 for at in range(60)], count=140)
    assert bench.worst_of_some(text) < 1e-4
    text = bench.write([*text, *range(1, 30)], count=12)
    assert bench.worst_of_some(text) < 1e-4


@pytest.mark.parametrize("kind", ["eagle", "eagle3", "mtp"])
def test_what_is_trained_is_what_drafts(kind: str) -> None:
    """Guards the trainer's idea of a pair, a position and a chain of guesses: were it another one than the drafter's,
    a head would do well in training and badly in use."""
    model, text = tiny("gemma3"), [*PROMPT, 7, 9, 3, 2]
    head = tiny_head(kind, model)
    assert not isinstance(head, Medusa)
    lesson = Teacher(model, head.config.taps, head.ids).exam(torch.tensor([text]))
    for depth, guess in enumerate(guesses(head, lesson, 3)):
        logits, choice = guess.logits, guess.of(lesson.choice)
        for place in range(logits.shape[1]):
            states, begin = [layer[0, : place + 1] for layer in lesson.tapped], place + 2
            expected = from_scratch(head, states, text[1:begin], text[begin : begin + depth])
            assert float((logits[0, place] - expected).abs().max()) < 1e-4
            chosen = int(model(torch.tensor([text])).logits[0, begin + depth - 1].argmax())
            known = range(61) if head.ids is None else head.ids.tolist()
            assert int(choice[0, place]) == (known.index(chosen) if chosen in known else -1)
