"""Text from models and files, made safe for a terminal.

Escape sequences can move the cursor, set the clipboard or rewrite what was read; direction overrides can show text in
another order than it has. Each such character is replaced by a visible sign, so nothing is hidden either.
"""

from __future__ import annotations

import json

_REPLACEMENT = "�"
_C0 = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
_C1 = dict.fromkeys(range(0x80, 0xA0), _REPLACEMENT)
_DIRECTION = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), _REPLACEMENT)
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), _REPLACEMENT)
_VISIBLE = {**_C0, 0x7F: "␡", **_C1, **_DIRECTION, **_SURROGATES}


def clean(text: str) -> str:
    """The text with control characters (but newline and tab), direction overrides and lone surrogates made visible."""
    return text.translate(_VISIBLE)


def to_json(value: object) -> str:
    """One line of JSON in ASCII: whatever a terminal might act on is escaped, and nothing is lost.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, allow_nan=False).replace("\x7f", "\\u007f")
