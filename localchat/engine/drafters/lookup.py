"""Prompt lookup: what followed the longest earlier occurrence of the last tokens, in prompt, chat or earlier replies.

The text so far is a suffix automaton (Blumer et al. 1985), extended token by token in amortised constant time. The
suffix link of its last state is the longest suffix that occurred before; the next links are shorter suffixes, whose
continuations are merged with the longest one's into a trie. Ideas: prompt lookup decoding (Saxena 2023), SAM decoding
(arXiv:2411.10666).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from localchat.engine.drafters import Parts
from localchat.engine.tree import pruned
from localchat.engine.types import NO_DRAFT, ROOT, Draft, Needs, Pick, Room, Tapped, Verdict

_SEPARATOR = -1
"""Between texts; it never equals a token, and no draft runs across it."""
_CAPACITY = 1 << 15
"""Tokens remembered beside the text being written. When full, the older half is forgotten."""
_MATCHED = (0.1, 0.2, 0.4, 0.6, 0.75, 0.85, 0.9, 0.95)
"""Acceptance to expect after a match; classes 1 to 7 are match lengths 1, 2-3, 4-7, ... 64 and more."""
_EDITED = (0.05, 0.1, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9)
"""The same of a copy that goes on after an edit, by how many tokens of it were right so far."""
_ALIGNED, _SIDE = 8, 16
"""First class of those, and of the first token of a branch, by the class of what it branches from."""
_SECOND = 0.25
"""How often a branch is right where what it branches from is wrong."""
_TRIED, _BRANCH = 8, 4
"""Shorter suffixes whose continuations are merged, and their most tokens."""


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
        copied = self.text[end + 1 : end + 1 + count].tolist()
        if _SEPARATOR in copied:
            return copied[: copied.index(_SEPARATOR)]
        return (copied * (count // len(copied) + 1))[:count] if copied else []


def grades(match: int, count: int, first: int = 0) -> list[int]:
    """Classes of the tokens of a copy, from `first` on: each accepted token makes the match one longer."""
    return [first + min((match + offset).bit_length(), _ALIGNED - 1) for offset in range(count)]


class Copy(NamedTuple):
    """A stretch of text that may come again."""

    end: int
    """Position after which it begins."""
    tokens: list[int]
    classes: tuple[int, ...]
    trust: int
    """Tokens before it that agreed."""


class Place(NamedTuple):
    """Where a drafted token was copied from."""

    at: int
    trust: int
    """See Copy."""


class Trie:
    """Copies merged, the most trusted first: where they agree they share nodes, where they differ they branch."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.classes: list[int] = []
        self.places: list[Place] = []
        self._children: dict[tuple[int, int], int] = {}
        self._rivals: dict[int, int] = {}

    def add(self, copy: Copy, most: int) -> None:
        """Merge the first `most` tokens of one more copy."""
        at = ROOT
        for offset, (token, kind) in enumerate(zip(copy.tokens[:most], copy.classes[:most], strict=True)):
            node = self._children.setdefault((at, token), len(self.tokens))
            if node == len(self.tokens):
                rival = self._rivals.setdefault(at, node)
                self.tokens.append(token)
                self.parents.append(at)
                self.classes.append(kind if rival == node else _SIDE + self.classes[rival])
                self.places.append(Place(copy.end + 1 + offset, copy.trust))
            at = node


class Lookup:
    """Drafts by copying; remembers the replies of this process until told to forget."""

    needs = Needs()
    priors: Mapping[str, tuple[float, ...]] = {
        "lookup": (*_MATCHED, *_EDITED, *(_SECOND * (1 - rate) for rate in (*_MATCHED, *_EDITED)))
    }

    def __init__(self, parts: Parts | None = None) -> None:
        del parts
        self._memory = Automaton()
        self._begin = 0
        self._source: int | None = None
        self._run = 0
        self._copied: list[Place] = []

    @property
    def cache_bytes(self) -> int:
        """It has no cache."""
        return 0

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
        return sorted(copies, key=lambda copy: -self._worth(copy, room)) if len(copies) > 1 else copies

    @staticmethod
    def _worth(copy: Copy, room: Room) -> float:
        return room.value("lookup", range(ROOT, len(copy.tokens) - 1), copy.classes, 0)

    def value(self, room: Room) -> float:
        """Expected tokens per second if this round copies."""
        return max((self._worth(copy, room) for copy in self._best(room)), default=0.0)

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """Copy what is worth most, and beside it what else may follow."""
        copies = self._best(room)
        if not copies:
            return NO_DRAFT
        keep = room.weigh("lookup", range(ROOT, len(copies[0].tokens) - 1), copies[0].classes, 0).keep
        if not keep:
            return NO_DRAFT
        trie = Trie()
        trie.add(copies[0], len(keep))
        if room.branches:
            for copy in (*copies[1:], *(self._copy(*match, _BRANCH) for match in self._memory.matches(_TRIED)[1:])):
                trie.add(copy, max(len(keep), _BRANCH))
            keep = room.weigh("lookup", trie.parents, trie.classes, 0).keep
        self._copied = [trie.places[node] for node in keep]
        ids = torch.tensor([trie.tokens[node] for node in keep])
        return Draft(ids, pruned(trie.parents, keep), "lookup", tuple(trie.classes[node] for node in keep))

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """Read what was emitted, and remember where in its source the copy stands."""
        self._follow(tokens)
        if self._copied:
            # The source's token in the place of the correction or bonus counts as passed.
            last = self._copied[verdict.path[-1] if verdict.path else 0]
            self._source = last.at + bool(verdict.path)
            self._run = len(verdict.path) + last.trust
        elif self._source is not None:
            self._source += len(verdict.tokens)
        if self._source is not None and self._source + 1 >= len(self._memory.text) - len(verdict.tokens):
            self._source = None
        self._copied = []
