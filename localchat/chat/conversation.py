"""What is said: immutable values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Role(StrEnum):
    """Who says it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in order. A trailing assistant message is a partial reply to be continued."""

    messages: tuple[Message, ...] = ()

    def __add__(self, message: Message) -> Conversation:
        return replace(self, messages=(*self.messages, message))

    def user(self, text: str) -> Conversation:
        """This conversation with one more user message."""
        return self + Message(Role.USER, text)

    def assistant(self, text: str) -> Conversation:
        """This conversation with one more assistant message."""
        return self + Message(Role.ASSISTANT, text)

    @staticmethod
    def begin(system: str = "") -> Conversation:
        """An empty conversation, with a system message if there is one."""
        return Conversation((Message(Role.SYSTEM, system),) if system else ())
