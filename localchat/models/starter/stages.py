"""The stages of a build, each run by two worker processes of one thread that average their gradients.

Two processes beat two threads on a shared machine: they wait for each other once a step, not once an operation.
Every stage leaves its result in the cache folder and is skipped when it is already there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from localchat.models.starter.batches import Batch, batches
from localchat.models.starter.conversations import tokenizer_texts
from localchat.models.starter.score import banned_questions
from localchat.models.starter.shapes import (
    DRAFT_SHAPE,
    SHALLOW_SHAPE,
    TARGET_SHAPE,
    deepen,
    load_model,
    new_model,
    save_model,
)
from localchat.models.starter.tokenizer import load_tokenizer, train_tokenizer
from localchat.models.starter.training import Outcome, Recipe, corpus_loss, distillation_loss, train

WORKERS = 2
BATCH_TOKENS = 1280  # Of each worker.
TOKENIZER_CONVERSATIONS = 20_000


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides the outcome of a build, apart from the versions of the libraries."""

    cache: Path
    seed: int = 1
    shallow_steps: int = 7000
    deep_steps: int = 900
    draft_steps: int = 1250

    def scaled(self, factor: float) -> Plan:
        """The same plan with that many times the steps."""
        steps = (max(1, round(n * factor)) for n in (self.shallow_steps, self.deep_steps, self.draft_steps))
        return Plan(self.cache, self.seed, *steps)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a worker needs: its number, the tokenizer, and where to say how far it is."""

    rank: int
    tokenizer: Any
    log: Callable[[str], None]

    def data(self, seed: int) -> Callable[[int], Iterator[tuple[int, Batch]]]:
        """This worker's share of the batches of a stream."""
        banned = banned_questions()
        return lambda start: batches(seed, start, BATCH_TOKENS, self.tokenizer, banned, self.rank, WORKERS)


def make_tokenizer(plan: Plan) -> None:
    """Learn the tokenizer."""
    folder = plan.cache / "tokenizer"
    if not folder.exists():
        train_tokenizer(tokenizer_texts(0, TOKENIZER_CONVERSATIONS)).save_pretrained(folder)


def target_stage(plan: Plan, bench: Bench) -> None:
    """Train the target: four layers first, then all twelve."""
    cache, rank = plan.cache, bench.rank
    model = new_model(SHALLOW_SHAPE, plan.seed)
    recipe = Recipe(plan.shallow_steps, 1.5e-3, cache / f"shallow{rank}.pt")
    first = train(model, bench.data(plan.seed), corpus_loss, recipe, bench.log)
    deep = deepen(model, TARGET_SHAPE.layers, plan.seed + 1)
    recipe = Recipe(plan.deep_steps, 8e-4, cache / f"target{rank}.pt")
    second = train(deep, bench.data(plan.seed + 1), corpus_loss, recipe, bench.log)
    if rank == 0:
        keep(cache / "target", deep, bench.tokenizer, [first, second])


def draft_stage(plan: Plan, bench: Bench) -> None:
    """Train the draft on the target's distributions; it starts from the target's embeddings."""
    import torch

    target = load_model(plan.cache / "target").requires_grad_(False)
    target.set_attn_implementation("eager")
    draft: Any = new_model(DRAFT_SHAPE, plan.seed + 2)
    with torch.no_grad():
        draft.model.embed_tokens.load_state_dict(target.model.embed_tokens.state_dict())
    recipe = Recipe(plan.draft_steps, 2e-3, plan.cache / f"draft{bench.rank}.pt")
    outcome = train(draft, bench.data(plan.seed + 2), distillation_loss(target), recipe, bench.log)
    if bench.rank == 0:
        keep(plan.cache / "draft", draft, bench.tokenizer, [outcome])


STAGES = {"target": target_stage, "draft": draft_stage}


def keep(folder: Path, model: Any, tokenizer: Any, outcomes: list[Outcome]) -> None:
    """Store a finished network, with what it took in a file of its own."""
    lines = [f"{o.steps} {o.tokens * WORKERS} {o.seconds:.0f} {o.loss:.4f}\n" for o in outcomes]
    folder.with_suffix(".outcome").write_text("".join(lines), encoding="utf-8")
    tokenizer.save_pretrained(folder)
    save_model(model, folder)


def outcomes(folder: Path) -> list[Outcome]:
    """What `keep` noted about a finished network."""
    rows = [line.split() for line in folder.with_suffix(".outcome").read_text(encoding="utf-8").splitlines()]
    return [Outcome(int(row[0]), int(row[1]), float(row[2]), float(row[3])) for row in rows]


def meeting(plan: Plan, stage: str) -> Path:
    """The file through which the workers of a stage find each other."""
    return plan.cache.resolve() / f"{stage}.meeting"


def work(rank: int, plan: Plan, stage: str) -> None:
    """One worker of one stage."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    # A paused worker must not make the other one give up.
    distributed.init_process_group(
        "gloo", init_method=meeting(plan, stage).as_uri(), rank=rank, world_size=WORKERS, timeout=timedelta(hours=20)
    )

    def log(line: str) -> None:
        if rank == 0:
            print(f"{time.strftime('%H:%M:%S')} {stage}: {line}", flush=True)

    STAGES[stage](plan, Bench(rank, load_tokenizer(plan.cache / "tokenizer"), log))


def run_stage(plan: Plan, stage: str) -> None:
    """Run a stage with all its workers unless its result is there; raises ChildProcessError if one fails."""
    import multiprocessing

    if (plan.cache / stage / "model.safetensors").exists():
        return
    meeting(plan, stage).unlink(missing_ok=True)  # Left by a run that was killed, it would make this one wait forever.
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=work, args=(rank, plan, stage)) for rank in range(WORKERS)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    if any(child.exitcode for child in children):
        raise ChildProcessError(f"a worker of the {stage} stage failed")
