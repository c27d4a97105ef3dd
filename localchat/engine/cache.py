"""Preallocated keys and values with rollback, and the masks that say which rows may look where.

A row is written once at the slot of its absolute position. Rolling back is moving the length; stale rows are never
visible and are written over. A full layer's slot is the position itself, a sliding layer's is the position modulo a
ring a little longer than its window, so that a rejected row never pushes out one that is still needed. One formula
serves both: a full layer is a ring that never turns.

Transformers' models call `update` with each layer's new keys and values; no class of that library is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from localchat.engine.sizes import cache_rows
from localchat.engine.traffic import upload
from localchat.engine.tree import depths, visible

BUCKET = 256
"""Attention reads a multiple of this many slots, so its cost follows the context in use."""


@dataclass(frozen=True, slots=True)
class View:
    """What one kind of layer does in one forward."""

    slots: Tensor
    """Where the new rows go [width]."""
    first: int
    """First slot if the rows lie side by side, else -1."""
    read: int
    """Slots that attention reads."""
    mask: Tensor
    """Additive [groups * width, read]; row g * width + i is what row i sees."""


@dataclass(frozen=True, slots=True)
class Step:
    """One forward: where its rows stand in the cache and what they see, per window size."""

    positions: Tensor
    """[width], by depth in the tree of rows; a slot goes by row instead."""
    views: dict[int | None, View]


@dataclass(frozen=True, slots=True)
class Tree:
    """The new rows of a forward, and the tree they are part of."""

    start: int
    """Slot of the first new row, in a cache that never turns."""
    positions: Tensor
    """Of the new rows [width]."""
    places: Tensor
    """Positions of all rows [held + width]."""
    family: Tensor | None
    """Which rows the new ones see [width, held + width]; a chain needs none."""


class Layer:
    """One decoder layer's keys and values [1, kv_heads, rows, head_dim], allocated when first written."""

    def __init__(self, context: int, window: int | None) -> None:
        self.window = window
        self.rows = cache_rows(context, window)
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def write(self, keys: Tensor, values: Tensor, view: View) -> tuple[Tensor, Tensor]:
        """Store new rows [1, kv_heads, width, head_dim] and return everything attention reads."""
        if self.keys is None or self.values is None:
            shape = (*keys.shape[:2], self.rows, keys.shape[3])
            self.keys, self.values = keys.new_zeros(shape), values.new_zeros((*shape[:3], values.shape[3]))
        if view.first >= 0:
            end = view.first + keys.shape[2]
            self.keys[:, :, view.first : end] = keys
            self.values[:, :, view.first : end] = values
        else:
            self.keys[:, :, view.slots] = keys
            self.values[:, :, view.slots] = values
        return self.keys[:, :, : view.read], self.values[:, :, : view.read]

    @torch.inference_mode()
    def move(self, source: Tensor, target: Tensor) -> None:
        """Copy rows from slots to slots (the accepted path of a tree)."""
        for part in (self.keys, self.values):
            if part is not None:
                part[:, :, target] = part[:, :, source]

    @torch.inference_mode()
    def scrub(self, slots: Tensor) -> None:
        """Zero slots: a masked row still spoils a sum if it is not a number."""
        for part in (self.keys, self.values):
            if part is not None:
                part[:, :, slots] = 0

    @property
    def bytes(self) -> int:
        """Allocated bytes."""
        return sum(part.numel() * part.element_size() for part in (self.keys, self.values) if part is not None)


class Cache:
    """All layers of one model for one conversation.

    Args:
        windows: per layer the sliding window in tokens, or None for full attention.
        context: most tokens the conversation may hold.
        groups: query heads per key-value head, for the packed masks.
        dtype: of the model's activations; masks have it too.
        device: where the model is.
    """

    def __init__(
        self, windows: Sequence[int | None], context: int, groups: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.layers = [Layer(context, window) for window in windows]
        self.kinds = {layer.window: layer.rows for layer in self.layers}
        self.groups, self.dtype, self.device = groups, dtype, device
        self.length = 0
        self._high = 0
        self._step: Step | None = None
        self._slots = torch.arange(max(self.kinds.values()), device=device)
        self._zero = torch.zeros((), dtype=dtype, device=device)
        self._never = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=device)

    @torch.inference_mode()
    def begin(self, width: int, parents: Sequence[int] = (), *, held: int = 0, fixed_read: bool = False) -> Step:
        """Prepare a forward of `width` new rows after the `length` tokens settled and `held` rows of the same tree.

        Args:
            width: new rows, padding included.
            parents: the row each row follows, those held first; ROOT is the settled text. Rows without one follow the
                row before them: a prompt chunk or a chain passes none, padding comes last.
            held: rows of this tree that earlier forwards wrote and that are not settled yet.
            fixed_read: read the bucket of the first row alone, so that what a row reads depends on its position only.
        """
        start, end = self.length + held, self.length + held + width
        family = None
        if all(parent == row - 1 for row, parent in enumerate(parents)):
            places = positions = torch.arange(start, end, device=self.device)
        else:
            parents = [*parents, *range(len(parents) - 1, held + width - 1)]
            places = upload(depths(parents), self.device) + (self.length - 1)
            positions = places[held:]
            family = upload(visible(parents)[held:], self.device)
        reach = -(-(start + 1 if fixed_read else end) // BUCKET) * BUCKET
        tree = Tree(start, positions, places, family)
        views = {window: self._view(window, rows, reach, tree) for window, rows in self.kinds.items()}
        self._step = Step(positions, views)
        self._high = end if start == 0 else max(self._high, end)
        return self._step

    def _view(self, window: int | None, rows: int, reach: int, tree: Tree) -> View:
        start, positions = tree.start, tree.positions
        width = len(positions)
        slots = self._slots[:rows][start : start + width] if start + width <= rows else None
        first = start if slots is not None else -1
        if slots is None:
            slots = torch.arange(start, start + width, device=self.device) % rows
        read = min(reach, rows)
        # The position each slot holds once the new rows are written: the newest one that falls there.
        held = self._slots[:read]
        last = start + width - 1
        if last >= rows:
            held = last - (last - held) % rows
        seen = held <= positions[:, None]
        if tree.family is not None:
            inside = (held >= self.length) & (held <= last)
            row = (held - self.length).clamp(0, len(tree.places) - 1)
            seen = torch.where(inside, tree.family[:, row], seen)
            held = torch.where(inside, tree.places[row], held)
        if last >= rows:
            seen = seen & (held >= 0)
        if window is not None and last >= window:
            seen = seen & (positions[:, None] - held < window)
        mask = torch.where(seen, self._zero, self._never)
        return View(slots, first, read, mask.repeat(self.groups, 1) if self.groups > 1 else mask)

    def update(self, keys: Tensor, values: Tensor, layer_idx: int, **_: object) -> tuple[Tensor, Tensor]:
        """Called by each attention layer of a transformers model."""
        layer = self.layers[layer_idx]
        assert self._step is not None, "begin() comes before the forward"
        return layer.write(keys, values, self._step.views[layer.window])

    def keep(self, path: Sequence[int]) -> None:
        """Settle these rows of the tree, each following the one before it, and forget the others."""
        first = next((at for at, row in enumerate(path) if row != at), len(path))
        if first < len(path):
            source = upload([self.length + row for row in path[first:]], self.device)
            target = torch.arange(self.length + first, self.length + len(path), device=self.device)
            slots = {rows: (source % rows, target % rows) for rows in self.kinds.values()}
            for layer in self.layers:
                layer.move(*slots[layer.rows])
        self.length += len(path)

    @property
    def bucket_room(self) -> int:
        """Rows that fit after the next one without leaving the bucket it reads."""
        return BUCKET - 1 - self.length % BUCKET

    def scrub(self) -> None:
        """Zero every row beyond the length."""
        for layer in self.layers:
            begin = max(self.length, self._high - layer.rows)
            layer.scrub(torch.arange(begin, max(begin, self._high), device=self.device) % layer.rows)

    def advance(self, count: int) -> None:
        """Settle the first `count` rows of the forward just done."""
        self.length += count

    def truncate(self, length: int) -> int:
        """Forget tokens from `length` on.

        Returns:
            The tokens really kept: 0 if a ring has turned too far to go back there.
        """
        if length < self.length:
            turned = any(
                self._high > rows and length < self._high - (rows - (window or 0))
                for window, rows in self.kinds.items()
                if window is not None
            )
            self.length = 0 if turned else length
        return self.length

    @property
    def bytes(self) -> int:
        """Allocated bytes of all layers."""
        return sum(layer.bytes for layer in self.layers)
