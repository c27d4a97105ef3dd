"""A small draft model: some layers of the target, its embeddings and a head for the frequent tokens, trained on.

First and last layers are kept: those in the middle of a deep model change least (as in ShortGPT, arXiv:2403.03853).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from localchat.engine.governor import Timings
from localchat.errors import ModelError
from localchat.models.choice import Side
from localchat.models.folders import TEXT_PARTS, TEXT_PREFIX, weight_files
from localchat.train import register, worth
from localchat.train.exams import Exams
from localchat.train.register import Trained
from localchat.train.teacher import Teacher, output_rows
from localchat.train.unroll import Marks, count, entropy

_SHARE = 6
"""One layer in so many is kept."""
_RANKS = 4
_LAYER = re.compile(r"^(model\.layers\.)(\d+)(\..*)$")


def kept_layers(count: int) -> tuple[int, ...]:
    """Which of so many layers are kept."""
    keep = max(2, round(count / _SHARE))
    first = (keep + 1) // 2
    return (*range(min(first, count)), *range(max(first, count - (keep - first)), count))


def cut_model(side: Side, device: torch.device, *, trust_remote_code: bool = False) -> Any:
    """A transformers model of a few of a model's layers, fp32, only those layers and the last norm to be trained.

    Only the tensors that are needed are read.

    Raises:
        ModelError: a model whose weights have other names than most.
    """
    from safetensors import safe_open
    from transformers import AutoConfig, AutoModelForCausalLM

    trust = {"trust_remote_code": trust_remote_code}
    whole = AutoConfig.from_pretrained(side.source.folder, local_files_only=True, **trust)
    config = whole.get_text_config() if side.shape.model_type in TEXT_PARTS else whole
    keep = kept_layers(config.num_hidden_layers)
    config.num_hidden_layers = len(keep)
    if getattr(config, "layer_types", None):
        config.layer_types = [config.layer_types[layer] for layer in keep]
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, **trust)
    tensors: dict[str, Tensor] = {}
    for path in weight_files(side.source.folder):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                if (own := _renamed(re.sub(TEXT_PREFIX, "model.", name), keep)) in model.state_dict():
                    tensors[own] = file.get_tensor(name)
    lacking = sorted(set(model.state_dict()) - set(tensors) - ({"lm_head.weight"} if side.shape.tied else set()))
    if side.shape.mixture or lacking:
        raise ModelError(
            f"No draft model can be cut out of {side.source.title}: its weights have unusual names.",
            "Train a head instead: --kind eagle.",
        )
    model.load_state_dict(tensors, strict=False)
    model.requires_grad_(False)
    model.base_model.layers.requires_grad_(True)
    model.base_model.norm.requires_grad_(True)
    return model.eval().to(device)


def _renamed(name: str, keep: Sequence[int]) -> str:
    """The name a tensor has among the kept layers; empty if its layer is not kept."""
    found = _LAYER.match(name)
    if not found:
        return name
    layer = int(found[2])
    return f"{found[1]}{keep.index(layer)}{found[3]}" if layer in keep else ""


class CutPupil:
    """A cut model that learns the target's distribution (a `pupil.Pupil`)."""

    def __init__(
        self,
        side: Side,
        model: Any,
        ids: Tensor | None,
        ahead: int,
        room: int = 0,
        *,
        trust_remote_code: bool = False,
    ) -> None:
        self._side, self._target, self._ids, self._ahead = side, model, ids, ahead
        self.model = cut_model(side, model.device, trust_remote_code=trust_remote_code)
        self._teacher = Teacher(model, (), ids, room)
        self._exams = Exams(self._teacher)
        self._rows = output_rows(model, ids).float()
        """Rows [n, hidden] of the target's output head for the draft vocabulary."""

    @property
    def module(self) -> nn.Module:
        """The draft model."""
        module: nn.Module = self.model
        return module

    @property
    def steps(self) -> int | None:
        """See `pupil.Pupil`."""
        return None

    def begin(self, batches: Iterable[Tensor]) -> None:
        """See `pupil.Pupil`: the target's layers are the start."""

    def release(self) -> bool:
        """See `pupil.Pupil`."""
        return self._teacher.release()

    def costs(self) -> Timings:
        """See `pupil.Pupil`."""
        return worth.cost_of_model(self._target, copy.deepcopy(self.model).to(torch.bfloat16), self._ids)

    def keep(self, folder: Path, about: Trained) -> None:
        """See `pupil.Pupil`."""
        model = copy.deepcopy(self.model).to(torch.bfloat16)
        register.keep_model(folder, model, self._side.source.folder, self._ids, about)

    def _logits(self, tokens: Tensor) -> Tensor:
        """Logits [B, T, n] of what follows each token."""
        states = self.model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        return functional.linear(states, self._rows)

    def loss(self, tokens: Tensor) -> Tensor:
        """See `pupil.Pupil`: cross-entropy with the target's distribution."""
        return entropy(self._logits(tokens), self._teacher.lesson(tokens).logits)

    @torch.no_grad()
    def judge(self, tokens: Tensor) -> Marks:
        """See `pupil.Pupil`."""
        exam = self._exams(tokens)
        best = self._logits(tokens).topk(min(_RANKS, self._rows.shape[0]), dim=-1).indices
        right = best == exam.choice[..., None]
        rows = tokens.shape[1] - self._ahead + 1

        def compared(depth: int) -> tuple[Tensor, Tensor]:
            # The first guess is asked for everywhere: it reads all tokens before it.
            taken = exam.taken[:, depth - 1 :] if depth else torch.ones_like(exam.taken)
            return right[:, depth : depth + rows], taken

        return count(map(compared, range(self._ahead)))
