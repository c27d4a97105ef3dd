"""What the target says to a batch of texts: the states a head is fed and the choices it should learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from localchat.engine.head_config import FINAL
from localchat.engine.packed import plain_weight
from localchat.engine.target import decoder_layers

_ROWS = 128
"""Rows whose whole logits are computed at once."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One batch of texts of equal length, as the target sees it."""

    embeddings: Tensor
    """[B, T, hidden] of the tokens."""
    last: Tensor
    """[B, T, hidden] after the final norm: what the target's output head reads."""
    tapped: tuple[Tensor, ...]
    """[B, T, hidden] per tapped layer."""
    logits: Tensor
    """[B, T, n] over the draft vocabulary: what follows each token."""


@dataclass(frozen=True, slots=True)
class Exam(Lesson):
    """A lesson to judge on."""

    choice: Tensor
    """int64 [B, T]: the target's own choice as a place in the draft vocabulary; -1 where it lacks that token."""
    taken: Tensor
    """bool [B, T]: the text goes on with that choice, as it does wherever the target writes greedily."""


def output_rows(model: Any, ids: Tensor | None) -> Tensor:
    """Rows [n, hidden] of a model's output head, all or those of some token ids."""
    weight = plain_weight(model.get_output_embeddings())
    return weight if ids is None else weight[ids].clone()


class Teacher:
    """A frozen target.

    Args:
        model: a transformers causal language model in evaluation mode.
        taps: decoder layers whose output a head reads; FINAL is the state after the final norm.
        ids: the draft vocabulary, ascending, or None for all tokens.
        room: bytes of memory for states of texts that have been read, so that a second pass need not read them again.
    """

    def __init__(self, model: Any, taps: Sequence[int], ids: Tensor | None, room: int = 0) -> None:
        self._model, self._taps = model, tuple(taps)
        self.ids = ids
        self._output = nn.Linear(1, 1, bias=False)
        self._output.weight.data = output_rows(model, ids)
        self._output.requires_grad_(False)
        self._states: dict[int, Tensor] = {}
        self._order = tuple(dict.fromkeys((*self._taps, FINAL)))
        self._room = room
        self._kept: dict[bytes, tuple[Tensor, ...]] = {}
        layers = decoder_layers(model)
        for tap in self._taps:
            if tap != FINAL:
                layers[tap].register_forward_hook(self._keep(tap))

    def _keep(self, tap: int) -> Any:
        def hook(_module: nn.Module, _inputs: object, output: Any) -> None:
            self._states[tap] = output[0] if isinstance(output, tuple) else output

        return hook

    def release(self) -> bool:
        """Give back the memory of states that are kept, and keep none from now on; False if there were none."""
        kept, self._kept, self._room = self._kept, {}, 0
        return bool(kept)

    @torch.no_grad()
    def lesson(self, tokens: Tensor) -> Lesson:
        """The lesson of a batch of texts, int64 [B, T]."""
        states = self._remembered(tokens)
        tapped = tuple(states[tap] for tap in self._taps)
        embeddings = self._model.get_input_embeddings()(tokens)
        return Lesson(embeddings, states[FINAL], tapped, self._output(states[FINAL]))

    @torch.no_grad()
    def exam(self, tokens: Tensor) -> Exam:
        """The same with the target's choice among all its tokens, which takes longer."""
        lesson = self.lesson(tokens)
        known = (lesson.embeddings, lesson.last, lesson.tapped, lesson.logits)
        if self.ids is None:
            choice = chosen = lesson.logits.argmax(-1)
        else:
            last = self._remembered(tokens)[FINAL].flatten(0, 1)
            head = self._model.get_output_embeddings()
            chosen = torch.cat([head(rows).argmax(-1) for rows in torch.split(last, _ROWS)]).view(tokens.shape)
            place = torch.searchsorted(self.ids, chosen).clamp_(max=len(self.ids) - 1)
            choice = torch.where(self.ids[place] == chosen, place, -1)
        taken = torch.zeros_like(tokens, dtype=torch.bool)
        taken[:, :-1] = chosen[:, :-1] == tokens[:, 1:]
        return Exam(*known, choice=choice, taken=taken)

    def _remembered(self, tokens: Tensor) -> dict[int, Tensor]:
        """States [B, T, hidden] by tap: a text that comes again need not be read again while there is room."""
        keys = [row.tobytes() for row in tokens.cpu().numpy()]
        fresh = [at for at, key in enumerate(keys) if key not in self._kept]
        if len(fresh) == len(keys):
            states = self._read(tokens)
            self._remember(keys, states)
            return states
        known = {keys[at]: self._kept[keys[at]] for at in range(len(keys)) if at not in fresh}
        if fresh:
            states = self._read(tokens[fresh])
            self._remember([keys[at] for at in fresh], states)
            known |= {keys[at]: tuple(state[row] for state in states.values()) for row, at in enumerate(fresh)}
        return {tap: torch.stack([known[key][place] for key in keys]) for place, tap in enumerate(self._order)}

    def _remember(self, keys: Sequence[bytes], states: Mapping[int, Tensor]) -> None:
        for row, key in enumerate(keys):
            kept = tuple(state[row] for state in states.values())
            size = sum(part.numel() * part.element_size() for part in kept)
            if size > self._room:
                return
            self._room -= size
            self._kept[key] = tuple(part.clone() for part in kept)

    def _read(self, tokens: Tensor) -> dict[int, Tensor]:
        self._states[FINAL] = self._model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        return {tap: self._states[tap] for tap in self._order}
