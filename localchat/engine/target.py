"""A causal language model with its cache: the only file that calls a transformers model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from localchat.engine.attention import NAME, attend
from localchat.engine.cache import Cache, Step
from localchat.engine.head_config import FINAL
from localchat.engine.layers import Attend
from localchat.engine.packed import plain_weight
from localchat.engine.sizes import PREFILL_CHUNK, padded
from localchat.engine.traffic import upload
from localchat.engine.types import ROOT, Draft, Tapped, common_prefix

LENT = "localchat-lent"
"""Under which transformers finds the attention that a `Block` is given."""

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


def decoder_layers(model: Any) -> Sequence[nn.Module]:
    """The decoder layers of a transformers model, the first one first."""
    lists = (part for part in model.modules() if isinstance(part, nn.ModuleList))
    return list(next(part for part in lists if len(part) == model.config.get_text_config().num_hidden_layers))


class Target:
    """A model that verifies (or, as a draft model, is a `growth.Network`), and the tokens its cache holds.

    Args:
        model: a transformers causal language model in evaluation mode.
        context: most tokens of a conversation.
        vocabulary: logits beyond this are padding and are cut off; 0 keeps all.
        banned: ids never to be proposed, because they mean something else to the target.
    """

    fixed_width = 0
    """Exact mode: every verification runs at this many rows, the rest is padding. 0: any width."""

    ends: frozenset[int] = frozenset()
    """Ids after which nothing is worth drafting."""

    def __init__(self, model: Any, context: int, vocabulary: int = 0, banned: Sequence[int] = ()) -> None:
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
        self._above: list[int] = []
        self._hooks: list[Any] = []
        self._tapped: list[Tensor] = []
        self._prompt_rows = 0
        self._prompt_taps: list[tuple[Tensor, ...]] = []

    def tap(self, layers: Sequence[int], rows: int) -> None:
        """Record hidden states from now on; what was asked for before is dropped.

        Args:
            layers: decoder layers whose output is wanted, FINAL being what the output head reads. None: record nothing.
            rows: how many of a prompt's last states are kept.
        """
        for hook in self._hooks:
            hook.remove()
        self._prompt_rows, self._prompt_taps, self._tapped = rows, [], []
        blocks = decoder_layers(self.model) if layers else ()
        self._hooks = []
        for place, layer in enumerate(layers):
            module = self.model.base_model if layer == FINAL else blocks[layer]
            self._hooks.append(module.register_forward_hook(partial(self._record, place)))
        self._tapped = [torch.empty(0)] * len(layers)

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

    def _record(self, place: int, _module: nn.Module, _inputs: object, output: Tensor | Sequence[Tensor]) -> None:
        self._tapped[place] = (output if isinstance(output, Tensor) else output[0])[0]

    def reduce_head(self, ids: Sequence[int]) -> None:
        """Score only these tokens (ascending): a draft model's cheaper head; replies do not change."""
        if self.banned is not None:
            banned = set(self.banned.tolist())
            ids, self.banned = [token for token in ids if token not in banned], None
        weight = plain_weight(self._head)
        self.head_ids = torch.tensor(list(ids), device=self.device)
        small = nn.Linear(weight.shape[1], len(ids), bias=False, device=self.device, dtype=weight.dtype)
        small.weight.data = weight[self.head_ids].clone()
        self.model.set_output_embeddings(small.requires_grad_(False))

    @torch.inference_mode()
    def _run(self, ids: Tensor, step: Step, keep: int | Tensor) -> Tensor:
        """Forward `ids` [width] and return logits of the rows `keep`, or of the last `keep` rows (0: all)."""
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
            width = len(chunk) + padding
            self._run(self._known([*chunk, *chunk[-1:] * padding]), self.cache.begin(width), keep=1)
            self.cache.advance(len(chunk))
            self.tokens += chunk
            # Of every chunk but the last few nothing is wanted.
            if self._hooks and len(tokens) - len(self.tokens) < self._prompt_rows:
                self._prompt_taps.append(tuple(tap[: len(chunk)] for tap in self._tapped))
            yield begin + len(chunk) - kept, total

    def prompt_tapped(self) -> Tapped | None:
        """Hidden states of the last tokens that the last prefill computed, [tokens, hidden] per tapped layer.

        They are given away: a second call has none.
        """
        if not self._prompt_taps:
            return None
        layers = zip(*self._prompt_taps, strict=True)
        self._prompt_taps = []
        return Tapped(tuple(torch.cat(layer)[-self._prompt_rows :] for layer in layers))

    def root(self, tokens: Sequence[int]) -> Tensor:
        """Read what the cache lacks of `tokens`, at least the last one: logits [1, n] of what follows."""
        unread = tokens[len(self.tokens) :]
        width = padded(len(unread))
        last = 1 if width == len(unread) else upload([len(unread) - 1], self.device)
        ids = self._known([*unread, *[unread[-1]] * (width - len(unread))])
        logits = self._run(ids, self.cache.begin(width), keep=last)
        self.cache.advance(len(unread))
        self.tokens += unread
        self._above = []
        return self._allowed(logits)

    def level(self, ids: Tensor, above: Sequence[int]) -> Tensor:
        """Add rows to a draft of one's own (`settle` says which stand): logits [rows, n] of what follows each.

        Args:
            ids: int64 [rows], maybe still on the device.
            above: the row of this draft that each follows, or ROOT.
        """
        held, rows = len(self._above), len(ids)
        self._above += above
        width = padded(rows)
        ids = torch.cat((ids, ids[-1:].expand(width - rows))) if width > rows else ids
        step = self.cache.begin(width, self._above, held=held)
        return self._allowed(self._run(ids, step, keep=0)[:rows])

    def _known(self, tokens: Sequence[int]) -> Tensor:
        """Ids as a tensor; those a smaller draft vocabulary lacks become its last one, which only costs acceptance."""
        return upload(list(tokens), self.device).clamp_(max=self.config.vocab_size - 1)

    def settle(self, rows: Sequence[int], tokens: Sequence[int]) -> None:
        """Keep these rows of the draft made by `level`, whose tokens are `tokens`; forget the others."""
        self.cache.keep(rows)
        self.tokens += tokens
        self._above = []

    def _allowed(self, logits: Tensor) -> Tensor:
        """Logits without the banned ids (a reduced head never scores more than the ids it was given)."""
        return logits if self.banned is None else logits.index_fill(1, self.banned, float("-inf"))

    def forward(self, token: int, draft: Draft) -> Output:
        """Verify: one forward over the last emitted token and the draft."""
        rows = len(draft) + 1
        width = max(padded(rows), self.fixed_width)
        ids = torch.full((width,), token, device=self.device)
        if draft.ids is not None:
            ids[1:rows].copy_(draft.ids, non_blocking=True)
        parents = (ROOT, *(parent + 1 for parent in draft.parents))
        step = self.cache.begin(width, parents, fixed_read=self.fixed_width > 0)
        logits = self._run(ids, step, keep=0)
        return Output(logits if self.fixed_width else logits[:rows], tuple(tap[:rows] for tap in self._tapped))

    def keep(self, token: int, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Keep the row of `token` and the accepted path, whose tokens are `tokens`."""
        self.cache.keep((0, *(node + 1 for node in path)))
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


class Block(nn.Module):
    """A decoder layer of a model's own class with fresh weights, called as `layers.Block` says (a step of Mtp).

    It is of the kind of the model's last layer, names its weights as that layer does, and turns rows by the model's
    own rotary module. Created where and as torch's defaults say; cast it with the head it belongs to.

    Args:
        model: a transformers causal language model.
        index: which layer `attend` is told it is.
    """

    def __init__(self, model: Any, index: int = 0) -> None:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        super().__init__()
        ALL_ATTENTION_FUNCTIONS.register(LENT, _lend)
        config = copy.deepcopy(model.config.get_text_config())
        config._attn_implementation = LENT
        decoder = next(m for m in model.modules() if hasattr(m, "rotary_emb") and hasattr(m, "layers"))
        layer = type(decoder.layers[-1])(config, config.num_hidden_layers - 1)
        with torch.no_grad():
            layer.apply(model._init_weights)
        for name, child in layer.named_children():  # not the layer itself, so that names are those it gives
            self.add_module(name, child)
        self.index = index
        self._borrowed = (layer, decoder.rotary_emb)
        kinds = getattr(config, "layer_types", None) if hasattr(decoder.rotary_emb, "layer_types") else None
        self._kind: tuple[str, ...] = (kinds[-1],) if kinds else ()

    def forward(self, rows: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """[B, T, hidden] to [B, T, hidden]; positions [T]."""
        layer, rotary = self._borrowed
        result: Tensor = layer(
            rows,
            position_embeddings=rotary(rows, positions[None], *self._kind),
            attention_mask=None,
            position_ids=positions[None],
            lent=partial(attend, self.index),
        )
        return result


def _lend(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Tensor | None,
    *,
    scaling: float,
    lent: Callable[[Tensor, Tensor, Tensor, float], Tensor],
    **_: object,
) -> tuple[Tensor, None]:
    """Attention of a `Block`, which the caller lends it; signature and layout are transformers'."""
    return lent(query, key, value, scaling).transpose(1, 2), None
