"""What is left out of a conversation that is longer than the context: its oldest turns, and as seldom as can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localchat.chat.conversation import Conversation, Role

Encode = Callable[[Conversation], Sequence[int]]


def trimmed(conversation: Conversation, encode: Encode, most: int, step: int) -> tuple[Sequence[int], int]:
    """Token ids of the conversation, and how many of its oldest messages are not among them.

    What is left out grows by `step` tokens at a time: in between, each turn's prompt begins like the last one's, and
    what the caches hold of it is of use. The system message and the last turn always stay.

    Args:
        conversation: system message, turns, perhaps the beginning of a reply.
        encode: as the model's prompt renders it.
        most: tokens the prompt may have.
        step: tokens.
    """
    ids = encode(conversation)
    messages = conversation.messages
    head = 1 if messages and messages[0].role is Role.SYSTEM else 0
    starts = [place for place, message in enumerate(messages) if message.role is Role.USER and place > head]
    if len(ids) <= most or not starts:
        return ids, 0
    wanted = -(-(len(ids) - most) // step) * step

    def without(start: int) -> Sequence[int]:
        return encode(Conversation((*messages[:head], *messages[start:])))

    low, high = 0, len(starts) - 1
    while low < high:
        middle = (low + high) // 2
        if len(ids) - len(without(starts[middle])) >= wanted:
            high = middle
        else:
            low = middle + 1
    return without(starts[low]), starts[low] - head
