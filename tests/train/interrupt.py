"""Training that is interrupted again and again, beside training that is not: `python -m tests.train.interrupt`.

Each run is a process of its own, as a user starts it; it is interrupted at random moments, by Ctrl-C and by SIGKILL in
turn, and started again with the same command until it is done. Trainings with other seeds show how much results differ
anyway.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a training came to."""

    seed: int
    interruptions: int
    minutes: float
    tokens: int
    acceptance: tuple[float, ...]
    """Of the first guess, by position."""
    tokens_per_round: float

    @property
    def line(self) -> str:
        """In words."""
        rates = " ".join(f"{rate:.1%}" for rate in self.acceptance)
        return (
            f"seed {self.seed} · {self.interruptions:2} interruptions · {self.minutes:.1f} min · {self.tokens:,} tokens"
            f" · accepted {rates} · {self.tokens_per_round:.3f} tokens per round"
        )


def start(home: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """The command line in a home of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "localchat", "train", "--json", *arguments],
        cwd=ROOT,
        env={**os.environ, "LOCALCHAT_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def train(arguments: Sequence[str], seed: int, interruptions: int, seconds: float, home: Path) -> Outcome:
    """One training, interrupted so often.

    Args:
        seconds: within which each interruption comes at a random moment.
    """
    moments, left = random.Random(seed), interruptions
    while True:
        process = start(home, [*arguments, "--seed", str(seed)])
        if left:
            try:
                process.wait(moments.uniform(0.0, seconds))
            except subprocess.TimeoutExpired:
                process.send_signal((signal.SIGINT, signal.SIGKILL)[left % 2])
                left -= 1
        out, errors = process.communicate()
        if out:
            found = json.loads(out)
            rates = tuple(ranks[0] for ranks in found["acceptance"])
            done = interruptions - left
            return Outcome(seed, done, found["minutes"], found["tokens"], rates, found["tokens_per_round"])
        if process.returncode not in (130, -signal.SIGKILL):
            raise SystemExit(f"training failed with {process.returncode}: {errors.decode()}")


def main() -> None:
    """Read the command line, train and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="eagle")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--times", type=int, default=10, help="interruptions")
    parser.add_argument("--seeds", type=int, default=3, help="trainings without any")
    parser.add_argument("--data", nargs="*", default=["self"])
    args = parser.parse_args()
    arguments = ["--kind", args.kind, "--minutes", str(args.minutes), "--device", "cpu"]
    for source in args.data:
        arguments += ["--data", source]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        interrupted = train(arguments, 0, args.times, 120 * args.minutes / args.times, Path(folder) / "interrupted")
        print(interrupted.line, flush=True)
        whole = [train(arguments, seed, 0, 0.0, Path(folder) / f"whole{seed}") for seed in range(args.seeds)]
    for one in whole:
        print(one.line, flush=True)
    values = [one.tokens_per_round for one in whole]
    print(
        f"interrupted {interrupted.tokens_per_round:.3f}, otherwise {min(values):.3f} to {max(values):.3f} "
        f"tokens per round ({time.monotonic() - begun:.0f} s)"
    )


if __name__ == "__main__":
    main()
