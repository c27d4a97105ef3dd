"""How much memory a model takes: one pure function of shapes, no torch. Every figure is in bytes.

The settings screen, `fit`, the loader's refusal and `doctor` all use it, so they can never disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localchat.engine.sizes import MAX_WIDTH, PREFILL_CHUNK, cache_rows
from localchat.errors import ModelError
from localchat.models.folders import TensorInfo, beyond, read_config, tensors, text_config, weight_files
from localchat.models.footprint import DRAW_BYTES, Footprint, item_bytes, stored_bytes
from localchat.models.plan import Precision

MIB, GIB = 2**20, 2**30

LEAST_CONTEXT = 1024
"""The smallest context worth offering, in tokens."""

_GEMMA3_DEFAULTS = dict(num_attention_heads=8, num_key_value_heads=4, head_dim=256, vocab_size=262208)  # noqa: C408
_GEMMA3_DEFAULTS["max_position_embeddings"] = 131072  # published configs leave these out at their usual values


@dataclass(frozen=True, slots=True)
class Shape:
    """What memory and speed depend on. Parameter counts, not bytes."""

    model_type: str
    windows: tuple[int | None, ...]
    """One per layer: the sliding window in tokens, or None for full attention."""
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    """Rows of the head, padding included."""
    tied: bool
    max_context: int
    """Tokens the model can hold; 0 if its config does not say."""
    linear: int
    """Parameters in linear layers that can be quantized."""
    linear_rows: int
    """Output rows of those layers (int8 keeps one fp32 scale for each)."""
    embedding: int
    """Embedding and head; counted once when tied."""
    other: int
    """Norms, biases, routers, experts: never quantized."""
    expert: int = 0
    """The experts' part of `other`."""
    expert_share: float = 1.0
    """Part of the experts that one token uses."""

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.linear + self.embedding + self.other

    @property
    def mixture(self) -> bool:
        """True for a mixture of experts."""
        return self.expert > 0

    @property
    def attached(self) -> bool:
        """It stands by itself; see `Footprint`."""
        return False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Shape:
        """Read a config.json; counts are those of a Llama-like block (gated MLP, no biases).

        Raises:
            ModelError: a size is missing.
        """
        text = text_config(config)
        if text.get("model_type") == "gemma3_text":
            text = {**_GEMMA3_DEFAULTS, **text}
        hidden = _first(text, "hidden_size", "n_embd", "d_model")
        layers = _first(text, "num_hidden_layers", "n_layer", "num_layers")
        heads = _first(text, "num_attention_heads", "n_head")
        kv_heads = int(text.get("num_key_value_heads") or heads)
        head_dim = int(text.get("head_dim") or hidden // heads)
        intermediate = _first(text, "intermediate_size", "n_inner", "ffn_dim", default=4 * hidden)
        vocab = _first(text, "vocab_size")
        kind = str(text.get("model_type", ""))
        tied = bool(text.get("tie_word_embeddings", kind.startswith(("gemma", "gpt2", "cohere"))))
        experts = _first(text, "num_experts", "num_local_experts", "n_routed_experts", default=0)
        expert_width = int(text.get("moe_intermediate_size") or intermediate)
        expert = layers * experts * 3 * hidden * expert_width if experts > 1 else 0
        attention_rows = (heads + 2 * kv_heads) * head_dim + hidden
        mlp_rows = 0 if expert else 2 * intermediate + hidden
        attention = hidden * 2 * (heads + kv_heads) * head_dim
        mlp = 0 if expert else 3 * hidden * intermediate
        norms = layers * 2 * hidden + hidden
        return cls(
            model_type=kind,
            windows=_windows(text, layers),
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            intermediate=intermediate,
            vocab=vocab,
            tied=tied,
            max_context=_longest(text),
            linear=layers * (attention + mlp),
            linear_rows=layers * (attention_rows + mlp_rows),
            embedding=vocab * hidden * (1 if tied else 2),
            other=norms + expert,
            expert=expert,
            expert_share=_first(text, "num_experts_per_tok", default=experts) / experts if experts else 1.0,
        )

    @classmethod
    def from_folder(cls, folder: Path) -> Shape:
        """Read a model folder; parameters are counted in the headers of its weight files.

        Raises:
            ModelError: no config.json, or damaged weight files.
        """
        shape = cls.from_config(read_config(folder))
        return shape.counted(tensors(folder)) if weight_files(folder) else shape

    def counted(self, infos: tuple[TensorInfo, ...]) -> Shape:
        """This shape with the parameter counts of real tensors; layers that look ahead (`beyond`) are not loaded."""
        linear = rows = embedding = other = expert = 0
        for info in infos:
            if beyond(info.name, len(self.windows)):
                continue
            if ".experts." in info.name:
                expert += info.count
                other += info.count
            elif _is_vocabulary(info.name):
                embedding += 0 if self.tied and _is_head(info.name) else info.count
            elif len(info.shape) == 2 and info.name.endswith(".weight") and not _kept(info.name):
                linear += info.count
                rows += info.shape[0]
            else:
                other += info.count
        return replace(self, linear=linear, linear_rows=rows, embedding=embedding, other=other, expert=expert)

    def weight_bytes(self, precision: Precision, *, repacked: bool = False) -> int:
        """Memory of the loaded weights.

        Args:
            precision: anything but AUTO.
            repacked: on a CPU with bf16 instructions, where weights are laid out for its kernels: NF4 scales are stored
                unnested, and a head that shares its weight with the embedding is stored a second time.
        """
        copied = self.vocab * self.hidden if repacked and self.tied and item_bytes(precision) == 2 else 0
        rest = self.embedding + copied + self.other
        return stored_bytes(self.linear, self.linear_rows, rest, precision, repacked=repacked)

    def step_bytes(self, precision: Precision) -> float:
        """Bytes one decoding step reads: linear layers, the head, and the experts a token uses."""
        size = item_bytes(precision)
        lookup = 0 if self.tied else self.vocab * self.hidden
        idle = self.expert * (1.0 - self.expert_share)
        return self.weight_bytes(precision) - (lookup + idle) * size

    def cache_bytes(self, context: int, precision: Precision) -> int:
        """Keys and values of every layer, as preallocated for `context` tokens."""
        row = 2 * self.kv_heads * self.head_dim * item_bytes(precision)
        return sum(row * cache_rows(context, window) for window in self.windows)

    def activation_bytes(self, context: int, precision: Precision, rows: int) -> int:
        """Peak scratch memory: a prefill chunk through one block with its mask, or `rows` rows of logits.

        NF4 adds its largest linear layer unpacked, as wide inputs are multiplied with unpacked weights.
        """
        size = item_bytes(precision)
        block = PREFILL_CHUNK * (6 * self.hidden + 3 * self.intermediate + 2 * self.heads * self.head_dim) * size
        mask = PREFILL_CHUNK * cache_rows(context, None) * size
        logits = rows * self.vocab * DRAW_BYTES
        unpacked = self.hidden * self.intermediate * size if precision is Precision.NF4 else 0
        return max(block + mask + unpacked, logits)


def _first(config: Mapping[str, Any], *keys: str, default: int | None = None) -> int:
    for key in keys:
        if isinstance(config.get(key), int):
            return int(config[key])
    if default is None:
        raise ModelError(f"config.json does not say {keys[0]}.", "Download the model again, or choose another one.")
    return default


def _windows(text: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    """Each layer's sliding window, by the rules the model families use."""
    window, kind = text.get("sliding_window"), str(text.get("model_type", ""))
    if not isinstance(window, int) or not text.get("use_sliding_window", not kind.startswith("qwen")):
        return (None,) * layers
    if types := text.get("layer_types"):
        return tuple(window if kind == "sliding_attention" else None for kind in types)
    if kind.startswith("qwen"):
        first = int(text.get("max_window_layers", layers))
        return tuple(window if layer >= first else None for layer in range(layers))
    default = 2 if kind == "gemma2" else 6 if kind.startswith("gemma3") else 0
    pattern = _first(text, "sliding_window_pattern", "_sliding_window_pattern", default=default)
    return tuple(window if not pattern or (layer + 1) % pattern else None for layer in range(layers))


def _longest(text: Mapping[str, Any]) -> int:
    """Tokens a model can hold: fewer than stated if it would turn to other rotary frequencies on the way."""
    longest = _first(text, "max_position_embeddings", "n_positions", "n_ctx", default=0)
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    if (rope.get("rope_type") or rope.get("type")) not in ("dynamic", "longrope", "su"):
        return longest
    # A draft must not bring the change about, so its rows stay below it too.
    return max(0, int({**text, **rope}.get("original_max_position_embeddings") or longest) - MAX_WIDTH)


def _is_head(name: str) -> bool:
    return name.endswith(("lm_head.weight", "embed_out.weight"))


def _kept(name: str) -> bool:
    """True for a matrix that is no linear layer: a norm, or a table of positions."""
    return "norm" in name or "embed" in name or name.endswith("wpe.weight")


def _is_vocabulary(name: str) -> bool:
    return _is_head(name) or name.endswith(("embed_tokens.weight", "wte.weight", "embed_in.weight"))


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What a load will take, part by part, against what there is."""

    target: int
    draft: int
    target_cache: int
    draft_cache: int
    activations: int
    """Logits and the prefill chunk."""
    reserve: int
    """Kept free: graphs, fragmentation, other programs."""
    available: int
    context: int
    """Tokens."""
    longest_context: int
    """Tokens that would fit with these precisions, at most the model's own maximum; 0 if none."""
    precision: str
    draft_precision: str
    """Empty when there is no draft model."""

    @property
    def total(self) -> int:
        """All parts, the reserve included."""
        return self.target + self.draft + self.target_cache + self.draft_cache + self.activations + self.reserve

    @property
    def fits(self) -> bool:
        """True if the total is not above what is available."""
        return self.total <= self.available

    @property
    def shortfall(self) -> int:
        """Bytes missing; 0 if it fits."""
        return max(0, self.total - self.available)

    @property
    def free(self) -> int:
        """Bytes left over; 0 if it does not fit."""
        return max(0, self.available - self.total)

    def parts(self) -> tuple[tuple[str, int], ...]:
        """Name and bytes of every part that is not empty, in the order they are shown."""
        named = (
            ("target", self.target),
            ("draft", self.draft),
            ("target cache", self.target_cache),
            ("draft cache", self.draft_cache),
            ("working memory", self.activations),
            ("reserve", self.reserve),
        )
        return tuple((name, size) for name, size in named if size)


@dataclass(frozen=True, slots=True)
class Request:
    """What a memory plan is made for."""

    target: Shape
    draft: Footprint | None
    context: int
    precision: Precision
    draft_precision: Precision
    """A head's is its target's."""
    available: int
    reserve: int
    rows: int = 16
    """Rows of one verification."""
    repacked: bool = False
    """See Shape.weight_bytes."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that would make it fit."""

    title: str
    """In words: "context 4096 instead of 16384"."""
    request: Request
    plan: MemoryPlan


def default_reserve(total: int, *, cuda: bool) -> int:
    """Bytes to keep free on a device with `total` bytes: graphs and fragmentation, or room for other programs."""
    return max(384 * MIB, total // 32) if cuda else max(256 * MIB, min(total // 32, 2 * GIB))


def plan_memory(request: Request) -> MemoryPlan:
    """The memory plan of a request; it may not fit (see `MemoryPlan.fits`)."""
    plan = _plan(request, request.context, 0)
    limit = request.target.max_context or 2**20
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _plan(request, middle, 0).fits else (low, middle - 1)
    return replace(plan, longest_context=low)


def _plan(request: Request, context: int, longest: int) -> MemoryPlan:
    target, draft = request.target, request.draft
    activations = target.activation_bytes(context, request.precision, request.rows)
    reach = min(context, draft.max_context or context) if draft else 0  # beyond its own limit a draft model pauses
    if draft is not None:
        activations = max(activations, draft.activation_bytes(context, request.draft_precision, 1))
    return MemoryPlan(
        target=target.weight_bytes(request.precision, repacked=request.repacked),
        draft=draft.weight_bytes(request.draft_precision, repacked=request.repacked) if draft else 0,
        target_cache=target.cache_bytes(context, request.precision),
        draft_cache=draft.cache_bytes(reach, request.draft_precision) if draft else 0,
        activations=activations,
        reserve=request.reserve,
        available=request.available,
        context=context,
        longest_context=longest,
        precision=request.precision.value,
        draft_precision=request.draft_precision.value if draft else "",
    )


def cheaper(request: Request) -> tuple[Change, ...]:
    """Changes that would make the request fit, cheapest loss first; empty if it fits or nothing helps.

    The order: a draft model in 4 bits (the text stays the same), a shorter context, no draft model, a target in
    4 bits; each with a shorter context where it is not enough alone.
    """
    if plan_memory(request).fits:
        return ()
    nf4 = Precision.NF4
    head = request.draft is not None and request.draft.attached
    small_draft = request if head or request.draft is None else replace(request, draft_precision=nf4)
    small_target = replace(request, precision=nf4, draft_precision=nf4 if head else request.draft_precision)
    no_draft = replace(request, draft=None)
    steps = (
        ("draft model in nf4", small_draft),
        ("", request),
        ("no draft model", no_draft),
        ("target in nf4", small_target),
        ("target and draft in nf4", replace(small_target, draft_precision=nf4)),
        ("target in nf4 without a draft model", replace(no_draft, precision=nf4)),
    )
    found: list[Change] = []
    for title, changed in steps:
        if changed == request and title:
            continue
        plan = plan_memory(changed)
        if not plan.fits:
            context = min(plan.longest_context // 256 * 256, request.context)
            if context < min(LEAST_CONTEXT, request.context):
                continue
            shorter = f"context {context} instead of {request.context}"
            title = f"{title}, {shorter}" if title else shorter
            changed = replace(changed, context=context)
            plan = plan_memory(changed)
        if all(known.request != changed for known in found):
            found.append(Change(title, changed, plan))
    return tuple(found)


def gib(size: float) -> str:
    """Bytes for people: "5.7 GiB", or "18 MiB" below a tenth of one."""
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / MIB:.0f} MiB"
