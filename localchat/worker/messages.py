"""What the screen's process and the engine's process say to each other: pickled values, each after its length."""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from typing import IO

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Event
from localchat.models.plan import LoadPlan

HELLO = b"\n\0localchat\0\n"
"""The child's first words. Whatever comes before them was printed by something else while Python started."""

_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True, slots=True)
class Survey:
    """Say what a device is and has free."""

    device: str


@dataclass(frozen=True, slots=True)
class Load:
    """Load this."""

    plan: LoadPlan


@dataclass(frozen=True, slots=True)
class Answer:
    """Write the next message."""

    conversation: Conversation
    options: ReplyOptions


Request = Survey | Load | Answer


@dataclass(frozen=True, slots=True)
class Ask:
    """A job; numbers ascend."""

    job: int
    request: Request


@dataclass(frozen=True, slots=True)
class Switch:
    """Draft, or do not, in this job from its next round on."""

    job: int
    on: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop this job."""

    job: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What a job said since the last batch."""

    job: int
    events: tuple[Event, ...]
    ended: bool


Order = Ask | Switch | Cancel


def send(stream: IO[bytes], message: Order | Batch) -> None:
    """Write one message.

    Raises:
        OSError: the other process is gone.
    """
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> object | None:
    """Read one message; None at the end of the stream, even in the middle of a message."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    return pickle.loads(data) if len(data) == size else None


def await_hello(stream: IO[bytes]) -> bool:
    """Skip to the end of HELLO; False if the stream ends first."""
    seen = b""
    while not seen.endswith(HELLO):
        byte = stream.read(1)
        if not byte:
            return False
        seen = (seen + byte)[-len(HELLO) :]
    return True
