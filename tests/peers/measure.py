"""What every engine is measured by, so that the ratios mean the same thing.

Decoding speed of one reply = (N - n) / (T - t): N tokens in all, n of them in the first piece that arrived at time t,
the last piece at time T. The prefill, and the first piece with it, is left out for every engine; a piece is whatever
arrives together: a round of ours, of transformers or of vLLM, a token of llama.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Protocol

from .prompts import Prompt

NEW_TOKENS = 96
AGAIN = " again"
"""Ends the name of a measurement of a prompt that the same engine has answered before."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens that arrived together, seconds after the request."""

    seconds: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One reply of one engine."""

    engine: str
    """Engine and way of drafting, such as "transformers lookup 8"."""
    prompt: str
    pieces: tuple[Piece, ...]
    text: str

    @property
    def tokens(self) -> int:
        """Tokens of the reply."""
        return sum(piece.tokens for piece in self.pieces)

    @property
    def decode_seconds(self) -> float:
        """From the first piece to the last."""
        return self.pieces[-1].seconds - self.pieces[0].seconds

    @property
    def rate(self) -> float:
        """Tokens per second of decoding, as the module says."""
        return (self.tokens - self.pieces[0].tokens) / self.decode_seconds if self.decode_seconds else 0.0


class Clock:
    """Collects the pieces of one reply as they arrive."""

    def __init__(self) -> None:
        self._begun = perf_counter()
        self._pieces: list[Piece] = []

    def take(self, tokens: int) -> None:
        """`tokens` tokens have arrived now."""
        if tokens:
            self._pieces.append(Piece(perf_counter() - self._begun, tokens))

    def sample(self, engine: str, prompt: str, text: str) -> Sample:
        """The finished reply."""
        return Sample(engine, prompt, tuple(self._pieces), text)


class Peer(Protocol):
    """An engine that continues raw token ids greedily."""

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the ways it can draft, plain first."""
        ...

    def run(self, variant: str, prompt: str, ids: Sequence[int], count: int) -> list[Sample]:
        """Continue `ids` by `count` tokens; engines that remember replies do it twice, the second named `AGAIN`."""
        ...

    def close(self) -> None:
        """Stop processes, free memory."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """The samples of one engine on one prompt."""

    engine: str
    prompt: str
    tokens: int
    pieces: int
    median: float
    low: float
    high: float
    text: str

    @staticmethod
    def of(samples: Sequence[Sample]) -> Row:
        """Median and range of the decoding speed."""
        rates = [sample.rate for sample in samples]
        last = samples[-1]
        return Row(
            last.engine, last.prompt, last.tokens, len(last.pieces), median(rates), min(rates), max(rates), last.text
        )


def interleave(
    peers: Sequence[Peer], prompts: Sequence[tuple[Prompt, Sequence[int]]], repeats: int, count: int = NEW_TOKENS
) -> list[Row]:
    """Run every variant of every engine once a round, so that a slow minute of the machine meets all of them."""
    samples: dict[tuple[str, str], list[Sample]] = {}
    for repeat in range(repeats):
        print(f"round {repeat + 1} of {repeats}", flush=True)
        for prompt, ids in prompts:
            for peer in peers:
                for variant in peer.variants:
                    for sample in peer.run(variant, prompt.name, ids, count):
                        samples.setdefault((prompt.name, sample.engine), []).append(sample)
    return [Row.of(group) for group in samples.values()]


def table(rows: Sequence[Row]) -> str:
    """The rows for people, one block a prompt, speed against that block's first row."""
    lines = []
    first: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row.prompt):
        if row.prompt not in first:
            first[row.prompt] = row
            lines.append(f"\n{row.prompt:<34}  tok/s     low    high  tokens  pieces      ×")
        speeds = f"{row.median:7.1f} {row.low:7.1f} {row.high:7.1f}"
        ratio = row.median / first[row.prompt].median
        lines.append(f"  {row.engine:<32}{speeds} {row.tokens:7} {row.pieces:7} {ratio:6.2f}")
    return "\n".join(lines)


def json_line(rows: Sequence[Row], ratios: dict[str, float], settings: dict[str, str | int]) -> str:
    """One line for programs."""
    results = [
        {
            "engine": row.engine,
            "prompt": row.prompt,
            "tokens": row.tokens,
            "pieces": row.pieces,
            "tokens_per_second": round(row.median, 2),
            "low": round(row.low, 2),
            "high": round(row.high, 2),
        }
        for row in rows
    ]
    rounded = {name: round(value, 3) for name, value in ratios.items()}
    return json.dumps({"settings": settings, "ratios": rounded, "results": results})
