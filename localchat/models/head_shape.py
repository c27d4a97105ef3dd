"""What a drafting head takes: the counterpart of `memory.Shape` for plans, screens and speed estimates. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from localchat.engine.head_config import HeadConfig
from localchat.engine.sizes import PREFILL_CHUNK, cache_rows
from localchat.models.folders import TensorInfo
from localchat.models.footprint import DRAW_BYTES, item_bytes
from localchat.models.plan import Precision


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Sizes of a head (a `Footprint`); counts are parameters."""

    kind: str
    hidden: int
    vocab: int
    """Tokens it scores."""
    windows: tuple[int | None, ...]
    """One per layer with attention; none for Medusa."""
    kv_heads: int
    head_dim: int
    intermediate: int
    taps: int
    """Layers of the target whose states it reads."""
    parameters: int
    """All that are stored, copied rows of the target's output head included; a head is never quantized."""
    borrowed: int
    """The target's output head, where it is read and not copied."""
    idle: int
    """Stored, but hardly read in a step: its own embedding, and experts that a token does not use."""
    max_context: int = 0

    @property
    def attached(self) -> bool:
        """It belongs to one target; see `Footprint`."""
        return True

    @property
    def mixture(self) -> bool:
        """A head never forces its target into fast mode."""
        return False

    def weight_bytes(self, precision: Precision, *, repacked: bool = False) -> int:
        """Memory of the loaded weights beside a target of this precision."""
        return self.parameters * item_bytes(precision)

    def step_bytes(self, precision: Precision) -> float:
        """Bytes one drafting step reads: the head, and the output head it scores with."""
        return self.weight_bytes(precision) + (self.borrowed - self.idle) * item_bytes(precision)

    def cache_bytes(self, context: int, precision: Precision) -> int:
        """Keys and values of its layers: a ring of its window."""
        row = 2 * self.kv_heads * self.head_dim * item_bytes(precision)
        return sum(row * cache_rows(context, window) for window in self.windows)

    def activation_bytes(self, context: int, precision: Precision, rows: int) -> int:
        """Peak scratch memory: the target's states of the prompt's end, as they came and as they wait to be read, and
        a chunk of them or rows of logits.
        """
        size = item_bytes(precision)
        states = sum(min(context, window or context) for window in self.windows[:1]) * self.taps * self.hidden * size
        block = PREFILL_CHUNK * (6 * self.hidden + 3 * self.intermediate) * size
        return 2 * states + max(block, rows * self.vocab * DRAW_BYTES)


def head_shape(config: HeadConfig, infos: Iterable[TensorInfo], used_experts: float = 1.0) -> HeadShape:
    """The sizes of a head.

    Args:
        config: its shape.
        infos: the tensors that are loaded.
        used_experts: share of the experts that one token uses.
    """
    infos = tuple(infos)
    scored = config.draft_vocab or config.vocab
    output = scored * config.hidden
    copied = output if config.draft_vocab and not config.own_output else 0
    experts = sum(info.count for info in infos if ".experts." in info.name)
    return HeadShape(
        kind=config.kind,
        hidden=config.hidden,
        vocab=scored,
        windows=() if config.kind == "medusa" else (config.window,) * _attention_layers(config),
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        intermediate=config.intermediate,
        taps=len(config.taps),
        parameters=sum(info.count for info in infos) + copied,
        borrowed=0 if config.own_output or config.draft_vocab else output,
        idle=config.own_embedding * config.vocab * config.hidden + int(experts * (1.0 - used_experts)),
    )


def _attention_layers(config: HeadConfig) -> int:
    return config.depth if config.kind == "mtp" else config.layers
