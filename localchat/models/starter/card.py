"""The pair's model card, written from what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from localchat.models.starter.corpus import load_intents
from localchat.models.starter.score import STEP_COST, Score, load_questions
from localchat.models.starter.shapes import CONTEXT, DRAFT_SHAPE, SHALLOW_SHAPE, TARGET_SHAPE, Shape
from localchat.models.starter.stages import WORKERS, Plan
from localchat.models.starter.tasks import TASKS
from localchat.models.starter.tokenizer import VOCABULARY
from localchat.models.starter.training import Outcome

TEXT = """\
# The starter pair

A target and a draft model, trained from scratch by this project, so that localchat works on a machine with no GPU and
no network. They are a guide: they answer questions about localchat (keys, screens, commands, settings, promises), about
speculative decoding and about memory, know a few short Python snippets, and can copy, rename and sum up a little. They
know nothing else, mostly say so when asked, and make mistakes. Do not rely on them for anything that matters.

| | target | draft |
|---|---|---|
{shapes}

Both are Llama-shaped, with tied embeddings, {context} positions and one byte-level BPE tokenizer of {vocabulary} tokens
with a chat template (optional system message, any number of turns, `<|end|>` ends a turn).

`heads/` holds an EAGLE and a Medusa head for the target, each with a card of its own. A target that is built anew needs
new ones: `localchat train --target starter --kind eagle --minutes 8`, and the same with medusa.

## Data
Every word was written for this project, by hand or by the generators in this folder; no other text was used.
- `corpus/`: {intents} intents with one answer each and {phrases} questions and phrases.
- `paraphrase.py`: frames, synonyms, politeness, lost words and typing errors make an endless stream of
  questions of them.
- `tasks.py`: {tasks} kinds of small exercises (repeat, rename, complete, sum up, translate, short facts,
  stories), a quarter of the conversations.

The target learnt only its answers (questions weigh a tenth). It was trained with {shallow} layers first; layers that
change nothing were then put in between and trained on. The draft learnt the target's distribution at every answer token
of another part of the stream (Kullback-Leibler divergence, and cross-entropy with the target's first choice).

## Training
{training}

`python -m localchat.models.starter.build` does it again (AdamW, bf16 autocast, {workers} processes of one
thread, seed {seed}).

## Marks
- **Held-out questions**: {share:.1%} of {questions} hand-written questions that never occur in training are answered
  with every required fact (greedy, `heldout.toml`, checked by substrings). They were written after the corpus; another
  {development} questions (`development.toml`), also never trained on, were used to find gaps in it.
{agreements}

The predicted speedup takes a draft step as {cost} of a target step and the best fixed draft length; `localchat bench`
measures the true one. Licence: Apache-2.0, like the rest of the project.
"""


def shape_rows(out: Path) -> str:
    """The table of both networks' sizes."""

    def row(name: str, values: Sequence[object]) -> str:
        return f"| {name} | " + " | ".join(str(value) for value in values) + " |"

    def parameters(shape: Shape) -> str:
        head = shape.hidden // shape.heads
        attention = 2 * shape.hidden * head * (shape.heads + shape.kv_heads)
        layer = attention + 3 * shape.hidden * shape.intermediate + 2 * shape.hidden
        return f"{(VOCABULARY * shape.hidden + shape.layers * layer + shape.hidden) / 1e6:.2f} M"

    shapes = (TARGET_SHAPE, DRAFT_SHAPE)
    sizes = [sum(file.stat().st_size for file in (out / name).iterdir()) / 1e6 for name in ("target", "draft")]
    return "\n".join(
        (
            row("layers × hidden", [f"{shape.layers} × {shape.hidden}" for shape in shapes]),
            row("heads / KV heads", [f"{shape.heads} / {shape.kv_heads}" for shape in shapes]),
            row("feed-forward", [shape.intermediate for shape in shapes]),
            row("parameters", [parameters(shape) for shape in shapes]),
            row("on disk (bf16)", [f"{size:.1f} MB" for size in sizes]),
        )
    )


def training_lines(took: Mapping[str, Sequence[Outcome]]) -> str:
    """What each stage took."""
    return "\n".join(
        f"- {name}, stage {number}: {o.steps:,} steps, {o.tokens / 1e6:.1f} M tokens, {o.seconds / 60:.0f} minutes, "
        f"last mean loss {o.loss:.3f}"
        for name, stages in took.items()
        for number, o in enumerate(stages, 1)
    )


def card(out: Path, plan: Plan, took: Mapping[str, Sequence[Outcome]], score: Score, note: str = "") -> str:
    """The card as Markdown; `note` says what was special about this training."""
    intents = load_intents()
    phrases = sum(len(i.ask + i.what + i.how + i.key + i.command + i.code) for i in intents)
    agreements = "\n".join(
        f"- **Draft at temperature {a.temperature}**: agrees on {a.agreed:.1%} of the target's own answer tokens; "
        f"{a.per_round:.2f} tokens per round at depth {a.depth}, predicted speedup {a.speedup:.2f}×."
        for a in score.agreements
    )
    return TEXT.format(
        shapes=shape_rows(out),
        context=CONTEXT,
        vocabulary=VOCABULARY,
        intents=len(intents),
        phrases=phrases,
        tasks=len(TASKS),
        shallow=SHALLOW_SHAPE.layers,
        training=training_lines(took) + (f"\n\n{note}" if note else ""),
        workers=WORKERS,
        seed=plan.seed,
        share=score.share,
        questions=len(load_questions()),
        development=len(load_questions("development")),
        agreements=agreements,
        cost=STEP_COST,
    )
