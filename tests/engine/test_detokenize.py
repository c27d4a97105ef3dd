"""Text as it comes, and where it stops."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localchat.engine.detokenize import Detokenizer, Stopper
from localchat.engine.types import StopReason


def as_bytes(ids: Sequence[int]) -> str:
    """A byte-level tokenizer: one token per byte."""
    return bytes(ids).decode(errors="replace")


def spaced(ids: Sequence[int]) -> str:
    """A word tokenizer that puts a space before every word but the first."""
    return " ".join(f"w{i}" for i in ids)


@given(st.text(max_size=40))
def test_no_half_character_ever_shows(text: str) -> None:
    """Guards streaming: pieces join to the text, and none holds a replacement character the text does not have."""
    detokenizer = Detokenizer(as_bytes)
    pieces = [detokenizer.push(byte) for byte in text.encode("utf-8", "ignore")]
    pieces.append(detokenizer.flush())
    assert "".join(pieces) == text.encode("utf-8", "ignore").decode()
    if "\ufffd" not in text:
        assert all("\ufffd" not in piece for piece in pieces)


def test_broken_bytes_are_shown_in_the_end() -> None:
    """Guards a model that writes half a character and goes on: it is not held back for ever."""
    detokenizer = Detokenizer(as_bytes)
    shown = "".join(detokenizer.push(byte) for byte in [0xE2, 0x82, *b"abcd"])
    assert shown + detokenizer.flush() == "\ufffdabcd"


def test_spaces_between_words_survive() -> None:
    """Guards tokenizers that space words by what stands before them."""
    detokenizer = Detokenizer(spaced)
    assert "".join(detokenizer.push(token) for token in (1, 2, 3)) == "w1 w2 w3"


def scan(text: str, cuts: Sequence[int], stopper: Stopper) -> tuple[str, int, StopReason | None]:
    data, kept, shown, at = text.encode(), 0, "", 0
    for end in [*cuts, len(data)]:
        count, reason = stopper.scan(list(data[at:end]))
        kept, at = kept + count, end
        shown += stopper.take()
        if reason:
            return shown, kept, reason
    return shown + stopper.flush(), kept, None


@pytest.mark.parametrize("cuts", [[], [1], [3], [4], [5], [2, 4, 6]])
def test_a_stop_string_stops_wherever_the_rounds_end(cuts: list[int]) -> None:
    """Guards stop strings inside an accepted path and across rounds: same text, same tokens (SGLang #31599)."""
    stopper = Stopper(as_bytes, frozenset(), ("END", "XX"), 100)
    assert scan("abcENDdef", cuts, stopper) == ("abc", 6, StopReason.STOP_STRING)


def test_text_that_only_begins_like_a_stop_string_is_shown() -> None:
    """Guards holding back: what turns out not to be a stop string appears, also at the end."""
    assert scan("aENbEN", [], Stopper(as_bytes, frozenset(), ("END",), 100)) == ("aENbEN", 6, None)


@pytest.mark.parametrize("at", range(5))
def test_eos_at_every_place_in_a_round(at: int) -> None:
    """Guards the end-of-reply token inside an accepted path (transformers #47912): nothing after it is kept."""
    tokens = [97, 98, 99, 100, 101]
    tokens[at] = 0
    stopper = Stopper(as_bytes, frozenset({0}), (), 100)
    assert stopper.scan(tokens) == (at, StopReason.EOS)
    assert stopper.take() == "abcde"[:at]


def test_a_stop_comes_before_the_length() -> None:
    """Guards the order: a stop string completed by the last allowed token is a stop, not a length."""
    assert scan("abEND", [], Stopper(as_bytes, frozenset(), ("END",), 5))[2] is StopReason.STOP_STRING
    assert scan("abcde", [], Stopper(as_bytes, frozenset(), ("END",), 5))[2] is StopReason.LENGTH


def test_the_first_of_several_stop_strings_wins() -> None:
    """Guards overlapping stop strings: text is cut at the earliest."""
    assert scan("one two", [], Stopper(as_bytes, frozenset(), ("two", "ne t"), 99))[0] == "o"


def test_a_character_after_broken_bytes_is_not_swallowed() -> None:
    """Guards text against ids: whatever bytes come, the pieces join to what the whole decodes to."""
    for data in ([0xE2, 0x82, 0xE2, 0x82, 0xAC, 0x61], [0xF0, 0x9F, *"😀".encode()], [0x80] * 6, [0xC3]):
        detokenizer = Detokenizer(as_bytes)
        assert "".join(map(detokenizer.push, data)) + detokenizer.flush() == as_bytes(data)


@given(st.binary(max_size=30))
def test_any_bytes_join_to_their_text(data: bytes) -> None:
    """Guards the same for every sequence of bytes."""
    detokenizer = Detokenizer(as_bytes)
    assert "".join(map(detokenizer.push, data)) + detokenizer.flush() == as_bytes(data)
