"""What a model thinks and what it answers."""

from __future__ import annotations

import pytest

from localchat.tui.thinking import Split, split


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Hello.", Split("", "Hello.", thinking=False)),
        ("", Split("", "", thinking=False)),
        ("<th", Split("", "", thinking=True)),
        ("<table>", Split("", "<table>", thinking=False)),
        ("<think>\nHm", Split("Hm", "", thinking=True)),
        ("<think>Hm.</think>\n\nYes.", Split("Hm.", "Yes.", thinking=False)),
        ("Hm.\n</think>\nYes.", Split("Hm.", "Yes.", thinking=False)),
        ("<think></think>Yes.", Split("", "Yes.", thinking=False)),
    ],
)
def test_a_reply_is_parted(text: str, parts: Split) -> None:
    """Guards against thoughts in the answer, also where the chat template opened the thought itself."""
    assert split(text) == parts


def test_the_answer_only_grows_while_it_streams() -> None:
    """Guards the streamed Markdown: what was shown as answer is never taken back."""
    text = "<think>one two\nthree</think>\n\n# Four\nfive"
    shown = ""
    for end in range(len(text) + 1):
        answer = split(text[:end]).answer
        assert answer.startswith(shown)
        shown = answer
    assert shown == "# Four\nfive"
