"""Long texts that stand in the composer as labels."""

from __future__ import annotations

import pytest

from localchat.tui.folds import Folds, long, size


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "1 character"),
        ("ab\n", "3 characters"),
        ("a\nb", "2 lines"),
        ("a\nb\n", "2 lines"),
        ("a\n" * 1200, "1,200 lines"),
    ],
)
def test_size_in_words(text: str, words: str) -> None:
    """Guards a label that counts the line after the last newline."""
    assert size(text) == words


def test_what_is_long() -> None:
    """Guards the limits: 20 lines and 2,000 characters are still shown as they are."""
    assert not long("\n".join("x" * 20))
    assert long("\n".join("x" * 21))
    assert not long("x" * 2000)
    assert long("x" * 2001)


def test_two_texts_of_one_size_are_told_apart() -> None:
    """Guards a paste that is sent as an earlier one of the same length."""
    folds = Folds()
    first, second, again = folds.add("pasted 2 lines", "a\nb"), folds.add("pasted 2 lines", "c\nd"), None
    again = folds.add("pasted 2 lines", "a\nb")
    assert first == again != second
    assert folds.expand(f"{first}+{second}") == "a\nb+c\nd"


def test_what_a_label_stands_for_is_not_expanded_again() -> None:
    """Guards against a paste that holds the label of another one, and against what is typed to look like a label."""
    folds = Folds()
    inner = folds.add("pasted 2 lines", "secret")
    outer = folds.add("pasted 9 lines", f"see {inner}")
    assert folds.expand(outer) == f"see {inner}"
    assert folds.expand("[pasted 2 lines]") == "[pasted 2 lines]"


def test_titles_cannot_break_a_label() -> None:
    """Guards a file that is called `a]b[c` or has a newline in its name."""
    folds = Folds()
    label = folds.add("a]b[c\nd\te · 3 lines", "text")
    assert folds.expand(f"x{label}y") == "xtexty"
    assert folds.spans(f"x{label}y") == [(1, 1 + len(label))]


def test_a_label_is_one_piece() -> None:
    """Guards half a label left behind."""
    folds = Folds()
    label = folds.add("pasted 2 lines", "a\nb")
    line = f"12{label}34[not one]"
    assert folds.around(line, 2) == (2, 2)
    assert folds.around(line, 3) == folds.around(line, 1 + len(label)) == (2, 2 + len(label))
    assert folds.around(line, len(line) - 2) == (len(line) - 2, len(line) - 2)
