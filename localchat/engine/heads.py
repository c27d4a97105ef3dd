"""Networks that draft from the target's own hidden states: Medusa heads, EAGLE layers and multi-token prediction.

The same modules draft (rows over a cache) and are trained (whole sequences), so that what was trained is what runs.
Sources: Medusa (arXiv:2401.10774), EAGLE (arXiv:2401.15077), EAGLE-3 (arXiv:2503.01840), multi-token prediction as in
DeepSeek-V3 (arXiv:2412.19437).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from localchat.engine.head_config import HeadConfig
from localchat.engine.layers import Attend, EagleLayer, Norm, rotary_frequencies, turning


class Shared(nn.Module):
    """What every head has: the target's embeddings and an output head, its own or rows of the target's.

    Args:
        config: its shape.
        embed: the target's embedding module; an own one is `embed_tokens`.
        output: the target's output module, used as it is when the draft vocabulary is the whole one.
        rows: the target's output rows [draft_vocab, hidden] of the draft vocabulary, or None to use `output`.
        ids: token id of each draft vocabulary entry, ascending; None: all.
    """

    ids: Tensor | None
    scales: Tensor
    """[taps + 1, hidden]: of each tapped state, and of the embeddings."""
    acceptance: tuple[tuple[float, ...], ...] = ()
    """Measured after training, by depth and rank; whoever loads it sets it from its card."""

    def __init__(
        self, config: HeadConfig, embed: nn.Module, output: nn.Module, rows: Tensor | None, ids: Tensor | None
    ) -> None:
        super().__init__()
        self.config = config
        if config.own_embedding:
            self.embed_tokens = nn.Embedding(config.vocab, config.hidden)
        if config.scaled:
            self.register_buffer("scales", torch.ones(len(config.taps) + 1, config.hidden))
        self._borrowed = (embed, output)  # a tuple, so that they are no part of this module
        self.register_buffer("ids", ids, persistent=False)
        if not config.own_output and rows is not None:
            self.output = nn.Linear(config.hidden, len(rows), bias=False)
            self.output.weight.data = rows
            self.output.requires_grad_(False)

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings [..., hidden] of token ids."""
        return self.read((self.embed_tokens if self.config.own_embedding else self._borrowed[0])(ids))

    def read(self, embeddings: Tensor) -> Tensor:
        """Embeddings [..., hidden] as the head reads them."""
        return embeddings * self.scales[-1] if self.config.scaled else embeddings

    def scale(self, tapped: Sequence[Tensor]) -> Sequence[Tensor]:
        """Tapped states [..., hidden] as the head reads them."""
        return [state * by for state, by in zip(tapped, self.scales, strict=False)] if self.config.scaled else tapped

    def score(self, states: Tensor) -> Tensor:
        """Logits [..., n] over the draft vocabulary of states the target's output head could read."""
        own = self.config.own_output or self.config.draft_vocab
        result: Tensor = (self.output if own else self._borrowed[1])(states)
        return result

    def own_state(self) -> dict[str, Tensor]:
        """The tensors that belong to it and not to the target, by canonical name."""
        kept = self.state_dict()
        return kept if self.config.own_output else {name: kept[name] for name in kept if not name.startswith("output.")}


class Eagle(Shared):
    """EAGLE-1 to -3: one decoder layer that predicts the target's next state from this state and the next token.

    Canonical names: fc.weight (and .bias), layers.{i}.*, norm.weight, output.weight, embed_tokens.weight.
    """

    frequencies: Tensor

    def __init__(
        self, config: HeadConfig, embed: nn.Module, output: nn.Module, rows: Tensor | None, ids: Tensor | None
    ) -> None:
        super().__init__(config, embed, output, rows, ids)
        parts = len(config.taps) if config.fused else 2
        self.fc = nn.Linear(parts * config.hidden, config.hidden, bias=config.fuse_bias)
        self.layers = nn.ModuleList(EagleLayer(config, index) for index in range(config.layers))
        self.norm = Norm(config.hidden, config.eps) if config.fused or config.final_norm else nn.Identity()
        if config.own_output:
            self.output = nn.Linear(config.hidden, config.draft_vocab or config.vocab, bias=False)
        self.register_buffer("frequencies", rotary_frequencies(config.head_dim, config.rope_theta), persistent=False)

    def join(self, tapped: Sequence[Tensor]) -> Tensor:
        """The state [..., hidden] a pair carries, from the tapped layers' states."""
        states = self.scale(tapped)
        result: Tensor = self.fc(torch.cat(tuple(states), dim=-1)) if self.config.fused else states[0]
        return result

    def forward(self, embeddings: Tensor, states: Tensor, positions: Tensor, attend: Attend, ahead: int = 0) -> Tensor:
        """The next states [B, T, hidden] from pairs of embedding and state [B, T, hidden] at positions [T]."""
        rows = states if self.config.fused else self.fc(torch.cat((embeddings, states), dim=-1))
        turn = turning(self.frequencies, positions, rows.dtype)
        for layer in self.layers:
            rows = layer(rows, embeddings, turn, attend)
        return rows

    def final(self, states: Tensor, ahead: int = 0) -> Tensor:
        """What the output head reads [..., hidden], from the next states."""
        result: Tensor = self.norm(states)
        return result

    def scores(self, states: Tensor, ahead: int = 0) -> Tensor:
        """Logits [..., n] of the token after, from the next states."""
        return self.score(self.final(states, ahead))


class Mtp(Shared):
    """Multi-token prediction: normed embedding and state are joined and pass a decoder layer of the target's own kind.

    Canonical names per step i: steps.{i}.enorm, .hnorm, .eh_proj, .block.*, .norm; output.weight, embed_tokens.weight.
    With fewer steps than tokens to draft the last one is used again.

    Args:
        blocks: one decoder layer per step.
    """

    def __init__(
        self,
        config: HeadConfig,
        embed: nn.Module,
        output: nn.Module,
        rows: Tensor | None,
        ids: Tensor | None,
        blocks: Sequence[nn.Module],
    ) -> None:
        super().__init__(config, embed, output, rows, ids)
        self.steps = nn.ModuleList(MtpStep(config, block) for block in blocks)
        if config.own_output:
            self.output = nn.Linear(config.hidden, config.draft_vocab or config.vocab, bias=False)

    def _step(self, ahead: int) -> MtpStep:
        step = self.steps[min(ahead, len(self.steps) - 1)]
        assert isinstance(step, MtpStep)
        return step

    def join(self, tapped: Sequence[Tensor]) -> Tensor:
        """The state [..., hidden] a pair carries."""
        return self.scale(tapped)[0]

    def forward(self, embeddings: Tensor, states: Tensor, positions: Tensor, attend: Attend, ahead: int = 0) -> Tensor:
        """The next states [B, T, hidden] from pairs of embedding and state [B, T, hidden] at positions [T].

        Args:
            ahead: how many steps the state itself is a guess.
        """
        step = self._step(ahead)
        result: Tensor = step(embeddings, states, positions, attend)
        return step.norm(result) if self.config.recur_normed else result

    def final(self, states: Tensor, ahead: int = 0) -> Tensor:
        """What the output head reads [..., hidden], from the next states."""
        return states if self.config.recur_normed else self._step(ahead).norm(states)

    def scores(self, states: Tensor, ahead: int = 0) -> Tensor:
        """Logits [..., n] of the token after, from the next states."""
        return self.score(self.final(states, ahead))


class MtpStep(nn.Module):
    """One prediction step."""

    def __init__(self, config: HeadConfig, block: nn.Module) -> None:
        super().__init__()
        self.hidden_first = config.hidden_first
        self.enorm, self.hnorm = Norm(config.hidden, config.eps), Norm(config.hidden, config.eps)
        self.eh_proj = nn.Linear(2 * config.hidden, config.hidden, bias=config.fuse_bias)
        self.block = block
        self.norm = Norm(config.hidden, config.eps)

    def forward(self, embeddings: Tensor, states: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """[B, T, hidden] twice to [B, T, hidden]."""
        pair = (self.enorm(embeddings), self.hnorm(states))
        rows = self.eh_proj(torch.cat(pair[::-1] if self.hidden_first else pair, dim=-1))
        result: Tensor = self.block(rows, positions, attend)
        return result


class Medusa(Shared):
    """Medusa: for each position ahead some residual blocks on the last state, and an output head.

    Ours read states of several layers, which a linear layer joins: the last one alone says little of what comes later.

    Canonical names: blocks.{head}.{i}.weight and .bias; mixes.{head}.weight in our own layout; outputs.{head}.weight if
    it brings its own output heads.
    """

    def __init__(
        self, config: HeadConfig, embed: nn.Module, output: nn.Module, rows: Tensor | None, ids: Tensor | None
    ) -> None:
        super().__init__(config, embed, output, rows, ids)
        size = config.hidden
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Linear(size, size) for _ in range(config.layers)) for _ in range(config.depth)
        )
        wide = size * len(config.taps)
        mixes = (nn.Linear(wide, size, bias=False) if config.mixed else nn.Identity() for _ in range(config.depth))
        self.mixes = nn.ModuleList(mixes)
        self.norm = Norm(size, config.eps) if config.final_norm else nn.Identity()
        if config.own_output:
            count = config.draft_vocab or config.vocab
            self.outputs = nn.ModuleList(nn.Linear(size, count, bias=False) for _ in range(config.depth))

    def ahead(self, tapped: Sequence[Tensor], depth: int) -> Tensor:
        """What the output heads read for the first `depth` positions ahead [depth, ..., hidden], from the tapped states
        [..., hidden]."""
        found, states = [], torch.cat(tuple(self.scale(tapped)), dim=-1)
        for mix, blocks in zip(self.mixes, self.blocks[:depth], strict=False):
            rows = mix(states)
            for block in blocks:  # type: ignore[attr-defined]
                rows = rows + functional.silu(block(rows))
            found.append(self.norm(rows))
        return torch.stack(found)

    def scores(self, ahead: Tensor) -> Tensor:
        """Logits [depth, ..., n] from what `ahead` gave."""
        if self.config.own_output:
            return torch.stack([output(rows) for output, rows in zip(self.outputs, ahead, strict=False)])
        return self.score(ahead)

    def forward(self, tapped: Sequence[Tensor], depth: int) -> Tensor:
        """Logits [depth, ..., n] of the first `depth` positions ahead, from the tapped states [..., hidden]."""
        return self.scores(self.ahead(tapped, depth))


StateHead = Eagle | Mtp
"""Heads that go on from their own predicted states, token by token."""

AnyHead = Eagle | Mtp | Medusa


def build(
    config: HeadConfig,
    embed: nn.Module,
    output: nn.Module,
    rows: Tensor | None = None,
    ids: Tensor | None = None,
    blocks: Sequence[nn.Module] = (),
) -> AnyHead:
    """An untrained head; arguments as those of `Shared` and `Mtp`."""
    if config.kind == "medusa":
        return Medusa(config, embed, output, rows, ids)
    if config.kind == "mtp":
        return Mtp(config, embed, output, rows, ids, blocks)
    return Eagle(config, embed, output, rows, ids)
