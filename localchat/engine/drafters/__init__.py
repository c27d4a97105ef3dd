"""The table of drafters. A new one is one file and one line here; the conformance suite runs over the table."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localchat.engine.heads import AnyHead
    from localchat.engine.target import Target
    from localchat.engine.types import Drafter


@dataclass(frozen=True, slots=True)
class Parts:
    """What a drafter may be made of; one reply at a time uses them."""

    target: Target | None = None
    draft: Target | None = None
    """The draft model."""
    head: AnyHead | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a drafter is and how the screen calls it."""

    path: str
    """module:class, imported when first built; the class is called with the parts there are."""
    words: str
    needs_model: bool = False
    needs_head: str = ""
    """The kind of head it needs."""
    needs_either: bool = False
    """It goes with a draft model or a head of any kind."""

    @property
    def alone(self) -> bool:
        """It needs nothing but the text."""
        return not (self.needs_model or self.needs_head or self.needs_either)


DRAFTERS = {
    "off": Entry("off:Off", "Off: one token at a time"),
    "lookup": Entry("lookup:Lookup", "Lookup: repeat what the chat has said before"),
    "model": Entry("model:ModelDrafter", "Draft model: a small model of the same family", needs_model=True),
    "medusa": Entry("medusa:Medusa", "Medusa: heads that guess several positions at once", needs_head="medusa"),
    "eagle": Entry("eagle:Eagle", "EAGLE: a layer that guesses the target's next states", needs_head="eagle"),
    "mtp": Entry("mtp:Mtp", "MTP: the target's own layers for the tokens after the next", needs_head="mtp"),
    "mixed": Entry("mixed:Mixed", "Mixed: lookup or what else drafts, whichever pays more", needs_either=True),
}


def suits(name: str, parts: Parts) -> bool:
    """True if a drafter can be made of these parts."""
    entry = DRAFTERS[name]
    kind = parts.head.config.kind if parts.head else ""
    return (parts.draft is not None or not entry.needs_model) and entry.needs_head in ("", kind)


def build(name: str, parts: Parts) -> Drafter:
    """Make a drafter, a key of DRAFTERS, of these parts."""
    module, _, attribute = DRAFTERS[name].path.partition(":")
    drafter: Drafter = getattr(import_module(f"{__name__}.{module}"), attribute)(parts)
    return drafter
