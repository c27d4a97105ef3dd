"""The last gate before the terminal: what a widget forgot to clean does not pass."""

from __future__ import annotations

import re

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_ACTS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\u2028\u2029]")


class Gate(LineFilter):
    """Takes control characters, direction overrides and links of the terminal's own (OSC 8) out of every line."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The line as it is, unless something in it would act."""
        if not any(_ACTS.search(text) or (style is not None and style.link) for text, style, _ in segments):
            return segments
        return [
            Segment(_ACTS.sub(_same_width, text), style.update_link(None) if style else style, control)
            for text, style, control in segments
        ]


def _same_width(found: re.Match[str]) -> str:
    """Nothing in place of what takes no room; a lone surrogate takes a cell."""
    return "�" if "\ud800" <= found[0] <= "\udfff" else ""
