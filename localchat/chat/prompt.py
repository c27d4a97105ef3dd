"""From a conversation to token ids and back, by the target's own chat template.

What people type is text: a control token written out in a message is encoded letter by letter, so nobody can end a
turn or speak as someone else by typing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2.exceptions import TemplateError

from localchat.chat.conversation import Conversation, Message, Role
from localchat.errors import ModelError, UsageError

_PROBE = "localchat-probe"
_PLAIN_NAMES = {Role.SYSTEM: "", Role.USER: "User: ", Role.ASSISTANT: "Assistant: "}


class Prompt:
    """Renders conversations for one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._templated = bool(getattr(tokenizer, "chat_template", None))
        self._folds = self._templated and not self._takes_system()
        self._lead: tuple[int, ...] = self._text("\n")
        self._pieces: dict[int, str] = {}

    @property
    def note(self) -> str:
        """What the user should know about how the conversation is put to the model; empty if nothing."""
        if not self._templated:
            return (
                "This model has no chat template (a base model): it continues a plain dialogue of User and Assistant."
            )
        if self._folds:
            return "This model's chat template takes no system message: its text is put before the first message."
        return ""

    @property
    def stop(self) -> tuple[str, ...]:
        """Strings that end a reply besides the end-of-reply tokens; a plain dialogue needs one."""
        return () if self._templated else ("\nUser:",)

    def encode(self, conversation: Conversation) -> tuple[int, ...]:
        """Token ids of the prompt for the next assistant message; a trailing one is continued.

        Raises:
            UsageError: there is nothing to answer.
            ModelError: the model's chat template cannot take this conversation.
        """
        messages = conversation.messages
        partial = messages[-1].text if messages and messages[-1].role is Role.ASSISTANT else ""
        turns = messages[:-1] if messages and messages[-1].role is Role.ASSISTANT else messages
        if not any(message.role is Role.USER for message in turns):
            raise UsageError("There is no message to answer.", "Write one.")
        if not self._templated:
            return self._plain(turns, partial)
        return (*self._render(self._folded(turns) if self._folds else turns), *self._continued(partial))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without control tokens and with every space as the model wrote it."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The text of each token taken alone, control tokens by their names; part of a character is U+FFFD."""
        return tuple(self._pieces[token] if token in self._pieces else self._piece(token) for token in ids)

    def _piece(self, token: int) -> str:
        # After other text: some tokenizers drop the space in front of a first word.
        before = self._whole(self._lead)
        after = self._whole((*self._lead, token))
        text = after[len(before) :] if after.startswith(before) else self._whole((token,))
        self._pieces[token] = text
        return text

    def _whole(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def _render(self, turns: Sequence[Message]) -> tuple[int, ...]:
        problem: Exception | None = None
        for attempt in (turns, _merged(turns)):
            try:
                return self._apply(attempt)
            except (ValueError, TypeError, TemplateError) as error:
                problem = problem or error
        raise ModelError(
            f"The model's chat template cannot take this conversation: {str(problem)[:200]}",
            "Start a new chat, or choose another model.",
        ) from problem

    def _apply(self, turns: Sequence[Message]) -> tuple[int, ...]:
        ids = self._tokenizer.apply_chat_template(
            [{"role": message.role.value, "content": message.text} for message in turns],
            add_generation_prompt=True,
            sanitize_control_tokens=True,
            return_dict=False,
        )
        return tuple(int(token) for token in ids)

    def _takes_system(self) -> bool:
        """True if a system message is accepted and its text arrives in the prompt."""
        turns = [{"role": "system", "content": _PROBE}, {"role": "user", "content": "hello"}]
        try:
            text = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except (ValueError, TypeError, TemplateError):
            return False
        return _PROBE in text

    @staticmethod
    def _folded(turns: Sequence[Message]) -> tuple[Message, ...]:
        """The conversation with its system text at the start of the first user message."""
        system = "\n\n".join(message.text for message in turns if message.role is Role.SYSTEM)
        rest = [message for message in turns if message.role is not Role.SYSTEM]
        if not system:
            return tuple(rest)
        first = next(place for place, message in enumerate(rest) if message.role is Role.USER)
        rest[first] = Message(Role.USER, f"{system}\n\n{rest[first].text}")
        return tuple(rest)

    def _plain(self, turns: Sequence[Message], partial: str) -> tuple[int, ...]:
        blocks = [_PLAIN_NAMES[message.role] + message.text.strip() for message in turns]
        # No space after the colon: models learnt words with the space in front.
        text = "\n\n".join([*blocks, "Assistant:"]) + (f" {partial.lstrip()}" if partial else "")
        return (*self._opening(), *self._text(text))

    def _opening(self) -> tuple[int, ...]:
        """Tokens the tokenizer itself puts before a text (the beginning-of-text token, where there is one)."""
        own = self._tokenizer.bos_token_id
        return tuple(token for token in self._tokenizer("")["input_ids"][:1] if token == own)

    def _continued(self, text: str) -> tuple[int, ...]:
        """Ids of text in the middle of a prompt: without the space some tokenizers put before a first word."""
        if not text:
            return ()
        ids, size = self._text("\n" + text), len(self._lead)
        return ids[size:] if ids[:size] == self._lead else self._text(text)

    def _text(self, text: str) -> tuple[int, ...]:
        ids = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return tuple(int(token) for token in ids)


def _merged(turns: Sequence[Message]) -> tuple[Message, ...]:
    """Neighbouring messages of one role as one: some templates insist that roles alternate."""
    merged: list[Message] = []
    for message in turns:
        if merged and merged[-1].role is message.role:
            merged[-1] = Message(message.role, f"{merged[-1].text}\n\n{message.text}")
        else:
            merged.append(message)
    return tuple(merged)
