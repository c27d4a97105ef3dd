"""The training loop of both networks: the target on the corpus, the draft on the target's own distribution.

Plain torch on the CPU. The schedule counts steps, not time, so a paused run ends where an unpaused one would.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localchat.models.starter.batches import Batch

if TYPE_CHECKING:
    from torch import Tensor

WARM_UP = 100
LOG_EVERY = 50
SAVE_EVERY = 250
Loss = Callable[[Any, Batch], "Tensor"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one network is trained."""

    steps: int
    rate: float
    checkpoint: Path
    """Resumed from if it exists; written every `SAVE_EVERY` steps."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run took, over all its resumptions."""

    steps: int
    tokens: int
    seconds: float
    loss: float


def rate_factor(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to a twentieth."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(1, steps - WARM_UP)
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def hidden_states(model: Any, batch: Batch, above: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """Final hidden states, next tokens and their weights where they exceed `above`: [n, hidden], [n], [n]."""
    hidden = model.model(input_ids=batch.ids[:, :-1], use_cache=False).last_hidden_state
    weights = batch.weights[:, 1:]
    keep = weights > above
    return hidden[keep], batch.ids[:, 1:][keep], weights[keep]


def corpus_loss(model: Any, batch: Batch) -> Tensor:
    """Weighted cross-entropy of the next token."""
    from torch.nn import functional

    hidden, tokens, weights = hidden_states(model, batch)
    losses = functional.cross_entropy(model.lm_head(hidden).float(), tokens, reduction="none")
    return (losses * weights).sum() / weights.sum()


def distillation_loss(target: Any) -> Loss:
    """A loss that pulls the draft's distribution to the target's at every answer token, with some cross-entropy.

    At temperature 0 only the target's first choice counts for acceptance, hence the cross-entropy with that choice;
    above it, coupled sampling accepts the more the closer the two distributions are, hence the divergence.
    """

    def loss(model: Any, batch: Batch) -> Tensor:
        import torch
        from torch.nn import functional

        with torch.no_grad():
            taught, _, _ = hidden_states(target, batch, 0.5)
            wanted = target.lm_head(taught).float().log_softmax(-1)
        hidden, _, weights = hidden_states(model, batch, 0.5)
        logits = model.lm_head(hidden).float()
        divergence = functional.kl_div(logits.log_softmax(-1), wanted, log_target=True, reduction="none").sum(-1)
        choice = functional.cross_entropy(logits, wanted.argmax(-1), reduction="none")
        return ((divergence + 0.5 * choice) * weights).sum() / weights.sum()

    return loss


def average_gradients(model: Any) -> None:
    """Give every worker the mean of all workers' gradients; nothing to do when there is only one."""
    import torch
    from torch import distributed

    if not distributed.is_initialized():
        return
    gradients = [p.grad for p in model.parameters()]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    distributed.all_reduce(flat)
    flat /= distributed.get_world_size()
    for gradient, mean in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def train(
    model: Any,
    data: Callable[[int], Iterator[tuple[int, Batch]]],
    loss: Loss,
    recipe: Recipe,
    log: Callable[[str], None],
) -> Outcome:
    """Train in place; `data(n)` yields batches from conversation n on. Resumes from the checkpoint if there is one."""
    import torch

    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.95), fused=True)
    step = tokens = position = 0
    seconds = average = 0.0
    if recipe.checkpoint.exists():
        state = torch.load(recipe.checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, tokens, position, seconds, average = state["progress"]
        log(f"resumed at step {step}")
    model.train()
    feed = data(position)
    while step < recipe.steps:
        start = time.perf_counter()
        position, batch = next(feed)
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * rate_factor(step, recipe.steps)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = loss(model, batch)
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        average_gradients(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        tokens += int((batch.ids != 0).sum())
        seconds += time.perf_counter() - start
        average = value.item() if step == 1 else 0.98 * average + 0.02 * value.item()
        if step % LOG_EVERY == 0:
            log(f"step {step}/{recipe.steps} loss {average:.4f} tokens {tokens} seconds {seconds:.0f}")
        if step % SAVE_EVERY == 0 or step == recipe.steps:
            progress = (step, tokens, position, seconds, average)
            recipe.checkpoint.parent.mkdir(parents=True, exist_ok=True)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "progress": progress}
            torch.save(state, recipe.checkpoint.with_suffix(".new"))
            recipe.checkpoint.with_suffix(".new").replace(recipe.checkpoint)
    model.eval()
    return Outcome(step, tokens, seconds, average)
