"""Conversations that are too long for the context."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from localchat.chat.conversation import Conversation
from localchat.chat.trim import trimmed


def encode(conversation: Conversation) -> Sequence[int]:
    """A token a character, and three for a message."""
    return [0] * sum(3 + len(message.text) for message in conversation.messages)


def talk(turns: int) -> Conversation:
    """Ten characters a message."""
    said = Conversation.begin("be helpful")
    for number in range(turns):
        said = said.user(f"question {number % 10}").assistant(f"response {number % 10}")
    return said.user("and now??")


def test_what_fits_is_left_alone() -> None:
    """Guards short chats."""
    assert trimmed(talk(3), encode, 1000, 100) == (encode(talk(3)), 0)


@pytest.mark.parametrize("turns", [20, 21, 100, 1000])
def test_what_is_left_fits_and_no_turn_is_torn_apart(turns: int) -> None:
    """Guards against a prompt that fails, or that begins with an answer to nothing."""
    ids, cut = trimmed(talk(turns), encode, 400, 100)
    assert len(ids) <= 400
    assert cut > 0
    assert cut % 2 == 0


def test_the_beginning_changes_seldom() -> None:
    """Guards the caches: if the beginning moved with every turn, every turn would read everything again."""
    cuts = [trimmed(talk(turns), encode, 400, 200)[1] for turns in range(20, 60)]
    assert len(set(cuts)) <= 8
    assert cuts == sorted(cuts)


def test_the_last_turn_and_the_system_message_stay() -> None:
    """Guards against a reply to nothing: what cannot be cut is refused elsewhere, in words."""
    ids, cut = trimmed(Conversation.begin("s" * 500).user("q" * 500), encode, 100, 50)
    assert (len(ids), cut) == (1006, 0)
    ids, cut = trimmed(talk(5).assistant("beginning of").user("x" * 500), encode, 100, 50)
    assert cut == 12
    assert len(ids) == 13 + 503
