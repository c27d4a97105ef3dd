"""localchat against transformers, llama.cpp and vLLM: one run, interleaved, the same prompts, greedy, 96 new tokens.

From the repository's root, with the engines that are at hand:

    python -m tests.peers.gemma FOLDER
    python -m tests.peers.compare FOLDER/gemma --gguf FOLDER/gemma-q4.gguf --vllm-python VENV/bin/python

transformers runs in this process, llama.cpp in a child, vLLM as a server from its own environment. Left out: what has
no argument, or what is named in --without. measure.py says how speed is defined. A table, then one JSON line.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

import torch

from localchat.models.plan import LoadPlan, Mode, Precision

from .measure import AGAIN, Peer, Row, interleave, json_line, table
from .ours import Ours
from .peer_llamacpp import LlamaCpp
from .peer_transformers import Transformers
from .peer_vllm import Vllm
from .prompts import select
from .standalone import arguments, clean_up_when_terminated, tokenized, warm_up

WIDTH_1 = " (width 1)"
"""Plain decoding as it would be without exact mode, which is what speedups are against."""


def best(rows: Sequence[Row], prompt: str, accept: Callable[[str], bool]) -> float:
    """Highest median among the engines on one prompt that `accept` takes by name; 0 if there is none."""
    return max((row.median for row in rows if row.prompt == prompt and accept(row.engine)), default=0.0)


def _first_time(engine: str, kind: str) -> bool:
    return engine.startswith(kind) and not engine.endswith((AGAIN, "plain"))


def ratios(rows: Sequence[Row]) -> dict[str, float]:
    """Ours against each peer's best, by name; what was not measured is left out."""
    pairs: dict[str, tuple[float, float]] = {}
    for prompt in dict.fromkeys(row.prompt for row in rows):

        def speed(name: str, prompt: str = prompt) -> float:
            return best(rows, prompt, lambda engine: engine == name)

        def first(kind: str, prompt: str = prompt) -> float:
            return best(rows, prompt, lambda engine: _first_time(engine, kind))

        plain = speed("ours plain" + WIDTH_1) or speed("ours plain")
        lookup, again = speed("ours lookup"), speed("ours lookup" + AGAIN)
        pairs[f"{prompt}: plain / transformers plain"] = (plain, speed("transformers plain"))
        pairs[f"{prompt}: plain / llama.cpp plain"] = (plain, speed("llama.cpp plain"))
        pairs[f"{prompt}: lookup / own plain"] = (lookup, plain)
        pairs[f"{prompt}: lookup / transformers lookup"] = (lookup, first("transformers lookup"))
        pairs[f"{prompt}: lookup / vllm ngram"] = (lookup, first("vllm"))
        pairs[f"{prompt}: lookup / llama.cpp first-time n-gram"] = (lookup, first("llama.cpp ngram"))
        pairs[f"{prompt}: again / llama.cpp ngram_mod again"] = (again, speed("llama.cpp ngram_mod" + AGAIN))
    return {name: ours / theirs for name, (ours, theirs) in pairs.items() if ours and theirs}


def _peers(options: argparse.Namespace, stack: ExitStack) -> list[Peer]:
    """The engines that were asked for, each closed by the stack."""
    plan = LoadPlan(
        model=options.model,
        precision=Precision(options.precision),
        draft="lookup",
        context=options.context,
        device="cpu",
        mode=Mode(options.mode),
    )
    left_out = set(options.without.split(","))
    peers: list[Peer] = []
    if "ours" not in left_out:
        ours = Ours(plan)
        loaded = ours.loaded
        exact = f"exact, width {loaded.width}" if loaded.exact else "fast"
        print(
            f"ours: {exact}; exact mode costs {loaded.exact_cost:.1%}; plain {loaded.plain_tokens_per_second:.1f} tok/s"
        )
        peers.append(ours)
        stack.callback(ours.close)
        if loaded.exact:
            peers.insert(0, Ours(replace(plan, draft="off", mode=Mode.FAST), ("off",), WIDTH_1))
            stack.callback(peers[0].close)
    if "transformers" not in left_out:
        peers.append(Transformers(options.model))
    if options.gguf:
        peers.append(LlamaCpp(options.gguf, options.threads, context=options.context))
        stack.callback(peers[-1].close)
    if options.vllm_python:
        peers.append(Vllm(options.model, options.vllm_python, options.threads, options.drafted, options.vllm_log))
        stack.callback(peers[-1].close)
    return peers


def main() -> None:
    """Measure and print."""
    parser = arguments(argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter))
    parser.add_argument("--precision", default="bf16", help="of ours")
    parser.add_argument("--mode", default="auto", help="of ours: auto, exact or fast")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--gguf", default="", help="GGUF of the target, for llama.cpp")
    parser.add_argument("--vllm-python", default="", help="interpreter of the environment that has vLLM")
    parser.add_argument("--vllm-log", default=os.devnull)
    parser.add_argument("--drafted", type=int, default=8, help="tokens that vLLM drafts by n-gram a round")
    parser.add_argument("--without", default="", help="comma-separated: ours, transformers")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clean_up_when_terminated()
    with ExitStack() as stack:
        peers = _peers(options, stack)
        warm_up(peers, options.model)
        prompts = tokenized(options.model, select(options.prompts))
        rows = interleave(peers, prompts, options.repeats, options.tokens)
    found = ratios(rows)
    print(table(rows))
    print()
    for name, ratio in found.items():
        print(f"{ratio:6.2f}  {name}")
    settings = {name: getattr(options, name) for name in ("repeats", "tokens", "threads", "mode", "precision")}
    print(json_line(rows, found, settings))


if __name__ == "__main__":
    main()
