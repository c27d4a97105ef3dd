"""Tells what a model thinks from what it answers: reasoning models write the first between <think> and </think>."""

from __future__ import annotations

from dataclasses import dataclass

_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Split:
    """A reply in two parts."""

    thought: str
    answer: str
    thinking: bool
    """The thought is not over yet."""


def split(text: str) -> Split:
    """Part a reply, finished or not.

    Some chat templates open the thought themselves, so a closing mark alone also ends one.
    """
    body = text.lstrip()
    opened = body.startswith(_OPEN)
    if not opened and 0 < len(body) < len(_OPEN) and _OPEN.startswith(body):
        return Split("", "", thinking=True)
    thought, mark, answer = body.removeprefix(_OPEN).partition(_CLOSE)
    if mark:
        return Split(thought.strip(), answer.lstrip("\n"), thinking=False)
    return Split(thought.strip(), "", thinking=True) if opened else Split("", text, thinking=False)
