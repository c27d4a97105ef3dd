"""Nothing that a terminal acts on gets through."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from localchat.sanitize import clean, to_json


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_no_control_character_survives(text: str) -> None:
    """Guards against a control character that was not thought of, and against text that cannot be encoded."""
    safe = clean(text)
    assert len(safe) == len(text)
    assert all(char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs") for char in safe)
    assert not set(safe) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    safe.encode()


def test_ordinary_text_is_left_alone() -> None:
    """Guards against over-zealous cleaning: emoji sequences, right-to-left text and combining marks are text."""
    text = "naïve\n\tשלום 👩\u200d💻 é 漢字 \u200fx"
    assert clean(text) == text


@given(st.text())
def test_json_is_ascii_and_complete(text: str) -> None:
    """Guards against JSON that a terminal acts on, or that loses characters."""
    line = to_json({"text": text})
    assert all(" " <= char <= "~" for char in line)
    assert json.loads(line) == {"text": text}
