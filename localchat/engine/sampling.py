"""How a token is chosen: `argmax(log p + noise(seed, position, token))`, p the processed distribution.

The noise is a pure function of its three counters, so a choice depends on the logits and the seed and on nothing that
happened before it: not on rejected drafts, not on the drafter. Penalties read the prefix of the very row they apply to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from localchat.engine.traffic import upload
from localchat.engine.tree import ancestors, depths
from localchat.engine.types import Choices, Draft, Sampling

_MASK32 = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF
_SHORTLIST = 1024
_REACH = 26.1
"""More than the noise can differ between two tokens: 32 hashed bits give -3.13 to 22.88."""


def _splitmix(state: int) -> int:
    """One step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    state = (state + 0x9E3779B97F4A7C15) & _MASK64
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK64
    return state ^ (state >> 31)


def _signed(word: int) -> int:
    """A 32-bit word as torch's int32 reads it."""
    word &= _MASK32
    return word - (1 << 32) if word >> 31 else word


_MIX = (_signed(0x85EBCA6B), _signed(0xC2B2AE35))


def _scramble(words: Tensor) -> Tensor:
    """The 32-bit finaliser of MurmurHash3, in place; torch shifts int32 arithmetically, hence the masks."""
    words ^= (words >> 16) & 0xFFFF
    words *= _MIX[0]
    words ^= (words >> 13) & 0x7FFFF
    words *= _MIX[1]
    words ^= (words >> 16) & 0xFFFF
    return words


def noise(seed: int, positions: Sequence[int], tokens: Tensor) -> Tensor:
    """Standard Gumbel noise, one draw for each (seed, position, token): identical on every device.

    Args:
        seed: the request's seed.
        positions: absolute position of the token to be chosen, one per row.
        tokens: int token ids, [rows, n] or [1, n].

    Returns:
        float32 [rows, n], from 32 hashed bits; computed in float64 so that devices round alike.
    """
    keys = [_splitmix(_splitmix(seed) ^ position) for position in positions]
    halves = [(_signed(key), _signed(key >> 32)) for key in keys]
    low, high = upload(halves, tokens.device, torch.int32).unbind(dim=1)
    words = _scramble(tokens.to(torch.int32) ^ low[:, None])
    words += high[:, None]
    words = _scramble(words)
    uniform = words.to(torch.float64).add_(2147483648.5).mul_(2.0**-32)
    return uniform.log_().neg_().log_().neg_().to(torch.float32)


class Picker:
    """Chooses tokens for one reply; implements `Pick` for drafters.

    Filters apply in the usual order: penalties, temperature, top-k, top-p, min-p. The repetition penalty sees prompt
    and reply, presence and frequency penalties the reply alone. Tokens tied with the last one kept are kept too, so
    that the kept set is a function of the logits alone.
    """

    def __init__(self, sampling: Sampling, prompt: Sequence[int], vocabulary: int, device: torch.device) -> None:
        self.sampling = sampling
        self.length = len(prompt)
        self._ids = torch.arange(vocabulary, device=device)[None]
        if sampling.penalises:
            self._seen = torch.zeros(vocabulary, dtype=torch.float32, device=device)
            self._seen[upload(list(prompt), device, torch.int64)] = 1.0
            self._counts = torch.zeros(vocabulary, dtype=torch.float32, device=device)

    def learn(self, emitted: Sequence[int]) -> None:
        """The reply grew by these tokens."""
        self.length += len(emitted)
        if self.sampling.penalises:
            ids = upload(list(emitted), self._counts.device, torch.int64)
            self._counts.index_put_((ids,), torch.ones_like(ids, dtype=torch.float32), accumulate=True)

    @torch.inference_mode()
    def rows(self, logits: Tensor, draft: Draft) -> tuple[Tensor, Tensor]:
        """The target's own choice in every row of a verification.

        Args:
            logits: [rows, vocabulary]; row 0 follows the last emitted token, row i + 1 node i, the rest is padding.
            draft: the draft that was verified.

        Returns:
            Chosen ids [n + 1] and, in units of logits, how far each was ahead of the next best [n + 1].
        """
        extra = None
        if self.sampling.penalises:
            pairs = [(row + 1, node) for row in range(len(draft)) for node in ancestors(draft.parents, row)]
            extra = torch.zeros(logits.shape, device=logits.device)
            if pairs and draft.ids is not None:
                rows, nodes = upload(pairs, logits.device).unbind(dim=1)
                ids = draft.ids.to(logits.device, non_blocking=True)
                extra.index_put_((rows, ids[nodes]), extra.new_ones(len(pairs)), accumulate=True)
        padding = len(logits) - len(draft) - 1
        positions = [self.length + depth for depth in (0, *depths(draft.parents), *(0,) * padding)]
        scores, ids = self._scores(logits, positions, extra, self._ids, 2)
        best, at = scores.max(dim=-1, keepdim=True)
        second = scores.scatter_(1, at, float("-inf")).amax(dim=-1, keepdim=True)
        scores.scatter_(1, at, best)  # the scores may be the caller's logits
        margins = (best - second).float() * (self.sampling.temperature or 1.0)
        chosen = ids.expand(len(scores), -1).gather(1, at)
        return chosen[: len(draft) + 1, 0], margins[: len(draft) + 1, 0]

    @torch.inference_mode()
    def best(self, logits: Tensor, depth: int, paths: Tensor, count: int, ids: Tensor | None = None) -> Choices:
        """The best tokens after the emitted ones and `depth` hypothetical ones; see `Pick`."""
        extra = None
        if self.sampling.penalises:
            extra = torch.zeros((len(logits), len(self._counts)), device=logits.device)
            extra.scatter_add_(1, paths, torch.ones_like(paths, dtype=torch.float32))
        known = self._ids[:, : logits.shape[1]] if ids is None else ids[None]
        count = min(count, logits.shape[1])
        scores, known = self._scores(logits, [self.length + depth], extra, known, count)
        at = scores.topk(count, dim=-1).indices
        chances = torch.softmax(scores, dim=-1, dtype=torch.float32).gather(1, at)
        return Choices(known.expand(len(scores), -1).gather(1, at), chances)

    def _scores(
        self, logits: Tensor, positions: Sequence[int], extra: Tensor | None, ids: Tensor, least: int
    ) -> tuple[Tensor, Tensor]:
        """What the choice is the largest of [rows, n >= least], and the token ids of the columns [rows or 1, n]."""
        if extra is not None:
            logits = self._penalised(logits, extra, ids)
        temperature = self.sampling.temperature
        if temperature == 0.0:
            return logits, ids
        scores = (logits if logits.dtype == torch.float64 else logits.float()) / temperature
        scores, shortlist = self._truncated(scores, least)
        ids = ids if shortlist is None else ids[0][shortlist]
        return scores + noise(self.sampling.seed, positions, ids), ids

    def _penalised(self, logits: Tensor, extra: Tensor, ids: Tensor) -> Tensor:
        counts, prompt = self._counts + extra, self._seen
        if ids is not self._ids:
            counts, prompt = counts[:, ids[0]], prompt[ids[0]]
        seen = (counts > 0) | (prompt > 0)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        rate = self.sampling.repetition_penalty
        logits = torch.where(seen, torch.where(logits > 0, logits / rate, logits * rate), logits)
        return logits - self.sampling.frequency_penalty * counts - self.sampling.presence_penalty * (counts > 0)

    def _truncated(self, scores: Tensor, least: int) -> tuple[Tensor, Tensor | None]:
        """Scores of the tokens that top-k, top-p and min-p leave (the others -inf), as a shortlist of columns.

        The shortlist grows until it certainly holds every kept token; where asking would cost a synchronisation it
        is the whole vocabulary from the start.
        """
        rule, size = self.sampling, scores.shape[-1]
        if not (0 < rule.top_k < size or rule.top_p < 1.0 or rule.min_p > 0.0):
            return self._reachable(scores, least)
        count = min(size, max(_SHORTLIST, least, 2 * rule.top_k)) if scores.device.type == "cpu" else size
        while True:
            values, columns = scores.topk(count, dim=-1)
            floor = self._floor(scores, values)
            if count == size or bool((values[:, -1:] < floor).all()):
                return values.masked_fill(values < floor, float("-inf")), columns
            count = min(size, 8 * count)

    @staticmethod
    def _reachable(scores: Tensor, least: int) -> tuple[Tensor, Tensor | None]:
        """Leave out tokens so unlikely in every row that no noise can make them win: the choice stays the same.

        No row is left with fewer than `least`.
        """
        if scores.device.type != "cpu" or scores.shape[-1] <= 16 * _SHORTLIST:
            return scores, None
        columns = (scores > scores.amax(dim=-1, keepdim=True) - _REACH).any(dim=0).nonzero()[:, 0]
        if len(columns) < least:
            # Values that are not numbers come first here, for the loop to find.
            columns = scores.topk(least, dim=-1).indices.unique()  # type: ignore[no-untyped-call]
        return scores[:, columns], columns[None]

    def _floor(self, scores: Tensor, values: Tensor) -> Tensor:
        """Smallest score each row keeps [rows, 1]; `values` are its largest scores in descending order."""
        rule = self.sampling
        floor = values[:, -1:]
        kept = values
        total = scores.logsumexp(dim=-1, keepdim=True)
        if 0 < rule.top_k < scores.shape[-1]:
            floor = values[:, rule.top_k - 1 : rule.top_k]
            kept = values.masked_fill(values < floor, float("-inf"))
            total = kept.logsumexp(dim=-1, keepdim=True)
        if rule.top_p < 1.0:
            mass = (kept - total).exp()
            inside = (mass.cumsum(dim=-1) - mass) < rule.top_p
            floor = torch.maximum(floor, kept.masked_fill(~inside, float("inf")).amin(dim=-1, keepdim=True))
        if rule.min_p > 0.0:
            lowest = values[:, :1] + math.log(rule.min_p)
            floor = torch.maximum(floor, lowest)
        return floor
