"""Heads of random weights in published layouts, and how what is loaded of them is compared with the formulas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from localchat.engine.drafters import Parts, build
from localchat.engine.drafters.features import FeatureDrafter
from localchat.engine.sampling import Picker
from localchat.engine.target import Target
from localchat.engine.types import ROOT, Sampling
from localchat.models.loader import LoadedModels, load
from localchat.models.plan import LoadPlan, Precision
from tests.models import head_reference as reference
from tests.models.head_reference import Step, Weights
from tests.support.models import VOCABULARY
from tests.support.tiny import generous

HIDDEN, HEADS, GROUPS, SIZE, INNER, LAYERS = 64, 4, 2, 16, 96, 8
DEPTH = 4
TOKENS = [257, 7, 11, 200, 3, 3, 90, 41, 17, 7, 11, 200, 64]
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512,
}
FREQUENCIES = reference.plain_frequencies(SIZE)


class Random:
    """Weights of about the size that trained ones have; norms differ, so that a wrong one shows."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> Tensor:
        values = torch.randn(*shape, generator=self._generator)
        return values.abs() + 0.5 if len(shape) == 1 else values * 1.5 / shape[-1] ** 0.5

    def layer(self, prefix: str, *, wide: int = 1, bias: bool = False, norms: Sequence[str] = ()) -> dict[str, Tensor]:
        """A Llama decoder layer whose attention reads `wide` times the hidden size."""
        found = {"self_attn.o_proj.weight": self(HIDDEN, HEADS * SIZE)}
        for name, heads in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
            found[f"self_attn.{name}_proj.weight"] = self(heads * SIZE, wide * HIDDEN)
            if bias:
                found[f"self_attn.{name}_proj.bias"] = self(heads * SIZE)
        for name in ("gate", "up"):
            found[f"mlp.{name}_proj.weight"] = self(INNER, HIDDEN)
        found["mlp.down_proj.weight"] = self(HIDDEN, INNER)
        for name in ("post_attention_layernorm", *norms):
            found[f"{name}.weight"] = self(SIZE if name.startswith("self_attn") else HIDDEN)
        return {prefix + name: tensor for name, tensor in found.items()}


def write_head(
    path: Path, config: dict[str, Any], weights: Weights, name: str = "model.safetensors", extra: Weights | None = None
) -> Path:
    from safetensors.torch import save_file

    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    save_file({**weights, **(extra or {})}, path / name)
    return path


def wide(weights: Weights) -> dict[str, Tensor]:
    return {name: tensor.double() for name, tensor in weights.items()}


@dataclass(frozen=True, slots=True)
class Truth:
    """The target in float64, by transformers alone."""

    outputs: tuple[Tensor, ...]
    """What comes out of each layer [T - 1, h], counted from 0."""
    final: Tensor
    embed: Any
    output: Tensor


def truth(folder: Path) -> Truth:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager"
    )
    outputs: list[Tensor] = []
    for layer in model.model.layers:
        layer.register_forward_hook(lambda _m, _i, out: outputs.append((out[0] if isinstance(out, tuple) else out)[0]))
    with torch.no_grad():
        final = model.model(input_ids=torch.tensor([TOKENS[:-1]])).last_hidden_state[0]
    return Truth(tuple(outputs), final, model.get_input_embeddings(), model.lm_head.weight.detach())


def loaded(folder: Path, head: Path | str, kind: str, **fields: Any) -> LoadedModels:
    plan = LoadPlan(
        model=str(folder), draft=kind, draft_model=str(head), precision=Precision.FP32, context=256, device="cpu"
    )
    return load(replace(plan, **fields), lambda *_: None, memory=(2**40, 2**40))


def started(models: LoadedModels, kind: str) -> tuple[Any, Target]:
    """The drafter as a reply begins."""
    target = Target(models.target_model, 256, models.vocab)
    drafter: Any = build(kind, Parts(target, head=models.head))
    target.tap(drafter.needs.hidden_layers, drafter.needs.rows)
    list(target.prefill(TOKENS[:-1]))
    drafter.start(TOKENS, target.prompt_tapped())
    return drafter, target


def proposed(drafter: Any, depth: int) -> list[int]:
    """A chain at temperature 0, as deep as asked."""
    governor = generous(depth + 1, fixed_width=depth + 1)
    governor.trust(drafter.priors)
    governor.begin_reply()
    governor.open(depth)
    draft = drafter.propose(
        TOKENS, Picker(Sampling(temperature=0.0), TOKENS, VOCABULARY, torch.device("cpu")), governor
    )
    assert draft.parents == tuple(range(ROOT, depth - 1))
    return [int(token) for token in draft.ids]


def agree(
    models: LoadedModels,
    kind: str,
    step: Step,
    joined: Tensor,
    score: Any,
    embed: Any,
    ids: Sequence[int] | None = None,
) -> None:
    """Logits of every level and the proposed chain are those of the reference."""
    with torch.no_grad():
        drafted, logits = reference.chain(step, score, embed, joined, TOKENS, ids, DEPTH)
    drafter, _ = started(models, kind)
    assert proposed(drafter, DEPTH) == drafted
    drafter, _ = started(models, kind)
    assert isinstance(drafter, FeatureDrafter)
    with torch.inference_mode():
        found = [drafter.root(TOKENS)]
        for row, token in enumerate(drafted[:-1]):
            found.append(drafter.level(torch.tensor([token]), [row - 1]))
    order = slice(None) if ids is None else torch.tensor(ids).argsort()
    for own, expected in zip(found, logits, strict=True):
        reach = 1e-3 * float(expected.abs().max())  # unnormed states grow from step to step
        torch.testing.assert_close(own[0].double(), expected[order], rtol=0.0, atol=reach)
