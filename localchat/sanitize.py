"""Text from models and files, made safe for a terminal.

Escape sequences can move the cursor, set the clipboard or rewrite what was read; direction overrides can show text in
another order than it has; towers of combining signs run over other lines, and runs of invisible ones hide a text in
another. Each such character is replaced by a visible sign, so nothing is hidden either.
"""

from __future__ import annotations

import json
import re
import unicodedata

RUN = 8
"""Combining and invisible characters that may follow each other: more than any writing needs."""

_REPLACEMENT = "�"
_C0 = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
_C1 = dict.fromkeys(range(0x80, 0xA0), _REPLACEMENT)
_DIRECTION = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), _REPLACEMENT)
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), _REPLACEMENT)
_NO_CHARACTERS = dict.fromkeys((0xFFFE, 0xFFFF, *range(0xFDD0, 0xFDF0)), _REPLACEMENT)
_SEPARATORS = dict.fromkeys((0x2028, 0x2029), "\n")
_VISIBLE = {**_C0, 0x7F: "␡", **_C1, **_DIRECTION, **_SURROGATES, **_NO_CHARACTERS, **_SEPARATORS}
_NO_LETTERS = re.compile(rf"[^\w\s\x00-\x7f]{{{RUN + 1},}}")


def clean(text: str) -> str:
    """The text as it can be shown: as many characters as before.

    Control characters (but newline and tab), direction overrides and lone surrogates become visible, and so does what
    goes on too long without a character that takes up room. Unicode's own line ends become plain ones.
    """
    text = text.translate(_VISIBLE)
    return text if text.isascii() else _NO_LETTERS.sub(_bounded, text)


def clean_from(text: str, start: int) -> str:
    """The end of a text from a place on, cleaned as a part of the whole."""
    before = max(0, start - RUN - 1)
    return clean(text[before:])[start - before :]


def _bounded(found: re.Match[str]) -> str:
    shown, run = [], 0
    for character in found[0]:
        run = run + 1 if unicodedata.category(character) in ("Mn", "Me", "Cf") else 0
        shown.append(character if run <= RUN else _REPLACEMENT)
    return "".join(shown)


def to_json(value: object) -> str:
    """One line of JSON in ASCII: whatever a terminal might act on is escaped, and nothing is lost.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, allow_nan=False).replace("\x7f", "\\u007f")
