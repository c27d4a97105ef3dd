"""transformers' `generate`: plain, prompt lookup, assistant model. In the process that measures, on its own threads."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from .measure import Clock, Sample
from .standalone import arguments, measure_alone

LOOKUPS = (8, 10)


class _Pieces:
    """A streamer that only looks at the clock; its first call is the prompt."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._started = clock, False

    def put(self, value: torch.Tensor) -> None:
        """Called by `generate` with the new ids of each step."""
        if self._started:
            self._clock.take(value.numel())
        self._started = True

    def end(self) -> None:
        """Called by `generate` after the last step."""


class Transformers:
    """One target, and an assistant where a folder is given."""

    def __init__(self, folder: str, assistant: str = "", dtype: torch.dtype = torch.bfloat16) -> None:
        def model(path: str) -> Any:
            return AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval()

        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._model = model(folder)
        self._assistant = model(assistant) if assistant else None

    @property
    def variants(self) -> tuple[str, ...]:
        """Plain, lookups, and the assistant model if there is one."""
        return ("plain", *(f"lookup {size}" for size in LOOKUPS), *(["assistant"] if self._assistant else []))

    def options(self, variant: str) -> dict[str, Any]:
        """What `generate` is told for a variant."""
        if variant.startswith("lookup"):
            return {"prompt_lookup_num_tokens": int(variant.split()[1])}
        return {"assistant_model": self._assistant} if variant.startswith("assistant") else {}

    def draw(self, variant: str) -> None:
        """Set how much the assistant drafts: "assistant" is the library's default, "assistant N" always N tokens."""
        if self._assistant is not None:
            config = self._assistant.generation_config
            fixed = variant.split()[1:]
            config.num_assistant_tokens = int(fixed[0]) if fixed else 20
            config.assistant_confidence_threshold = 0.0 if fixed else 0.4

    def generate(self, ids: Sequence[int], count: int, clock: Clock, **options: Any) -> list[int]:
        """New token ids for a prompt; `options` go to `generate` as they are."""
        prompt = torch.tensor([list(ids)])
        mask = torch.ones_like(prompt)
        with torch.inference_mode():
            whole = self._model.generate(
                prompt, attention_mask=mask, max_new_tokens=count, streamer=_Pieces(clock), pad_token_id=0, **options
            )
        new: list[int] = whole[0, len(ids) :].tolist()
        return new

    def run(self, variant: str, prompt: str, ids: Sequence[int], count: int) -> list[Sample]:
        """One greedy reply, end of text ignored."""
        clock = Clock()
        self.draw(variant)
        new = self.generate(ids, count, clock, do_sample=False, eos_token_id=None, **self.options(variant))
        return [clock.sample(f"transformers {variant}", prompt, self._tokenizer.decode(new))]

    def close(self) -> None:
        """Let the weights go."""
        self._model = self._assistant = None


def main() -> None:
    """Measure it alone."""
    parser = arguments(argparse.ArgumentParser(description=__doc__))
    parser.add_argument("--assistant", default="", help="folder of an assistant model with the same tokenizer")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    measure_alone(Transformers(options.model, options.assistant), options)


if __name__ == "__main__":
    main()
