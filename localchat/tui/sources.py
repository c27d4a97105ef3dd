"""Draft sources as the screen names and colours them. All heads share a colour: only one is loaded at a time."""

from __future__ import annotations

from dataclasses import dataclass

from localchat.chat.events import Loaded
from localchat.tui.figures import MUTED, plain


@dataclass(frozen=True, slots=True)
class Source:
    """One source."""

    colour: str
    """A variable of the theme."""
    told: str
    """Who drafted a token, as the start of a sentence."""


_SOURCES = {
    "lookup": Source("$source-lookup", "Copied by lookup"),
    "model": Source("$source-model", "Drafted by the draft model"),
    "medusa": Source("$source-head", "Drafted by the Medusa heads"),
    "eagle": Source("$source-head", "Drafted by the EAGLE head"),
    "mtp": Source("$source-head", "Drafted by the MTP layer"),
}


def source_of(name: str) -> Source:
    """How a source looks; one that is not known has a colour and a sentence too."""
    return _SOURCES.get(name) or Source("$source-other", f"Drafted by {plain(name)}")


def source_colour(name: str) -> str:
    """The theme's colour of a draft source; muted for none."""
    return source_of(name).colour if name else MUTED


def sources_of(loaded: Loaded | None) -> tuple[str, ...]:
    """The sources that drafts can come from with what is loaded."""
    if loaded is None or loaded.plan.draft == "off":
        return ()
    part = loaded.draft_kind or "model"
    return ("lookup", part) if loaded.plan.draft == "mixed" else (loaded.plan.draft,)
