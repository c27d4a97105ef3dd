"""Prompt lookup: what followed the longest earlier occurrence of the last tokens, in prompt, chat or earlier replies.

The text so far is a suffix automaton (Blumer et al. 1985), extended token by token in amortised constant time. The
suffix link of its last state is the longest suffix that occurred before; the next links are shorter suffixes, whose
continuations may differ and become branches. Ideas: prompt lookup decoding (Saxena 2023), SAM decoding
(arXiv:2411.10666).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import torch

from localchat.engine.types import NO_DRAFT, ROOT, Draft, Needs, Pick, Room, Tapped, Verdict

if TYPE_CHECKING:
    from localchat.engine.target import Target

_SEPARATOR = -1
"""Between texts; it never equals a token, and no draft runs across it."""
_CAPACITY = 1 << 15
"""Tokens remembered beside the text being written. When full, the older half is forgotten."""
_SIDE = 8
"""Class of a branch's first token; classes 1 to 7 are match lengths 1, 2-3, 4-7, ... 64 and more."""
_ALIGNED = 9
"""Classes 9 to 16: a copy that goes on after an edit, by how many tokens of it were right so far."""

_EDITED = (0.05, 0.1, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9)
_TRIED, _BRANCH = 8, 4
"""Shorter suffixes looked at for a branch, and its most tokens."""


class Automaton:
    """Suffix automaton over one growing text.

    Most states have a single way on, kept in two arrays; only the others own a dictionary. That is a third of the
    memory of one dictionary per state.
    """

    def __init__(self) -> None:
        self.text = array("i")
        self._length, self._link, self._end = array("i", [0]), array("i", [-1]), array("i", [-1])
        self._token, self._to = array("i", [-2]), array("i", [-1])
        self._more: dict[int, dict[int, int]] = {}
        self._last = 0

    def _state(self, length: int, link: int, end: int) -> int:
        self._length.append(length)
        self._link.append(link)
        self._end.append(end)
        self._token.append(-2)
        self._to.append(-1)
        return len(self._length) - 1

    def _step(self, state: int, token: int) -> int:
        """Where `token` leads, or -1."""
        if self._token[state] == token:
            return self._to[state]
        more = self._more.get(state)
        return -1 if more is None else more.get(token, -1)

    def _lead(self, state: int, token: int, to: int) -> None:
        if self._token[state] in (-2, token):
            self._token[state], self._to[state] = token, to
        else:
            self._more.setdefault(state, {})[token] = to

    def _split(self, state: int, token: int, at: int) -> int:
        """Clone `state` for the shorter suffixes that reach it through `at`."""
        clone = self._state(self._length[at] + 1, self._link[state], self._end[state])
        self._token[clone], self._to[clone] = self._token[state], self._to[state]
        if state in self._more:
            self._more[clone] = self._more[state].copy()
        while at != -1 and self._step(at, token) == state:
            self._lead(at, token, clone)
            at = self._link[at]
        self._link[state] = clone
        return clone

    def extend(self, token: int) -> None:
        """Append one token."""
        # The suffix found last time has now occurred here: the newest occurrence predicts best.
        self._end[self._link[self._last]] = len(self.text) - 1
        new = self._state(self._length[self._last] + 1, 0, len(self.text))
        self.text.append(token)
        at = self._last
        while at != -1 and self._step(at, token) == -1:
            self._lead(at, token, new)
            at = self._link[at]
        if at != -1:
            known = self._step(at, token)
            exact = self._length[at] + 1 == self._length[known]
            self._link[new] = known if exact else self._split(known, token, at)
        self._last = new

    def matches(self, most: int) -> list[tuple[int, int]]:
        """(length, end) of earlier occurrences of ever shorter suffixes, the longest first."""
        found: list[tuple[int, int]] = []
        state = self._link[self._last]
        while state > 0 and len(found) < most:
            found.append((self._length[state], self._end[state]))
            state = self._link[state]
        return found

    def after(self, end: int, count: int) -> list[int]:
        """Up to `count` tokens that followed position `end`; past the end of the text the copy feeds itself."""
        copied: list[int] = []
        for at in range(end + 1, end + 1 + count):
            token = self.text[at] if at < len(self.text) else copied[at - len(self.text)]
            if token == _SEPARATOR:
                break
            copied.append(token)
        return copied


def grades(match: int, count: int, first: int = 0) -> list[int]:
    """Classes of the tokens of a copy, from `first` on: each accepted token makes the match one longer."""
    return [first + min((match + offset).bit_length(), _SIDE - 1) for offset in range(count)]


class Copy(NamedTuple):
    """A stretch of text that may come again."""

    end: int
    """Position after which it begins."""
    tokens: list[int]
    classes: tuple[int, ...]
    trust: int
    """Tokens before it that agreed."""


class Lookup:
    """Drafts by copying; remembers the replies of this process until told to forget."""

    needs = Needs()
    priors: Mapping[str, tuple[float, ...]] = {"lookup": (0.1, 0.2, 0.4, 0.6, 0.75, 0.85, 0.9, 0.95, 0.3, *_EDITED)}

    def __init__(self, draft_model: Target | None = None) -> None:
        del draft_model
        self._memory = Automaton()
        self._begin = 0
        self._source: int | None = None
        self._run = self._trust = 0
        self._copied: list[int] = []

    def forget(self) -> None:
        """Remember nothing but the texts to come."""
        self._memory, self._begin = Automaton(), 0
        self._source, self._copied = None, []

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """Read the prompt: only its end if it goes on where the last reply stopped."""
        self._source, self._copied = None, []
        known = self._memory.text[self._begin :]
        if len(known) > len(tokens) or known != array("i", tokens[: len(known)]):
            self._memory.extend(_SEPARATOR)
            self._begin = len(self._memory.text)
        if self._begin > _CAPACITY // 2 and self._begin + len(tokens) > _CAPACITY:
            self._shrink()
        self._follow(tokens)

    def _shrink(self) -> None:
        """Forget the older half, except the text being written."""
        text = self._memory.text
        current = text[self._begin :]
        kept = text[max(0, self._begin - _CAPACITY // 2) : self._begin]
        self._memory = Automaton()
        for token in kept:
            self._memory.extend(token)
        self._begin = len(kept)
        for token in current:
            self._memory.extend(token)

    def _follow(self, tokens: Sequence[int]) -> None:
        for index in range(len(self._memory.text) - self._begin, len(tokens)):
            self._memory.extend(tokens[index])

    def _copy(self, trust: int, end: int, count: int, first: int = 0) -> Copy:
        tokens = self._memory.after(end, count)
        return Copy(end, tokens, tuple(grades(trust, len(tokens), first)), trust)

    def _best(self, room: Room) -> list[Copy]:
        """What followed the longest match, and the last copy gone on with after an edit: the one worth more first."""
        copies = [self._copy(*longest, room.limit) for longest in self._memory.matches(1)]
        if self._source is not None:
            copies.append(self._copy(self._run, self._source, room.limit, _ALIGNED))
        copies = [copy for copy in copies if copy.tokens]
        return sorted(copies, key=lambda copy: -room.value("lookup", copy.classes))

    def value(self, room: Room) -> float:
        """Expected tokens per second if this round copies."""
        best = self._best(room)
        return room.value("lookup", best[0].classes) if best else 0.0

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """Copy what is worth most; a differing continuation may become a branch."""
        best = self._best(room)
        depth = room.depth("lookup", best[0].classes) if best else 0
        if not depth:
            return NO_DRAFT
        main, classes = best[0].tokens[:depth], best[0].classes[:depth]
        side, kinds, begin = self._branch(best[1:], main, classes, room)
        self._trust = best[0].trust
        self._copied = [best[0].end + 1 + offset for offset in range(depth)]
        self._copied += [begin + offset for offset in range(len(side))]
        parents = [*range(ROOT, depth - 1), *(depth + offset - 1 if offset else ROOT for offset in range(len(side)))]
        return Draft(torch.tensor(main + side), tuple(parents), "lookup", (*classes, *kinds))

    def _branch(
        self, others: list[Copy], main: Sequence[int], classes: Sequence[int], room: Room
    ) -> tuple[list[int], list[int], int]:
        """Tokens, classes and place of a continuation that begins otherwise, as far as it is worth its rows."""
        shorter = (self._copy(*match, _BRANCH) for match in self._memory.matches(_TRIED)[1:])
        for copy in chain(others, shorter):
            if copy.tokens and copy.tokens[0] != main[0]:
                kinds = [_SIDE, *copy.classes[1:_BRANCH]]
                count = room.branch("lookup", classes, kinds)
                return copy.tokens[:count], kinds[:count], copy.end + 1
        return [], [], 0

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """Read what was emitted, and remember where in its source the copy stands."""
        self._follow(tokens)
        if self._copied:
            # The source's token in the place of the correction or bonus counts as passed.
            self._source = self._copied[verdict.path[-1]] + 1 if verdict.path else self._copied[0]
            self._run = len(verdict.path) + self._trust
        elif self._source is not None:
            self._source += len(verdict.tokens)
        if self._source is not None and self._source + 1 >= len(self._memory.text) - len(verdict.tokens):
            self._source = None
        self._copied = []
