"""Prompt lookup: what followed the longest earlier occurrence of the last tokens, in prompt, chat or earlier replies.

The text so far is a suffix automaton (Blumer et al. 1985), extended token by token in amortised constant time. The
suffix link of its last state is the longest suffix that occurred before; the next links are shorter suffixes, whose
continuations may differ and become branches. Ideas: prompt lookup decoding (Saxena 2023), SAM decoding
(arXiv:2411.10666).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from localchat.engine.types import NO_DRAFT, ROOT, Draft, Needs, Pick, Room, Tapped, Verdict

if TYPE_CHECKING:
    from localchat.engine.target import Target

_SEPARATOR = -1
"""Between texts; it never equals a token, and no draft runs across it."""
_CAPACITY = 1 << 15
"""Tokens remembered. When full, the older half is forgotten; about 300 bytes a token."""
_SIDE = 8
"""Class of a branch's first token; classes 1 to 7 are match lengths 1, 2-3, 4-7, ... 64 and more."""
_TRIED = 8
"""Shorter suffixes looked at for a branch."""


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

    def matches(self) -> list[tuple[int, int]]:
        """(length, end) of earlier occurrences of ever shorter suffixes, the longest first."""
        found: list[tuple[int, int]] = []
        state = self._link[self._last]
        while state > 0 and len(found) < _TRIED:
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


def grades(match: int, count: int) -> list[int]:
    """Classes of the tokens of a copy: each accepted token makes the match one longer."""
    return [min((match + offset).bit_length(), _SIDE - 1) for offset in range(count)]


class Lookup:
    """Drafts by copying; remembers the replies of this process until told to forget."""

    needs = Needs()
    priors: Mapping[str, tuple[float, ...]] = {"lookup": (0.1, 0.2, 0.4, 0.6, 0.75, 0.85, 0.9, 0.95, 0.3)}

    def __init__(self, draft_model: Target | None = None) -> None:
        del draft_model
        self._memory = Automaton()
        self._begin = 0

    def forget(self) -> None:
        """Remember nothing but the texts to come."""
        self._memory, self._begin = Automaton(), 0

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """Read the prompt: only its end if it goes on where the last reply stopped."""
        known = self._memory.text[self._begin :]
        if len(known) > len(tokens) or known != array("i", tokens[: len(known)]):
            self._memory.extend(_SEPARATOR)
            self._begin = len(self._memory.text)
        if len(self._memory.text) + len(tokens) > max(_CAPACITY, 2 * len(tokens)):
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

    def value(self, room: Room) -> float:
        """Expected tokens per second if this round copies."""
        matches = self._memory.matches()
        return room.value("lookup", grades(matches[0][0], room.limit)) if matches else 0.0

    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """Copy what followed the longest match; a differing continuation of a shorter one may become a branch."""
        matches = self._memory.matches()
        if not matches:
            return NO_DRAFT
        length, end = matches[0]
        copy = self._memory.after(end, room.limit)
        classes = grades(length, len(copy))
        depth = room.depth("lookup", classes)
        if not depth:
            return NO_DRAFT
        copy, classes = copy[:depth], classes[:depth]
        side, side_classes = self._branch(matches[1:], copy, classes, room)
        parents = [*range(ROOT, depth - 1), *(ROOT if not i else depth + i - 1 for i in range(len(side)))]
        return Draft(torch.tensor(copy + side), tuple(parents), "lookup", (*classes, *side_classes))

    def _branch(
        self, matches: Sequence[tuple[int, int]], copy: Sequence[int], classes: Sequence[int], room: Room
    ) -> tuple[list[int], list[int]]:
        for length, end in matches:
            side = self._memory.after(end, 4)
            if side and side[0] != copy[0]:
                kinds = [_SIDE, *grades(length + 1, len(side) - 1)]
                count = room.branch("lookup", classes, kinds)
                return side[:count], kinds[:count]
        return [], []

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """Read what was emitted."""
        self._follow(tokens)
