"""llama.cpp through xllamacpp: plain, its n-gram modes, and a draft model where a GGUF of one is given.

It runs in a child process that answers one request line at a time, because its threads have no business in the process
that measures the others. Every reply gets a new server, as some modes remember earlier replies; those are asked once
more, of the same server.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .measure import AGAIN, Clock, Piece, Sample
from .prompts import WARM_UP

MODES = ("ngram_simple", "ngram_map_k", "ngram_mod")
REMEMBERS = ("ngram_map_k", "ngram_mod")


class LlamaCpp:
    """The parent's end."""

    def __init__(self, gguf: str, threads: int, draft: str = "", context: int = 2048) -> None:
        command = [sys.executable, "-m", __spec__.name, "--serve", gguf]
        command += ["--draft", draft, "--threads", str(threads), "--context", str(context)]
        self._draft = draft
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    @property
    def variants(self) -> tuple[str, ...]:
        """Plain, the n-gram modes, and the draft model if there is one."""
        return ("plain", *MODES, *(["draft_simple"] if self._draft else []))

    def run(self, variant: str, prompt: str, ids: Sequence[int], count: int) -> list[Sample]:
        """One greedy reply of a new server, end of text ignored; a second one if the mode remembers."""
        if self._child.stdin is None or self._child.stdout is None:
            raise RuntimeError("llama.cpp's process has no pipes")
        request = {"variant": variant, "prompt": prompt, "ids": list(ids), "count": count}
        self._child.stdin.write(json.dumps(request) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"llama.cpp's process ended with {self._child.wait()}")
        return [
            Sample(item["engine"], item["prompt"], tuple(Piece(**piece) for piece in item["pieces"]), item["text"])
            for item in json.loads(line)
        ]

    def close(self) -> None:
        """End the child: it stops when its input does."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        try:
            self._child.wait(20)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


class _Child:
    """The child's end: builds servers and asks them."""

    def __init__(self, gguf: str, draft: str, threads: int, context: int) -> None:
        self._gguf, self._draft, self._threads, self._context = gguf, draft, threads, context

    def _server(self, variant: str) -> Any:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = self._gguf
        params.n_ctx, params.n_parallel, params.port = self._context, 1, 0
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self._threads
        if variant != "plain":
            kinds = xllamacpp.common_speculative_type
            params.speculative.types = [getattr(kinds, f"COMMON_SPECULATIVE_TYPE_{variant.upper()}")]
        if variant == "draft_simple":
            draft = params.speculative.draft
            draft.mparams.path = self._draft
            draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = self._threads
        return xllamacpp.Server(params)

    def _ask(self, server: Any, name: str, prompt: str, ids: Sequence[int] | str, count: int) -> Sample:
        request = {"prompt": ids, "max_tokens": count, "temperature": 0, "ignore_eos": True, "stream": True}
        texts: list[str] = []
        problems: list[str] = []
        clock = Clock()

        def take(event: dict[str, Any]) -> bool:
            if "choices" not in event:
                problems.append(json.dumps(event)[:300])
            elif event["choices"] and event["choices"][0]["finish_reason"] is None:
                clock.take(1)
                texts.append(event["choices"][0]["text"])
            return False

        server.handle_completions(request, take)
        if problems:
            raise RuntimeError(f"llama.cpp answered: {problems[0]}")
        return clock.sample(name, prompt, "".join(texts))

    def answer(self, request: dict[str, Any]) -> list[Sample]:
        """The samples for one request."""
        variant, count = request["variant"], request["count"]
        server = self._server(variant)
        name = f"llama.cpp {variant}"
        self._ask(server, name, WARM_UP.name, WARM_UP.text, 24)
        samples = [self._ask(server, name, request["prompt"], request["ids"], count)]
        if variant in REMEMBERS:
            samples.append(self._ask(server, name + AGAIN, request["prompt"], request["ids"], count))
        return samples


def _serve(child: _Child) -> None:
    """Answer request lines on a copy of stdout: llama.cpp may print on the real one."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        samples = child.answer(json.loads(line))
        replies.write(json.dumps([asdict(sample) for sample in samples]) + "\n")
        replies.flush()


def main() -> None:
    """Measure it alone, or be the child."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gguf", default="", help="GGUF of the target")
    parser.add_argument("--draft", default="", help="GGUF of a draft model with the same tokenizer")
    parser.add_argument("--context", type=int, default=2048)
    if "--serve" in sys.argv:
        parser.add_argument("--serve", required=True)
        parser.add_argument("--threads", type=int, default=2)
        served = parser.parse_args()
        _serve(_Child(served.serve, served.draft, served.threads, served.context))
        return
    from .standalone import arguments, measure_alone

    options = arguments(parser).parse_args()
    if not Path(options.gguf).is_file():
        parser.error("--gguf names no file")
    measure_alone(LlamaCpp(options.gguf, options.threads, options.draft, options.context), options)


if __name__ == "__main__":
    main()
