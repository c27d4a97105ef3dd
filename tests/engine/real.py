"""The equality matrix on real weights: exact mode must not differ at all, fast mode only where the target hesitates.

`python -m tests.engine.real MODEL [--precision bf16] [--fast] [--prompts 5] [--tokens 24]`, MODEL being `starter` or a
folder. Without a draft model a few of the target's own layers draft: badly, which is what the test wants.
"""

from __future__ import annotations

import argparse
import copy
from typing import Any

import torch

from localchat.chat.conversation import Conversation
from localchat.chat.prompt import Prompt
from localchat.engine.drafters import Parts
from localchat.engine.target import Target
from localchat.engine.types import Sampling
from localchat.models.loader import load
from localchat.models.plan import LoadPlan, Precision
from tests.engine.matrix import FILTERS, PENALTIES, Count, compare
from tests.support.tiny import Generous, generous

TEXTS = (
    "What is speculative decoding?",
    "Write a Python function that reverses a string.",
    "How much memory does the context take, and what can I do about it?",
    "Which key switches acceleration on and off?",
    "Tell me a short story about a lighthouse.",
    "def area(width, height):\n    return width * height\n\ndef volume(width, height, depth):\n",
    "What does it mean that a token was accepted?",
    "Hello!",
)
SETTINGS = (
    Sampling(temperature=0.0),
    Sampling(temperature=0.7, **FILTERS),  # type: ignore[arg-type]
    Sampling(temperature=1.0),
    Sampling(temperature=0.8, **PENALTIES),  # type: ignore[arg-type]
)


def shallow(model: Any, layers: int) -> Any:
    """The model's first layers with its head, as a draft model of the same vocabulary."""
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    small = type(model)(config).to(model.dtype).eval().requires_grad_(False)
    known = {name: part for name, part in model.state_dict().items() if name in small.state_dict()}
    small.load_state_dict(known, strict=False)
    return small


def run(name: str, precision: Precision, width: int, prompts: int, tokens: int, seeds: int = 1) -> Count:
    """Compare every drafter with plain decoding; `width` 0 is fast mode."""
    models = load(LoadPlan(model=name, precision=precision, context=1024), lambda *_: None)
    target = Target(models.target_model, 1024, models.vocab)
    if models.draft_model is not None:
        draft = Target(models.draft_model, 1024, models.vocab)
    else:
        full = load(LoadPlan(model=name, precision=Precision.BF16, context=1024, draft="off"), lambda *_: None)
        draft = Target(shallow(full.target_model, 2), 1024, models.vocab)
    target.fixed_width = width
    prompt = Prompt(models.tokenizer)
    texts = [list(prompt.encode(Conversation.begin().user(text))) for text in TEXTS[:prompts]]

    def allow(fixed: int) -> Generous:
        return generous(8, fixed)

    return compare(target, Parts(target, draft), texts, range(seeds), tokens, SETTINGS, allow)


def main() -> None:
    """Run and print one line, and one per difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--prompts", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    width = 0 if args.fast else args.width
    found = run(args.model, Precision(args.precision), width, args.prompts, args.tokens, args.seeds)
    for difference in found.differences:
        print(f"  {difference.drafter} at {difference.at}: margin {difference.margin:.4f} {difference.sampling}")
    same = 1 - len(found.differences) / max(found.replies, 1)
    mode = "fast" if args.fast else f"exact, width {width}"
    print(f"{args.model} {args.precision} {mode}, {torch.get_num_threads()} threads: {found.replies} replies, "
          f"{found.accepted} accepted, {len(found.differences)} differ ({same:.1%} identical)")  # fmt: skip


if __name__ == "__main__":
    main()
