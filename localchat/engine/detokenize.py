"""Tokens to text as they come, never half a character, and the one place that decides where a reply stops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localchat.engine.types import StopReason

Decode = Callable[[Sequence[int]], str]

_UNFINISHED = "\ufffd"
_HELD = 3
"""An unfinished character has at most three bytes, and decoders show one replacement character or one per byte."""


class Detokenizer:
    """Incremental decoding.

    A tokenizer may join or space tokens by what stands before them, so a short window of earlier tokens is decoded
    with each new one and what was shown of it is taken off. Trailing replacement characters may still become a
    character, and are held back.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._window = 0
        self._settled = 0
        self._shown = 0

    def push(self, token: int) -> str:
        """Text that became certain with this token."""
        self._ids.append(token)
        text = self._decode(self._ids[self._window :])
        whole = text.rstrip(_UNFINISHED)
        return self._show(text, max(len(whole), len(text) - _HELD))

    def flush(self) -> str:
        """What was held back, at the end of a reply."""
        text = self._decode(self._ids[self._window :])
        return self._show(text, len(text))

    def _show(self, text: str, end: int) -> str:
        new = text[self._shown : end]
        self._shown = max(self._shown, end)
        if end == len(text):
            self._window, self._settled = self._settled, len(self._ids)
            self._shown = len(self._decode(self._ids[self._window :]))
        return new


class Stopper:
    """Scans emitted tokens one by one: end-of-reply ids, then stop strings, then the length.

    Args:
        decode: token ids to text.
        eos: ids that end a reply; they are neither text nor kept.
        strings: texts that end a reply; nothing from them on becomes visible.
        max_tokens: most tokens of the reply.
    """

    def __init__(self, decode: Decode, eos: frozenset[int], strings: Sequence[str], max_tokens: int) -> None:
        self._detokenizer = Detokenizer(decode)
        self._eos, self._strings = eos, tuple(s for s in strings if s)
        self.left = max_tokens
        self._held = ""
        self._ready = ""

    def scan(self, tokens: Sequence[int]) -> tuple[int, StopReason | None]:
        """How many of these tokens belong to the reply, and the reason if it ends with them."""
        for index, token in enumerate(tokens):
            if token in self._eos:
                return index, self._finish(StopReason.EOS)
            self.left -= 1
            if self._grow(self._detokenizer.push(token)):
                return index + 1, StopReason.STOP_STRING
            if self.left <= 0:
                return index + 1, self._finish(StopReason.LENGTH)
        return len(tokens), None

    def _finish(self, reason: StopReason) -> StopReason:
        if self._grow(self._detokenizer.flush()):
            return StopReason.STOP_STRING
        self._ready += self._held
        self._held = ""
        return reason

    def _grow(self, text: str) -> bool:
        """Add certain text; True if a stop string is complete. Text that may begin one is held back."""
        self._held += text
        found = [at for at in (self._held.find(string) for string in self._strings) if at >= 0]
        if found:
            self._ready += self._held[: min(found)]
            self._held = ""
            return True
        hold = max((self._overlap(string) for string in self._strings), default=0)
        cut = len(self._held) - hold
        self._ready += self._held[:cut]
        self._held = self._held[cut:]
        return False

    def _overlap(self, string: str) -> int:
        """Length of the longest end of the held text that begins `string`."""
        longest = min(len(string) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(string[:n])), 0)

    def take(self) -> str:
        """Text that has become visible since the last call."""
        text, self._ready = self._ready, ""
        return text

    def flush(self) -> str:
        """All that is left, when the reply is stopped from outside."""
        self._finish(StopReason.CANCELLED)
        return self.take()
