"""Memory, part by part, as one bar. Each part has its own hatching, so that it reads without colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from localchat.chat.events import Usage
from localchat.models.memory import MemoryPlan, gib
from localchat.tui.figures import MUTED, Line, apportion, fit, percent, spread
from localchat.tui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the memory."""

    name: str
    bytes: int
    colour: str
    """A variable of the theme, such as "$gauge-target"."""
    hatch: str
    """The character it is drawn with."""
    ours: bool = True
    """It belongs to the engine."""

    @property
    def sign(self) -> tuple[str, str]:
        """Its mark in a legend."""
        return self.hatch, self.colour


def _target(size: int) -> Part:
    return Part("target", size, "$gauge-target", "█")


def _target_cache(size: int) -> Part:
    return Part("target cache", size, "$gauge-target-cache", "▓")


def _draft(size: int) -> Part:
    return Part("draft", size, "$gauge-draft", "▒")


def _draft_cache(size: int) -> Part:
    return Part("draft cache", size, "$gauge-draft-cache", "░")


def _work(size: int) -> Part:
    return Part("working memory", size, "$gauge-work", "▚")


def _other(size: int) -> Part:
    return Part("other programs", size, "$gauge-other", "╱", False)


def _free(size: int) -> Part:
    return Part("free", size, "$gauge-free", "·", False)


def measured(usage: Usage) -> tuple[Part, ...]:
    """The parts of a device as measured; caches are set aside in full from the start.

    A CPU reads weights from the disk as they are used, so a process can be smaller than its parts.
    """
    named = usage.target + usage.target_cache + usage.draft + usage.draft_cache
    own = max(named, usage.process)
    other = max(0, usage.device_total - usage.device_free - own)
    return (
        _target(usage.target),
        _target_cache(usage.target_cache),
        _draft(usage.draft),
        _draft_cache(usage.draft_cache),
        _work(own - named),
        _other(other),
        _free(max(0, usage.device_total - own - other)),
    )


def planned(plan: MemoryPlan, total: int = 0) -> tuple[Part, ...]:
    """The parts of a plan on a device of so many bytes (0: what is available to it is all there is).

    What a plan keeps in reserve counts as free: nobody has it yet.
    """
    return (
        _target(plan.target),
        _target_cache(plan.target_cache),
        _draft(plan.draft),
        _draft_cache(plan.draft_cache),
        _work(plan.activations),
        _other(max(0, total - plan.available) if total else 0),
        _free(max(0, plan.available - (plan.total - plan.reserve))),
    )


def used_share(parts: Sequence[Part]) -> float:
    """Share of the memory that is not free; above 1 if the parts are more than there is."""
    total = sum(part.bytes for part in parts)
    free = sum(part.bytes for part in parts if part.name == "free")
    return (total - free) / total if total else 0.0


def bar(parts: Sequence[Part], width: int) -> Line:
    """The parts side by side; whatever small, the engine's own take at least one cell together."""
    total = sum(part.bytes for part in parts) or 1
    cells = apportion([part.bytes / total for part in parts], width)
    own = [index for index, part in enumerate(parts) if part.ours and part.bytes]
    if own and not any(cells[index] for index in own):
        largest = max(range(len(parts)), key=cells.__getitem__)
        cells[largest] -= 1
        cells[max(own, key=lambda index: parts[index].bytes)] = 1
    return tuple((part.hatch * count, part.colour) for part, count in zip(parts, cells, strict=True) if count)


def legend(parts: Sequence[Part], width: int) -> list[Line]:
    """One line a part: its sign, name and size."""
    shown = [part for part in parts if part.bytes]
    return [spread((part.sign, (f" {part.name}", MUTED)), ((gib(part.bytes), ""),), width) for part in shown]


def brief(parts: Sequence[Part], width: int) -> list[Line]:
    """The same in two lines: target, draft (caches included) and what is free."""

    def size(*names: str) -> str:
        return gib(sum(part.bytes for part in parts if part.name in names))

    first = f"target {size('target', 'target cache')}"
    if any(part.bytes for part in parts if part.name == "draft"):
        first += f" · draft {size('draft', 'draft cache')}"
    total = gib(sum(part.bytes for part in parts))
    second = f"free {size('free')} of {total}"
    return [((fit(first, width), MUTED),), ((fit(second, width), MUTED),)]


class MemoryBar(Lines):
    """The bar, one line high, with the share in use at its end."""

    DEFAULT_CSS = "MemoryBar { height: 1; }"
    HELP: ClassVar[str] = (
        "One bar of all the memory of the device: `█` target, `▓` its cache, `▒` draft, `░` its cache, `▚` working "
        "memory, `╱` other programs, `·` free. Caches are set aside in full when a model is loaded."
    )

    _parts: tuple[Part, ...] = ()

    def show(self, *parts: Part) -> None:
        """Show these parts."""
        self._parts = parts
        self.redraw()

    def draw(self, width: int, height: int) -> list[Line]:
        """The bar and the share."""
        share = percent(used_share(self._parts)) if self._parts else ""
        return [spread(bar(self._parts, max(0, width - 6)), ((share, ""),), width)]
