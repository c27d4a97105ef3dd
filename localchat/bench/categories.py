"""The kinds of work a bench measures, and its prompts (data: prompts.toml beside this file)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from localchat.bench.runner import Task
from localchat.chat.conversation import Conversation
from localchat.models.folders import find_model, read_json
from localchat.models.plan import STARTER


class Form(StrEnum):
    """How a prompt speaks to the model."""

    CHAT = "chat"
    COMPLETION = "completion"
    GUIDE = "guide"


KINDS = ("code edit", "summary", "translation", "question answering", "story", "short answer")
"""From much that can be copied to nothing at all; the last is over before drafting can pay."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One thing to ask."""

    kind: str
    form: Form
    text: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not self.text:
            raise ValueError(f"a prompt needs a text and one of the kinds {', '.join(KINDS)}, not {self.kind!r}")

    @property
    def task(self) -> Task:
        """As something to measure."""
        return Task(self.kind, Conversation().user(self.text))


@cache
def prompts() -> tuple[Prompt, ...]:
    """Every prompt."""
    table = tomllib.loads(files("localchat.bench").joinpath("prompts.toml").read_text(encoding="utf-8"))
    return tuple(Prompt(entry["kind"], Form(entry["form"]), entry["text"].strip()) for entry in table["prompt"])


def choose(form: Form, kinds: tuple[str, ...] = KINDS) -> tuple[Prompt, ...]:
    """The prompts of a form, kind by kind."""
    return tuple(prompt for kind in kinds for prompt in prompts() if prompt.kind == kind and prompt.form is form)


def form_of(model: str) -> Form:
    """The prompts that suit a model (a hub id, a folder, a GGUF file or the starter); a GGUF file is taken for a chat
    model.

    Raises:
        ModelError: there is no such model here.
    """
    source = find_model(model)
    if source.name == STARTER:
        return Form.GUIDE
    settings = source.folder / "tokenizer_config.json"
    told = settings.is_file() and bool(read_json(settings).get("chat_template"))
    templated = told or bool(source.gguf) or (source.folder / "chat_template.jinja").is_file()
    return Form.CHAT if templated else Form.COMPLETION
