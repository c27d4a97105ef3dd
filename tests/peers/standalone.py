"""The command line that the peers share."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import Any

from transformers import AutoTokenizer

from .measure import NEW_TOKENS, Peer, interleave, json_line, table
from .prompts import WARM_UP, Prompt, select


def arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The options that every script has."""
    parser.add_argument("model", help="transformers folder of the target; its tokenizer makes the ids for every engine")
    parser.add_argument("--prompts", default="all", help="comma-separated names from prompts.py, or all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=NEW_TOKENS)
    parser.add_argument("--threads", type=int, default=2)
    return parser


def clean_up_when_terminated() -> None:
    """Turn SIGTERM into an exit that runs `finally` blocks: servers must not outlive the measurement."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def tokenized(folder: str, prompts: Sequence[Prompt]) -> list[tuple[Prompt, Sequence[int]]]:
    """Prompts with their token ids, the beginning-of-text token included where the tokenizer adds one."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    return [(prompt, list(tokenizer(prompt.text).input_ids)) for prompt in prompts]


def warm_up(peers: Sequence[Peer], folder: str) -> None:
    """One short reply of every variant on a prompt that is not measured."""
    [(prompt, ids)] = tokenized(folder, [WARM_UP])
    for peer in peers:
        for variant in peer.variants:
            peer.run(variant, prompt.name, ids, 24)


def measure_alone(peer: Peer, options: argparse.Namespace) -> None:
    """Warm up, measure, print the table and the line; the peer is closed whatever happens."""
    clean_up_when_terminated()
    try:
        warm_up([peer], options.model)
        rows = interleave([peer], tokenized(options.model, select(options.prompts)), options.repeats, options.tokens)
    finally:
        peer.close()
    print(table(rows))
    print(json_line(rows, {}, {"repeats": options.repeats, "tokens": options.tokens, "threads": options.threads}))
