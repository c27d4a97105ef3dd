"""How a network that drafts token by token makes a tree: level by level, the likeliest nodes each time.

One level is one forward over the few nodes of the last one that are worth going on from; each gets its likeliest tokens
as children. The governor says after each level whether another one pays, and at last which nodes are worth verifying.
Idea: EAGLE-2's dynamic trees (arXiv:2406.16858), with measured acceptance in the place of the network's own confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

from localchat.engine.sureness import sureness
from localchat.engine.traffic import settle, upload
from localchat.engine.types import NO_DRAFT, ROOT, Choices, Draft, Pick, Room

BEAM = 4
"""Most nodes of a level that are gone on from."""
CHILDREN = 3
"""Tokens that may follow each."""
LIKELY = 0.1
"""A path beside the likeliest one must have this chance, by the network's own word, to be gone on from."""
_CATCH_UP = 32
"""More than this must first be likely to pay for being read."""


class Network(Protocol):
    """A network that says what may follow a text, and what may follow that."""

    @property
    def head_ids(self) -> Tensor | None:
        """Token id of each logit, ascending; None: all tokens."""
        ...

    @property
    def ends(self) -> frozenset[int]:
        """Ids after which nothing is worth drafting."""
        ...

    def root(self, tokens: Sequence[int]) -> Tensor:
        """Logits [1, n] of what follows `tokens`; one forward."""
        ...

    def level(self, ids: Tensor, above: Sequence[int]) -> Tensor:
        """Logits [rows, n] of what follows new rows; one forward.

        Args:
            ids: int64 [rows], maybe still on the device.
            above: the row that each new one follows, counted over all levels of this draft, or ROOT.
        """
        ...


@dataclass(frozen=True, slots=True)
class Grown:
    """A draft, and where the network has its nodes."""

    draft: Draft
    rows: tuple[int, ...]
    """Per node its row in the network; -1 for one that nothing was asked after."""

    def kept(self, path: Sequence[int]) -> list[int]:
        """Rows of an accepted path: its last node may have none, and there are none if another's draft was verified."""
        return [self.rows[node] for node in path if self.rows[node] >= 0] if self.draft else []


NOTHING = Grown(NO_DRAFT, ())


def caught_up(source: str, pending: int, room: Room, device: torch.device, read: Callable[[], None]) -> bool:
    """True once a network has little left to read before it can draft; what is more must first be likely to pay.

    Args:
        pending: tokens or pairs it has not read.
        read: reads them.
    """
    if pending <= _CATCH_UP:
        return True
    if not room.repays(source, pending):
        return False
    begun = perf_counter()
    read()
    settle(device)
    room.prepared(source, pending, perf_counter() - begun)
    return True


def worth(source: str, room: Room) -> float:
    """Expected tokens per second if this round grows a draft."""
    return room.value(source, range(ROOT, room.limit - 1), range(room.limit), None)


@torch.inference_mode()
def grow(source: str, network: Network, tokens: Sequence[int], pick: Pick, room: Room, most: int) -> Grown:
    """Draft as deep and as wide as pays.

    On a GPU the network's confidence cannot be read without waiting for it, so there a chain is grown as deep as
    chains were worth before, and all stays on the device.

    Args:
        most: tokens that may be drafted in a row.
    """
    if most <= 0 or not room.weigh(source, (), (), 0).deeper:
        return NOTHING
    logits = network.root(tokens)
    tree = _Tree(logits.device, CHILDREN if room.branches else 1)
    for depth in range(1, most + 1):
        level = tree.add(pick.best(logits, depth - 1, tree.paths, tree.children, network.head_ids))
        weighed = room.weigh(source, tree.parents, tree.classes, depth)
        front = [node for node in weighed.keep if node in level and tree.known[node] not in network.ends]
        if not weighed.deeper or not front or depth == most:
            break
        logits = network.level(*tree.go_on(front))
    return tree.pruned(source, weighed.keep, depth)


def readable(device: torch.device) -> bool:
    """True if the host may look at values without waiting for the device."""
    return device.type == "cpu"


class _Tree:
    """The nodes so far, level by level."""

    def __init__(self, device: torch.device, children: int) -> None:
        self.looks = readable(device)
        self.children = children if self.looks else 1
        self.parents: list[int] = []
        self.classes: list[int] = []
        self.known: list[int] = []
        """Token ids where they can be read, else -1."""
        self.paths = torch.empty((1, 0), dtype=torch.int64, device=device)
        """Tokens of the paths that are gone on from [rows, depth]."""
        self._front = [ROOT]
        self._alive: list[float] = []
        self._levels: list[Tensor] = []
        self._rows: dict[int, int] = {}

    def add(self, choices: Choices) -> range:
        """A level: the choices after each node of the front. Returns the new nodes."""
        begin, depth = len(self.parents), len(self._levels)
        ids, chances = (part.flatten() for part in choices)
        count = len(ids) // len(self._front)
        self._levels.append(ids)
        self.parents += [node for node in self._front for _ in range(count)]
        level = range(begin, len(self.parents))
        found = chances.tolist() if self.looks else [1.0] * len(level)
        self.known += ids.tolist() if self.looks else [-1] * len(level)
        self.classes += [sureness(chance) if self.looks else depth for chance in found]
        for node, chance in zip(level, found, strict=True):
            parent = self.parents[node]
            self._alive.append(chance * (1.0 if parent == ROOT else self._alive[parent]))
        return level

    def go_on(self, front: Sequence[int]) -> tuple[Tensor, list[int]]:
        """The likeliest of these nodes of the last level get rows: their ids, and the rows that these follow."""
        before, ranked = self._front, sorted(front, key=lambda node: -self._alive[node])[:BEAM]
        self._front = ranked[:1] + [node for node in ranked[1:] if self._alive[node] >= LIKELY]
        level = self._levels[-1]
        at = [node - (len(self.parents) - len(level)) for node in self._front]
        ids = level[upload(at, level.device)] if len(level) > 1 else level
        above = [before.index(self.parents[node]) for node in self._front]
        paths = self.paths[upload(above, level.device)] if len(before) > 1 else self.paths.expand(len(at), -1)
        self.paths = torch.cat((paths, ids[:, None]), dim=1)
        for node in self._front:
            self._rows[node] = len(self._rows)
        return ids, [self._rows.get(self.parents[node], ROOT) for node in self._front]

    def pruned(self, source: str, keep: Sequence[int], steps: int) -> Grown:
        """The draft of the nodes to keep. The likeliest path comes first: accepting it moves nothing in a cache."""
        below: dict[int, list[int]] = {}
        for node in keep:
            below.setdefault(self.parents[node], []).append(node)
        order, waiting = [ROOT], below.get(ROOT, [])[::-1]
        while waiting:
            order.append(waiting.pop())
            waiting += below.get(order[-1], [])[::-1]
        place = {node: at - 1 for at, node in enumerate(order)}
        order = order[1:]
        if not order:
            return NOTHING
        ids = torch.cat(self._levels)
        ids = ids[: len(order)] if order == list(range(len(order))) else ids[upload(order, ids.device)]
        parents = tuple(place[self.parents[node]] for node in order)
        draft = Draft(ids, parents, source, tuple(self.classes[node] for node in order), steps)
        return Grown(draft, tuple(self._rows.get(node, -1) for node in order))
