"""Keeping what was trained: weights, sizes and a card in a folder where every part of localchat finds it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localchat import __version__
from localchat.errors import GenerationError
from localchat.models.head_formats import OWN
from localchat.models.quiet import quiet
from localchat.paths import private_dir
from localchat.train.checkpoint import settle
from localchat.train.events import Judged

if TYPE_CHECKING:
    from torch import Tensor

    from localchat.engine.head_config import HeadConfig

_TOKENIZER = (
    "tokenizer*",
    "special_tokens_map.json",
    "chat_template*",
    "vocab.*",
    "merges.txt",
    "generation_config.json",
)


@dataclass(frozen=True, slots=True)
class Trained:
    """How a network came about, for its config and its card."""

    name: str
    kind: str
    target: str
    fingerprint: str
    """Of the target's weights."""
    hidden: int
    layers: int
    vocab: int
    precision: str
    data: tuple[str, ...]
    """Sources, as the user named them; of files the names alone."""
    seed: int
    seconds: float
    tokens: int
    """Learnt from, repetitions included."""
    texts: int
    parameters: int
    judged: Judged


def keep_head(folder: Path, config: HeadConfig, tensors: Mapping[str, Tensor], about: Trained) -> None:
    """Write a head.

    Raises:
        GenerationError: the disk is full, the folder not writable, or there is something of that name.
    """
    from safetensors.torch import save_file

    stored = {
        "architectures": [OWN],
        "localchat_head": asdict(config),
        "target": {
            "name": about.target,
            "fingerprint": about.fingerprint,
            "hidden": about.hidden,
            "layers": about.layers,
            "vocab": about.vocab,
        },
        **_record(about),
    }
    with _new_folder(folder) as fresh:
        (fresh / "config.json").write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, fresh / "model.safetensors")
        (fresh / "README.md").write_text(card(about), encoding="utf-8")


def keep_model(folder: Path, model: Any, tokenizer_from: Path, ids: Tensor | None, about: Trained) -> None:
    """Write a draft model as an ordinary transformers folder.

    Args:
        tokenizer_from: the target's folder; they share the tokenizer.
        ids: its draft vocabulary, kept as `draft_ids` of its config; None: all tokens.

    Raises:
        GenerationError: the disk is full, the folder not writable, or there is something of that name.
    """
    model.config.draft_ids = None if ids is None else ids.tolist()
    with _new_folder(folder) as fresh:
        with quiet(lambda _done, _total: None):
            model.save_pretrained(fresh)
        for file in sorted({file for pattern in _TOKENIZER for file in tokenizer_from.glob(pattern)}):
            shutil.copyfile(file, fresh / file.name)
        (fresh / "training.json").write_text(json.dumps(_record(about), indent=2) + "\n", encoding="utf-8")
        (fresh / "README.md").write_text(card(about), encoding="utf-8")


def clear(folder: Path) -> None:
    """Remove what a killed process left of a folder that it had not finished."""
    shutil.rmtree(_fresh(folder), ignore_errors=True)


def _fresh(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.new")


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A folder that takes its place only once it is complete, and only if nothing is there."""
    from safetensors import SafetensorError

    fresh = _fresh(folder)
    try:
        clear(folder)
        private_dir(fresh)
        yield fresh
        for file in fresh.iterdir():
            settle(file)
        fresh.replace(folder)
    except (OSError, SafetensorError) as error:
        raise GenerationError(
            f"{folder} could not be written: {getattr(error, 'strerror', None) or error}.",
            "Free some space and run the same command again: it goes on where it stopped.",
        ) from error
    finally:
        clear(folder)


def _record(about: Trained) -> dict[str, object]:
    trained = {
        "localchat": __version__,
        "date": time.strftime("%Y-%m-%d"),
        "minutes": round(about.seconds / 60, 2),
        "tokens": about.tokens,
        "texts": about.texts,
        "data": list(about.data),
        "precision": about.precision,
        "seed": about.seed,
        "tokens_per_round": round(about.judged.tokens_per_round, 4),
        "speedup": round(about.judged.speedup, 3),
    }
    return {"acceptance": [[round(rate, 5) for rate in row] for row in about.judged.acceptance], "trained": trained}


def card(about: Trained) -> str:
    """The card as Markdown."""
    judged = about.judged
    what = {"draft": "A draft model", "eagle": "An eagle head"}.get(about.kind, f"A {about.kind} head")
    rows = "\n".join(
        f"| {depth} | " + " | ".join(f"{rate:.1%}" for rate in ranks) + " |"
        for depth, ranks in enumerate(judged.acceptance, start=1)
    )
    ranks = len(judged.acceptance[0])
    return f"""\
# {about.name}

{what} for {about.target}, trained by `localchat train`. It only proposes tokens: what is said is decided by the
target alone, so the head changes the speed and never the text. It is of no use to any other model.

- {about.parameters / 1e6:.1f} M parameters, trained for {about.seconds / 60:.0f} minutes on {about.tokens:,} tokens \
from {about.texts:,} texts ({", ".join(about.data)}), target in {about.precision}, seed {about.seed}.
- Target: {about.target}, {about.layers} layers, hidden size {about.hidden}, fingerprint {about.fingerprint[:16]}.

## Acceptance on held-out text

Share of guesses that are the target's own choice (temperature 0), where all before were right; by position and rank.

| position |{"".join(f" guess {rank + 1} |" for rank in range(ranks))}
|---|{"---|" * ranks}
{rows}

A chain gives {judged.tokens_per_round:.2f} tokens per round. Predicted speed on the \
machine it was trained on: {judged.speedup:.2f} × plain decoding; `localchat bench` measures it.
"""
