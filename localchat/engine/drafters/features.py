"""What EAGLE and multi-token prediction share: drafting by a network that goes on from the target's own states.

The network reads pairs: the target's state after one token, and the next token. From a pair it guesses the state after
that token, and by it the token to come. A guessed state and a drafted token are a pair again, and so it goes on. Once a
draft is verified its pairs are dropped, and those of the accepted tokens are read anew with the target's true states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from localchat.engine.attention import packed
from localchat.engine.cache import Cache, Step
from localchat.engine.drafters import Parts
from localchat.engine.drafters.growth import caught_up, grow, worth
from localchat.engine.heads import Medusa
from localchat.engine.sizes import PREFILL_CHUNK, padded
from localchat.engine.traffic import upload
from localchat.engine.types import NO_DRAFT, Draft, Needs, Pick, Room, Tapped, Verdict, common_prefix

_PRIORS = (0.6, 0.55, 0.5, 0.45)


class FeatureDrafter:
    """Grows a draft, one forward of the head per level; implements `growth.Network`.

    The cache holds one run of consecutive pairs, with positions of its own from 0. Where states are missing (a prompt
    kept from an earlier turn was not computed again) the run begins anew.
    """

    source = ""

    def __init__(self, parts: Parts) -> None:
        head, target = parts.head, parts.target
        if head is None or target is None or isinstance(head, Medusa) or head.config.kind != self.source:
            raise ValueError(f"this drafter needs a target and a head of the kind {self.source}")
        config = head.config
        self._head, self._target = head, target
        self.head_ids = head.ids
        self.needs = Needs(config.taps, shares_embeddings=not config.own_embedding, rows=config.window)
        rates = tuple(ranks[0] for ranks in head.acceptance) or _PRIORS
        self.priors: Mapping[str, tuple[float, ...]] = {self.source: rates}
        self._steps = config.depth if config.kind == "mtp" else 1
        layers = self._steps if config.kind == "mtp" else config.layers
        self._window = config.window
        self._cache = Cache([self._window] * layers, target.context, 1, target.dtype, target.device)
        self._step: Step | None = None
        self._text: list[int] = []
        self._waiting: list[Tensor] = []
        """States of the pairs that are not read yet, [taps, pairs, hidden] each."""
        self._unread = 0
        self._root: list[Tensor] = []
        """Per step the guessed state [1, 1, hidden] that the last pair leads to, once that pair is read."""
        self._last: list[Tensor] = []
        """Per step the guessed states [1, rows, hidden] of the draft's last level."""
        self._before: list[Tensor] = []
        """Per step the guessed state [1, 1, hidden] that the last pair read leads to; none at the start of a run."""
        self._above: list[int] = []
        self._level = 0
        self._tried = self._broken = False

    @property
    def ends(self) -> frozenset[int]:
        """Ids after which nothing is worth drafting."""
        return self._target.ends

    @property
    def cache_bytes(self) -> int:
        """Allocated for the run of pairs."""
        return self._cache.bytes

    def forget(self) -> None:
        """Drop the pairs of earlier replies, and what a damaged one may have left."""
        self._begin_anew()
        self._cache.scrub()
        self._text = []
        self._tried = self._broken = False

    def start(self, tokens: Sequence[int], tapped: Tapped | None) -> None:
        """Keep the pairs that the text shares with the last one, and add those that the prefill gave states of."""
        shared = common_prefix(self._text, tokens)
        self._drop(len(self._text) - shared)
        self._text = list(tokens)
        self._add(len(tokens) - shared, _stacked(tapped))
        self._tried = False

    def learn(self, tokens: Sequence[int], verdict: Verdict, tapped: Tapped | None) -> None:
        """The emitted tokens and the states before them are new pairs."""
        fresh = tokens[len(self._text) :]
        self._text += fresh
        states = _stacked(tapped)
        self._add(len(fresh), states if states is None else states[:, : len(fresh)])

    def _drop(self, count: int) -> None:
        """Forget the last `count` pairs."""
        if not count:
            return
        rows = max(0, self._cache.length + self._unread - count)
        unread = max(0, rows - self._cache.length)
        self._waiting = [torch.cat(self._waiting, dim=1)[:, :unread]] if unread else []
        self._unread, self._root, self._before = unread, [], []
        self._cache.truncate(rows)

    def _begin_anew(self) -> None:
        self._drop(self._cache.length + self._unread)

    def _add(self, count: int, states: Tensor | None) -> None:
        """The text has `count` new pairs; of the last ones the states [taps, pairs, hidden] are known.

        One unknown pair is left out: after an edit it is the one of the state before the first changed token, which
        the target does not compute again. More begin the run anew.
        """
        known = 0 if states is None else min(count, states.shape[1])
        if count > known + 1:
            self._begin_anew()
        if states is not None and known:
            self._waiting.append(states[:, -known:])
            self._unread += known
        self._root = [] if count else self._root
        if self._unread > 2 * self._window:
            self._shorten()

    def _shorten(self) -> None:
        """No more than a window of pairs is ever looked at: begin anew with that."""
        waiting = torch.cat(self._waiting, dim=1)[:, -self._window :]
        self._begin_anew()
        self._waiting, self._unread = [waiting], self._window

    def value(self, room: Room) -> float:
        """Expected tokens per second if this round drafts."""
        return worth(self.source, room) if self._ready else 0.0

    @property
    def _ready(self) -> bool:
        return not self._broken and (self._unread > 0 or bool(self._root))

    @torch.inference_mode()
    def propose(self, tokens: Sequence[int], pick: Pick, room: Room) -> Draft:
        """Draft what pays, once the pairs of the prompt are read."""
        if not self._ready or not room.limit:
            return NO_DRAFT
        pending = min(self._unread, self._window)
        if not caught_up(self.source, pending, room, self._target.device, self._catch_up):
            return NO_DRAFT
        draft = grow(self.source, self, tokens, pick, room, room.limit).draft
        if self._broken:
            room.refuse(self.source, f"{self.source} is off: its output is not a number")
            return NO_DRAFT
        return draft

    def _catch_up(self) -> None:
        self._root = self._read()

    def root(self, tokens: Sequence[int]) -> Tensor:
        """Read the pairs that wait: logits [1, n] of what follows the text."""
        self._root = self._root or self._read()
        self._last, self._above, self._level = self._root, [], 0
        logits = self._scores()
        if not self._tried:  # once a reply: on a GPU the host waits for the answer
            self._tried, self._broken = True, bool(logits.isnan().any())
        return logits

    def level(self, ids: Tensor, above: Sequence[int]) -> Tensor:
        """Add rows to the draft: logits [rows, n] of what follows each; see `growth.Network`."""
        held, before = len(self._above), self._last[-1].shape[1]
        self._above += above
        self._level += 1
        at = upload([row - held + before for row in above], ids.device) if before > 1 else None
        step, embeddings = self._cache.begin(len(ids), self._above, held=held), self._head.embed(ids)[None]
        last = self._last.copy()
        for index in range(min(self._level, self._steps - 1), self._steps):
            states = self._last[index if self._level >= self._steps else index - 1]
            states = states.expand(-1, len(ids), -1) if at is None else states[:, at]
            last[index] = self._forward(embeddings, states, step, index)
        self._last = last
        return self._scores()

    def _read(self) -> list[Tensor]:
        """Read the pairs that wait; returns what `_root` is to be."""
        if self._unread > self._window:
            self._shorten()
        states, ids = torch.cat(self._waiting, dim=1), upload(self._text[-self._unread :], self._target.device)
        if not self._before:
            self._before = [states.new_zeros(1, 1, self._head.config.hidden)] * self._steps
        for begin in range(0, self._unread, PREFILL_CHUNK):
            part = slice(begin, begin + PREFILL_CHUNK)
            self._append(ids[part], self._head.join(states[:, part].unbind()))
        self._waiting, self._unread = [], 0
        return list(self._before)

    def _append(self, ids: Tensor, states: Tensor) -> None:
        """Read one chunk of pairs: ids [n] and states [n, hidden].

        Each further step reads the same tokens, and what the step before it guessed at the token before.
        """
        count = len(ids)
        row = upload([*range(count), *[count - 1] * (padded(count) - count)], ids.device)
        step, embeddings, states = self._cache.begin(len(row)), self._head.embed(ids[row])[None], states[row][None]
        for index, before in enumerate(self._before):
            found = self._forward(embeddings, states, step, index)
            states = torch.cat((before, found[:, :-1]), dim=1) if index + 1 < self._steps else states
            self._before[index] = found[:, count - 1 : count]
        self._cache.advance(count)

    def _forward(self, embeddings: Tensor, states: Tensor, step: Step, index: int) -> Tensor:
        self._step = step
        guessed: Tensor = self._head(embeddings, states, step.positions, self._attend, index)
        return guessed

    def _scores(self) -> Tensor:
        """Logits [rows, n] of the tokens after the last level."""
        index = min(self._level, self._steps - 1)
        logits = self._head.scores(self._last[index][0], index)
        return logits if self.head_ids is not None else logits[:, : self._target.vocabulary]

    def _attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Attention over the run and the rows of the draft (an `Attend`)."""
        assert self._step is not None
        keys, values = self._cache.update(key, value, layer)
        mask, groups = self._step.views[self._window].mask, query.shape[1] // keys.shape[1]
        return packed(query, keys, values, mask.repeat(groups, 1) if groups > 1 else mask, scale, None)


def _stacked(tapped: Tapped | None) -> Tensor | None:
    """[taps, rows, hidden], or None if there are none."""
    return torch.stack(tapped.layers) if tapped is not None and tapped.layers else None
