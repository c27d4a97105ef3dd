"""Make the starter pair again: `python -m localchat.models.starter.build`.

Tokenizer, target, draft, marks and model card, in this order. Work in progress lives in a cache folder and is resumed;
the finished pair replaces the stored one (or goes to --out).
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from localchat.models.starter import HOME
from localchat.models.starter.card import card
from localchat.models.starter.score import report, score_pair
from localchat.models.starter.shapes import load_model
from localchat.models.starter.stages import Plan, make_tokenizer, outcomes, run_stage
from localchat.models.starter.tokenizer import load_tokenizer

DEFAULT_MINUTES = 40  # About what the default plan takes on two idle cores.
PAIR = ("target", "draft")


def default_cache() -> Path:
    """Where work in progress is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or tempfile.gettempdir()
    return Path(base) / "localchat-starter"


def install(cache: Path, out: Path) -> None:
    """Copy the finished pair to `out`, readable for everyone."""
    for name in PAIR:
        (out / name).mkdir(parents=True, exist_ok=True)
        for file in sorted((cache / name).iterdir()):
            shutil.copyfile(file, out / name / file.name)


def build(plan: Plan, out: Path) -> str:
    """Run every stage that is not done yet, install the pair and its card; returns the marks as text."""
    plan.cache.mkdir(parents=True, exist_ok=True)
    make_tokenizer(plan)
    for name in PAIR:
        run_stage(plan, name)
    install(plan.cache, out)
    target, draft = (load_model(out / name) for name in PAIR)
    score = score_pair(target, draft, load_tokenizer(out / "target"))
    took = {name: outcomes(plan.cache / name) for name in PAIR}
    (out / "README.md").write_text(card(out, plan, took, score), encoding="utf-8")
    return report(score)


def main() -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(prog="python -m localchat.models.starter.build", description=__doc__)
    parser.add_argument("--out", type=Path, default=HOME, help="where the pair and its card go (default: this package)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where work in progress is kept")
    parser.add_argument("--minutes", type=float, default=DEFAULT_MINUTES, help="rough training time on two idle cores")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    plan = Plan(cache=args.cache, seed=args.seed).scaled(args.minutes / DEFAULT_MINUTES)
    print(build(plan, args.out))


if __name__ == "__main__":
    main()
