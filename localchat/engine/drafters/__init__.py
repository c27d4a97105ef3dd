"""The table of drafters. A new one is one file and one line here; the conformance suite runs over the table."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localchat.engine.target import Target
    from localchat.engine.types import Drafter


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a drafter is and how the screen calls it."""

    path: str
    """module:class, imported when first built; the class is called with the draft model, or with None."""
    words: str
    needs_model: bool = False


DRAFTERS = {
    "off": Entry("off:Off", "Off: one token at a time"),
    "lookup": Entry("lookup:Lookup", "Lookup: repeat what the chat has said before"),
    "model": Entry("model:ModelDrafter", "Draft model: a small model of the same family", needs_model=True),
    "mixed": Entry("mixed:Mixed", "Mixed: lookup or draft model, whichever pays more", needs_model=True),
}


def build(name: str, draft_model: Target | None) -> Drafter:
    """Make a drafter.

    Args:
        name: a key of DRAFTERS.
        draft_model: for those that need one; it may be shared, one reply at a time.
    """
    module, _, attribute = DRAFTERS[name].path.partition(":")
    drafter: Drafter = getattr(import_module(f"{__name__}.{module}"), attribute)(draft_model)
    return drafter
