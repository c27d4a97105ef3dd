"""Text that the target writes itself: what a drafter must learn to foresee is the target's own choice of words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from localchat.train.texts import Text

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 32
"""Texts that are written at once: a step reads the weights for all of them."""

LONGEST = 224
"""Tokens of a text beyond its opening."""

TEMPERATURES = (0.0, 0.7, 0.0, 1.0)
"""Taken in turn: people chat greedily and above it."""

_LEAD = 6
"""First tokens of a greedy text that are drawn at temperature 1, so that an opening used twice gives two texts."""

_LIKELY = 64
"""Tokens that are drawn from: one pass over a large vocabulary in place of several."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When enough has been written: whichever comes first."""

    tokens: int
    seconds: float = float("inf")


def write(
    model: Any,
    openings: Iterable[Sequence[int]],
    ends: frozenset[int],
    budget: Budget,
    seed: int = 0,
    stop: Callable[[], bool] = lambda: False,
    rows: int = ROWS,
) -> Iterator[Text]:
    """Let a transformers causal language model go on with openings, many at once.

    Args:
        model: in evaluation mode, with transformers' own attention.
        openings: token ids, each at least one; more are taken until the budget is spent.
        ends: ids after which a text is complete.
        budget: tokens written beyond the openings, and seconds.
        seed: texts depend on it and on the openings alone (and on the seconds, where those cut a text).
        stop: asked before every token; once it is true, texts end where they are.
        rows: texts that are written at once.

    Yields:
        Texts, batch by batch; of the last batch some may be cut short.
    """
    import torch

    deadline = time.monotonic() + budget.seconds
    generator = torch.Generator(model.device).manual_seed(seed)
    feed, written = iter(openings), 0

    def enough() -> bool:
        return time.monotonic() >= deadline or stop()

    while written < budget.tokens and not enough():
        batch = list(islice(feed, rows))
        if not batch:
            return
        for text in _write_batch(model, batch, ends, enough, generator):
            written += len(text.tokens) - text.opening
            yield text


def _write_batch(
    model: Any, openings: Sequence[Sequence[int]], ends: frozenset[int], enough: Callable[[], bool], generator: Any
) -> list[Text]:
    """One batch from its openings to the end of each text; a row that has ended leaves the batch."""
    import torch

    width, device = max(map(len, openings)), model.device
    texts = [list(opening) for opening in openings]
    ids = torch.tensor([[0] * (width - len(text)) + text for text in texts], device=device)
    mask = torch.tensor([[0] * (width - len(text)) + [1] * len(text) for text in texts], device=device)
    heat = torch.tensor([TEMPERATURES[row % len(TEMPERATURES)] for row in range(len(texts))], device=device)
    alive, cache = list(range(len(texts))), None
    positions = (mask.cumsum(-1) - 1).clamp_min(0)
    for step in range(LONGEST):
        with torch.inference_mode():
            out = model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        cache = out.cache
        tokens = draw(out.logits[:, -1], heat if step >= _LEAD else heat + (heat == 0), generator)
        chosen = tokens.tolist()
        for row, token in zip(alive, chosen, strict=True):
            texts[row].append(token)
        going = [at for at, token in enumerate(chosen) if token not in ends]
        if not going or enough():
            break
        if len(going) < len(alive):
            keep = torch.tensor(going, device=device)
            cache.batch_select_indices(keep)
            alive = [alive[at] for at in going]
            tokens, heat, mask, positions = tokens[keep], heat[keep], mask[keep], positions[keep]
        ids, positions = tokens[:, None], positions[:, -1:] + 1
        mask = torch.cat([mask, torch.ones_like(ids)], 1)
    return [Text(tuple(text), len(opening)) for text, opening in zip(texts, openings, strict=True)]


def draw(logits: Tensor, temperatures: Tensor, generator: Any) -> Tensor:
    """One token [rows] for each row of logits [rows, vocabulary] at its own temperature [rows]; 0 takes the best."""
    import torch

    values, ids = logits.topk(min(_LIKELY, logits.shape[-1]), dim=-1)
    greedy = temperatures == 0
    chances = (values.float() / temperatures.masked_fill(greedy, 1.0)[:, None]).softmax(-1)
    drawn = torch.multinomial(chances, 1, generator=generator)[:, 0].masked_fill(greedy, 0)
    return ids.gather(1, drawn[:, None])[:, 0]
