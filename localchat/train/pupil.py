"""What can be trained, behind one interface: heads of every kind, and a draft model cut out of the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from localchat.engine import heads
from localchat.engine.governor import Timings
from localchat.engine.head_config import FINAL, HeadConfig
from localchat.engine.heads import AnyHead
from localchat.engine.target import Block
from localchat.models.choice import Side
from localchat.models.head_formats import IDS
from localchat.train import register, start, unroll, worth
from localchat.train.cut import CutPupil
from localchat.train.exams import Exams
from localchat.train.register import Trained
from localchat.train.teacher import Teacher, output_rows
from localchat.train.texts import LENGTH
from localchat.train.unroll import Marks

VOCABULARY = 8192
"""Most tokens that a trained network scores: the frequent ones, which are nearly all that is said."""
RANKS = 8
"""Guesses at each position that are looked at when it is judged."""
_HEAD_DIM = 64


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a kind is trained."""

    depth: int
    """Positions ahead in training: each costs as much as the first."""
    ahead: int
    """Positions ahead when it is judged: as far as a draft may pay."""
    rate: float = 1e-3
    """Highest learning rate of AdamW."""
    tokens: int = 512
    """Of a batch: in the same time, many small steps learn more than a few large ones."""


RECIPES = {
    "eagle": Recipe(depth=2, ahead=6),
    "medusa": Recipe(depth=4, ahead=4),
    "mtp": Recipe(depth=2, ahead=6),
    "draft": Recipe(depth=1, ahead=6, rate=3e-4),
}


class Pupil(Protocol):
    """A network under training, and its teacher."""

    @property
    def module(self) -> nn.Module:
        """What is trained: its parameters that want gradients. The rest of its state is found when it begins."""
        ...

    @property
    def steps(self) -> int | None:
        """Forwards that a draft takes in all; None: one per position."""
        ...

    def begin(self, batches: Iterable[Tensor]) -> None:
        """Start from what can be worked out of some texts int64 [B, T] without training."""
        ...

    def loss(self, tokens: Tensor) -> Tensor:
        """Mean loss of a batch of texts int64 [B, T]."""
        ...

    def judge(self, tokens: Tensor) -> Marks:
        """How it does on a batch of texts int64 [B, T]."""
        ...

    def release(self) -> bool:
        """Give back memory that is not needed; False if there is none."""
        ...

    def costs(self) -> Timings:
        """Seconds of the target's forwards by width, and of a forward of this network once it is in use."""
        ...

    def keep(self, folder: Path, about: Trained) -> None:
        """Write it where localchat finds it.

        Raises:
            GenerationError: the disk is full or the folder not writable.
        """
        ...


def new_pupil(
    kind: str, side: Side, model: Any, ids: Tensor | None, room: int = 0, *, trust_remote_code: bool = False
) -> Pupil:
    """An untrained network.

    Args:
        kind: a key of RECIPES.
        side: the target's files.
        model: the target, a transformers model in evaluation mode.
        ids: the draft vocabulary, ascending, or None for all tokens.
        room: bytes of memory that the target's states may take, so that it need not read a text twice.
        trust_remote_code: code in those files may run.
    """
    if kind == "draft":
        return CutPupil(side, model, ids, RECIPES[kind].ahead, room, trust_remote_code=trust_remote_code)
    return HeadPupil(kind, model, ids, room)


class _Begun(nn.Module):
    """A head, and the typical size [hidden] of each dimension of the state it should predict."""

    typical: Tensor

    def __init__(self, head: AnyHead) -> None:
        super().__init__()
        self.head = head
        self.register_buffer("typical", torch.ones_like(head.scales[-1]))


class HeadPupil:
    """A head that reads the target's states."""

    def __init__(self, kind: str, model: Any, ids: Tensor | None, room: int = 0) -> None:
        self._model, self._ids, self._recipe = model, ids, RECIPES[kind]
        rows = output_rows(model, ids)
        # Not the target's own output module: a packed layer has no gradients.
        output = nn.Linear(1, 1, bias=False)
        output.weight.data = rows
        self.head = new_head(kind, model, ids, rows, output.requires_grad_(False))
        for parameter in self.head.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
        self._teacher = Teacher(model, self.head.config.taps, ids, room)
        self._exams = Exams(self._teacher)
        self.module = _Begun(self.head)

    def begin(self, batches: Iterable[Tensor]) -> None:
        """See `Pupil`."""
        self.module.typical = start.begin(self.head, self._teacher, batches)

    @property
    def steps(self) -> int | None:
        """See `Pupil`."""
        return 1 if self.head.config.kind == "medusa" else None

    def loss(self, tokens: Tensor) -> Tensor:
        """See `Pupil`."""
        return unroll.loss(self.head, self._teacher.lesson(tokens), self._recipe.depth, self.module.typical)

    def judge(self, tokens: Tensor) -> Marks:
        """See `Pupil`."""
        return unroll.judge(self.head, self._exams(tokens), self._recipe.ahead, RANKS)

    def release(self) -> bool:
        """See `Pupil`."""
        return self._teacher.release()

    def costs(self) -> Timings:
        """See `Pupil`."""
        kind, model = self.head.config.kind, self._model
        head = new_head(kind, model, self._ids, output_rows(model, self._ids), model.get_output_embeddings())
        dtype = model.get_input_embeddings().weight.dtype
        return worth.cost_of_head(model, head.to(dtype).requires_grad_(False).eval())

    def keep(self, folder: Path, about: Trained) -> None:
        """See `Pupil`."""
        state = {name: tensor.to(torch.bfloat16) for name, tensor in self.head.own_state().items()}
        ids = {} if self._ids is None else {IDS: self._ids}
        register.keep_head(folder, self.head.config, {**state, **ids}, about)


def new_head(kind: str, model: Any, ids: Tensor | None, rows: Tensor, output: nn.Module) -> AnyHead:
    """An untrained head on a model's device.

    Args:
        kind: eagle, medusa or mtp.
        model: the target.
        ids: the draft vocabulary, ascending, or None for all tokens.
        rows: of the target's output head [n, hidden] for the draft vocabulary.
        output: what scores its states where that is the whole one.
    """
    config = head_config(kind, model, ids)
    with torch.device(model.device):
        blocks = [Block(model, index) for index in range(config.depth)] if kind == "mtp" else []
        return heads.build(config, model.get_input_embeddings(), output, None if ids is None else rows, ids, blocks)


def head_config(kind: str, model: Any, ids: Tensor | None) -> HeadConfig:
    """The shape of a new head: one layer as wide as the target, on the state that the target's output head reads.

    A Medusa head has nothing else to go by, neither the last token nor its own guesses, so it reads lower layers too:
    by linear guesses of Gemma 3 270M that finds 33 % of the tokens after the next one, where the last state finds 23 %.
    """
    config = model.config.get_text_config()
    size, count = config.hidden_size, max(1, config.hidden_size // _HEAD_DIM)
    return HeadConfig(
        kind=kind,
        hidden=size,
        vocab=config.vocab_size,
        taps=(*_read(config.num_hidden_layers), FINAL) if kind == "medusa" else (FINAL,),
        depth=RECIPES[kind].ahead if kind == "medusa" else 1,
        draft_vocab=0 if ids is None else len(ids),
        heads=count,
        kv_heads=count if count % 2 else count // 2,
        head_dim=min(_HEAD_DIM, size),
        intermediate=config.intermediate_size,
        eps=getattr(config, "rms_norm_eps", 1e-6),
        scaled=True,
        mixed=kind == "medusa",
        final_norm=kind != "mtp",
        window=LENGTH,
    )


def _read(layers: int) -> tuple[int, ...]:
    """Lower layers whose states say something else than the last one."""
    return tuple(sorted({max(0, layer) for layer in (layers // 3 - 1, 2 * layers // 3 - 1, layers - 2)}))


def draft_ids(rows: Sequence[Sequence[int]], vocabulary: int, always: frozenset[int]) -> tuple[int, ...] | None:
    """The draft vocabulary, ascending: the most frequent tokens of the texts, filled up with the first of the target's,
    which a tokenizer learnt first. None if all fit.

    Args:
        rows: the training text.
        vocabulary: tokens of the target.
        always: ids that must be in it, such as those that end a reply.
    """
    if vocabulary <= VOCABULARY:
        return None
    seen = Counter(token for row in rows for token in row)
    wanted = [*always, *(token for token, _ in seen.most_common(VOCABULARY)), *range(vocabulary)]
    return tuple(sorted(list(dict.fromkeys(token for token in wanted if token < vocabulary))[:VOCABULARY]))
