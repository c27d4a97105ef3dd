"""A causal language model with its cache: the only file that calls a transformers model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from localchat.engine.attention import NAME, attend
from localchat.engine.cache import Cache
from localchat.engine.packed import PackedLinear
from localchat.engine.traffic import upload
from localchat.engine.types import PREFILL_CHUNK, Draft, Tapped, common_prefix, padded

_PREFILL_STEP = 32
"""Prompt chunks are padded to a multiple of this many rows."""


@dataclass(frozen=True, slots=True)
class Output:
    """Result of a verification."""

    logits: Tensor
    """[rows, vocabulary]: row 0 follows the last emitted token, row i + 1 follows node i; then exact mode's padding,
    so that choosing tokens has a fixed shape too."""
    tapped: tuple[Tensor, ...]
    """Hidden states [rows, hidden] of the tapped layers."""


def layer_windows(config: Any) -> list[int | None]:
    """Per decoder layer the sliding window in tokens, or None for full attention."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return [window] * config.num_hidden_layers
    return [window if kind == "sliding_attention" else None for kind in kinds]


class Target:
    """A model that verifies (or, as a draft model, proposes), and the tokens its cache holds.

    Args:
        model: a transformers causal language model in evaluation mode.
        context: most tokens of a conversation.
        vocabulary: logits beyond this are padding and are cut off; 0 keeps all.
        taps: decoder layers whose output is recorded; -1 is the last.
        banned: ids never to be proposed, because they mean something else to the target.
    """

    fixed_width = 0
    """Exact mode: every verification runs at this many rows, the rest is padding. 0: any width."""

    ends: frozenset[int] = frozenset()
    """Ids after which nothing is worth drafting. Looking costs a synchronisation, so this is set on the CPU only."""

    def __init__(
        self, model: Any, context: int, vocabulary: int = 0, taps: Sequence[int] = (), banned: Sequence[int] = ()
    ) -> None:
        self.model = model
        self.config = model.config.get_text_config()
        self.context = context
        self.vocabulary = vocabulary or self.config.vocab_size
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.get_input_embeddings().weight.dtype
        self.tokens: list[int] = []
        windows = layer_windows(self.config)
        self.packed = self._adopt_attention(windows)
        heads = self.config.num_attention_heads
        groups = heads // (getattr(self.config, "num_key_value_heads", None) or heads) if self.packed else 1
        self.cache = Cache(windows, context, groups, self.dtype, self.device)
        self.banned = torch.tensor(list(banned), device=self.device) if banned else None
        self.head_ids: Tensor | None = None
        self._head: Any = model.get_output_embeddings()
        self._taps: list[Tensor] = []
        self._prompt_taps: list[tuple[Tensor, ...]] = []
        for tap in taps:
            self._decoder_layers()[tap].register_forward_hook(self._record)

    def _decoder_layers(self) -> nn.ModuleList:
        lists = [m for m in self.model.modules() if isinstance(m, nn.ModuleList)]
        return next(m for m in lists if len(m) == self.config.num_hidden_layers)

    def _adopt_attention(self, windows: Sequence[int | None]) -> bool:
        """Install our attention if the model can use it; True if it does."""
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        modules = [m for m in self.model.modules() if hasattr(m, "layer_idx") and hasattr(m, "o_proj")]
        sinks = any(hasattr(m, "sinks") for m in modules)
        if not self.model._supports_attention_backend or sinks or len(modules) != len(windows):
            self.model.set_attn_implementation("eager")
            return False
        ALL_ATTENTION_FUNCTIONS.register(NAME, attend)
        self.model.set_attn_implementation(NAME)
        for module in modules:
            module.window = windows[module.layer_idx]
        return True

    def _record(self, _module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        self._taps.append((output[0] if isinstance(output, tuple) else output)[0])

    def reduce_head(self, ids: Sequence[int]) -> None:
        """Score only these tokens (ascending): a draft model's cheaper head; replies do not change."""
        if self.banned is not None:
            banned = set(self.banned.tolist())
            ids, self.banned = [token for token in ids if token not in banned], None
        head = self._head
        weight = head.unpacked() if isinstance(head, PackedLinear) else head.weight.detach()
        self.head_ids = torch.tensor(list(ids), device=self.device)
        small = nn.Linear(weight.shape[1], len(ids), bias=False, device=self.device, dtype=weight.dtype)
        small.weight.data = weight[self.head_ids].clone()
        self.model.set_output_embeddings(small.requires_grad_(False))

    @torch.inference_mode()
    def _run(self, ids: Tensor, parents: Sequence[int], keep: int | Tensor, *, fixed_read: bool = False) -> Tensor:
        """Forward `ids` [width] and return logits of the rows `keep`, or of the last `keep` rows (0: all)."""
        step = self.cache.begin(len(ids), parents, fixed_read=fixed_read)
        self._taps = []
        mask: Any = None
        if not self.packed:
            masks = {window: view.mask[None, None] for window, view in step.views.items()}
            sliding = next((one for window, one in masks.items() if window is not None), None)
            kinds = {"full_attention": masks.get(None), "sliding_attention": sliding}
            mask = kinds if len(masks) > 1 else next(iter(masks.values()))
        result = self.model(
            input_ids=ids[None],
            position_ids=step.positions[None],
            attention_mask=mask,
            cache=self.cache,
            use_cache=True,
            logits_to_keep=keep,
            **({"step": step} if self.packed else {}),
        )
        logits: Tensor = result.logits[0]
        return logits if self.head_ids is not None else logits[:, : self.vocabulary]

    def reuse(self, tokens: Sequence[int]) -> int:
        """Roll the cache back to what it shares with `tokens`, and say how many tokens that is."""
        kept = self.cache.truncate(common_prefix(self.tokens, tokens))
        del self.tokens[kept:]
        return kept

    def prefill(self, tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Make the cache hold exactly `tokens`, computing what it does not share with them, chunk by chunk.

        Yields:
            (done, total) of the tokens to be computed, before the first chunk and after each; the consumer may stop
            in between.
        """
        kept = self.reuse(tokens)
        self._prompt_taps = []
        total = len(tokens) - kept
        yield 0, total
        for begin in range(kept, len(tokens), PREFILL_CHUNK):
            chunk = list(tokens[begin : begin + PREFILL_CHUNK])
            # Few different widths: the CPU's library builds and keeps a kernel for each it meets.
            padding = -len(chunk) % _PREFILL_STEP
            self._run(self._known([*chunk, *chunk[-1:] * padding]), (), keep=1)
            self.cache.advance(len(chunk))
            self.tokens += chunk
            if self._taps:
                self._prompt_taps.append(tuple(tap[: len(chunk)] for tap in self._taps))
            yield begin + len(chunk) - kept, total

    def prompt_tapped(self) -> Tapped | None:
        """Hidden states of the tokens the last prefill computed, [tokens, hidden] per tapped layer."""
        if not self._prompt_taps:
            return None
        return Tapped(tuple(torch.cat(layer) for layer in zip(*self._prompt_taps, strict=True)))

    def extend(self, tokens: Sequence[int]) -> Tensor:
        """Append `tokens` to the cache and return the logits [n] that follow the last one (for drafting)."""
        count = len(tokens)
        padding = padded(count) - count
        last = upload([count - 1], self.device)
        logits = self._run(self._known([*tokens, *[tokens[-1]] * padding]), (), keep=last)
        self.cache.advance(len(tokens))
        self.tokens += tokens
        return self._allowed(logits[-1])

    def follow(self, token: Tensor) -> Tensor:
        """Append one proposed token that may still be on the device; `settle` names it later."""
        logits = self._run(token[None], (), keep=1)
        self.cache.advance(1)
        return self._allowed(logits[-1])

    def _known(self, tokens: Sequence[int]) -> Tensor:
        """Ids as a tensor; those a smaller draft vocabulary lacks become its last one, which only costs acceptance."""
        return upload(list(tokens), self.device).clamp_(max=self.config.vocab_size - 1)

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """Name the rows appended by `follow` of which the first `accepted` stand; forget the rest."""
        followed = self.cache.length - len(self.tokens)
        self.tokens += tokens[: min(accepted, followed)]
        self.cache.truncate(len(self.tokens))

    def _allowed(self, logits: Tensor) -> Tensor:
        """Logits without the banned ids (a reduced head never scores more than the ids it was given)."""
        return logits if self.banned is None else logits.index_fill(0, self.banned, float("-inf"))

    def forward(self, token: int, draft: Draft) -> Output:
        """Verify: one forward over the last emitted token and the draft."""
        rows = len(draft) + 1
        width = max(padded(rows), self.fixed_width)
        ids = torch.full((width,), token, device=self.device)
        if draft.ids is not None:
            ids[1:rows].copy_(draft.ids, non_blocking=True)
        logits = self._run(ids, draft.parents, keep=0, fixed_read=self.fixed_width > 0)
        return Output(logits if self.fixed_width else logits[:rows], tuple(tap[:rows] for tap in self._taps))

    def keep(self, token: int, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Keep the row of `token` and the accepted path, whose tokens are `tokens`."""
        self.cache.keep(path)
        self.tokens += [token, *tokens]

    def truncate(self, length: int) -> None:
        """Forget everything from `length` on."""
        del self.tokens[self.cache.truncate(length) :]

    def tapped(self, rows: Sequence[int], output: Output) -> Tapped | None:
        """Hidden states of the given rows of a verification."""
        if not output.tapped:
            return None
        index = upload(list(rows), self.device)
        return Tapped(tuple(layer[index] for layer in output.tapped))
