"""Long texts that stand in the composer as a short label: pastes and attached files.

A label is one piece: whatever touches a part of it touches all of it. Its spaces are no-break spaces, so nothing that
is typed can look the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FOLD_LINES = 20
"""A paste of more lines is folded."""
FOLD_CHARACTERS = 2_000
"""A paste of more characters is folded."""

_LABEL = re.compile(r"\[[^\[\]\n]*\]")


def long(text: str) -> bool:
    """The text is better shown as a label."""
    return len(text) > FOLD_CHARACTERS or text.count("\n") >= FOLD_LINES


def size(text: str) -> str:
    """How much text it is, in words: lines, or characters where there is one line."""
    lines = text.removesuffix("\n").count("\n") + 1
    if lines > 1:
        return f"{lines:,} lines"
    return "1 character" if len(text) == 1 else f"{len(text):,} characters"


@dataclass(slots=True)
class Folds:
    """Labels and the texts they stand for. Texts of deleted labels are kept, so that undo brings them back."""

    texts: dict[str, str] = field(default_factory=dict)

    def add(self, title: str, text: str) -> str:
        """The label that stands for the text from now on."""
        name = re.sub(r"\s+", "\u00a0", title.translate({ord("["): "(", ord("]"): ")"}))
        label, number = f"[{name}]", 1
        while self.texts.get(label, text) != text:
            number += 1
            label = f"[{name}\u00a0·\u00a0{number}]"
        self.texts[label] = text
        return label

    def expand(self, text: str) -> str:
        """The text with each label replaced by what it stands for."""
        if not self.texts:
            return text
        return _LABEL.sub(lambda found: self.texts.get(found[0], found[0]), text)

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Start and end of each label in a line."""
        if not self.texts:
            return []
        return [found.span() for found in _LABEL.finditer(line) if found[0] in self.texts]

    def around(self, line: str, column: int) -> tuple[int, int]:
        """Start and end of the label that a column lies inside of; the column twice if there is none."""
        inside = (span for span in self.spans(line) if span[0] < column < span[1])
        return next(inside, (column, column))
