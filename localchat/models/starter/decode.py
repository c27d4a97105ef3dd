"""Batched decoding with Gumbel noise, for scoring the pair and for making the draft's training texts.

The noise belongs to (step, row), so target and draft can be compared under the same noise, as the engine couples them;
the engine's own noise is another function, but its odds are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localchat.models.starter.tokenizer import END_ID, PAD_ID

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Sampler:
    """How tokens are picked: temperature 0 takes the most likely one."""

    temperature: float = 0.0
    seed: int = 0

    def pick(self, logits: Tensor, step: int) -> Tensor:
        """The tokens [rows] for logits [rows, vocabulary] of answer position `step`."""
        if self.temperature == 0:
            return logits.argmax(-1)
        import torch

        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        uniform = torch.rand(logits.shape, generator=generator).clamp_min(1e-20)
        return (logits.float() / self.temperature - (-uniform.log()).log()).argmax(-1)


def decode(model: Any, prompts: Sequence[Sequence[int]], sampler: Sampler, longest: int) -> list[list[int]]:
    """The answers' token ids, each with its end token unless cut at `longest`; all prompts run as one batch."""
    import torch

    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[PAD_ID] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    positions = (mask.cumsum(-1) - 1).clamp_min(0)
    cache, chosen = None, []
    done = torch.zeros(len(prompts), dtype=torch.bool)
    with torch.inference_mode():
        for step in range(longest):
            out = model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = out.cache
            tokens = sampler.pick(out.logits[:, -1], step).masked_fill(done, PAD_ID)
            chosen.append(tokens)
            done |= tokens == END_ID
            if bool(done.all()):
                break
            ids = tokens[:, None]
            positions = positions[:, -1:] + 1
            mask = torch.cat([mask, torch.ones_like(ids)], 1)
    rows = torch.stack(chosen, 1).tolist()
    return [row[: row.index(END_ID) + 1] if END_ID in row else row for row in rows]


def matches(
    draft: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], sampler: Sampler
) -> list[list[bool]]:
    """For each answer token, whether the draft would pick it after the same text and under the same noise."""
    import torch

    longest = max(len(answer) for answer in answers)
    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    width = max(len(row) for row in rows)
    ids = torch.tensor([row + [PAD_ID] * (width - len(row)) for row in rows])
    with torch.inference_mode():
        logits = draft(input_ids=ids).logits
    starts = torch.tensor([len(prompt) - 1 for prompt in prompts])
    every = torch.arange(len(rows))
    picked = [sampler.pick(logits[every, (starts + step).clamp_max(width - 1)], step) for step in range(longest)]
    table = torch.stack(picked, 1).tolist()
    return [[a == b for a, b in zip(answer, row, strict=False)] for answer, row in zip(answers, table, strict=True)]


def tokens_per_round(agreed: Sequence[Sequence[bool]], depth: int) -> float:
    """Emitted tokens per round for a chain of `depth` drafted tokens, from `matches` of some answers."""
    tokens = rounds = 0
    for answer in agreed:
        at = 0
        while at < len(answer):
            accepted = 0
            while accepted < depth and at + accepted < len(answer) and answer[at + accepted]:
                accepted += 1
            at += accepted + 1
            rounds += 1
        tokens += len(answer)
    return tokens / max(1, rounds)
