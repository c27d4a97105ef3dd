"""Can this draft model serve this target, and will it pay? An ordered list of checks, each in plain words. No torch.

The verification rule makes any draft harmless: what is checked here is whether token ids mean the same to both
models and whether drafting can be faster. Break-even and predicted speed follow Leviathan et al. (arXiv:2211.17192).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from localchat.engine.head_config import FINAL
from localchat.errors import ModelError
from localchat.models.folders import eos_ids, fingerprint, read_config, refusal, short_name, token_texts
from localchat.models.head_formats import STRETCHED
from localchat.models.heads import HeadSide
from localchat.models.memory import Shape
from localchat.models.plan import Precision

FEW_IDS, FEW_SHARE = 32, 0.001
"""Differing ids that are masked out of drafts: at most this many, or this share of the vocabulary."""

ROW_COST = 0.03
"""Assumed extra time of one more verified row, as a share of plain decoding."""

TYPICAL_ACCEPTANCE = 0.7


class Level(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check."""

    level: Level
    title: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One side of a pair, as far as pairing looks at it."""

    name: str
    shape: Shape
    precision: Precision
    tokens: tuple[str, ...]
    """Text of every id; "" where the tokenizer leaves an id unused."""
    eos: frozenset[int]
    fingerprint: str = ""
    """Equal for equal weights; empty if unknown."""
    refused: str = ""
    """Why this model cannot run here at all; empty if it can."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """What a pair is worth."""

    findings: tuple[Finding, ...]
    common_vocab: int
    """Ids below this are known to both; only they may be drafted."""
    banned_ids: tuple[int, ...]
    """Ids below `common_vocab` that mean different texts: never drafted."""
    cost_ratio: float
    """Predicted time of one draft step, as a share of one target step (bytes read by each)."""

    @property
    def ok(self) -> bool:
        """True if the pair can be used."""
        return all(finding.level is not Level.FAIL for finding in self.findings)

    @property
    def problem(self) -> Finding | None:
        """The first finding that forbids the pair."""
        return next((finding for finding in self.findings if finding.level is Level.FAIL), None)


def read_candidate(name: str, folder: Path, precision: Precision) -> Candidate:
    """One side of a pair from its folder's files.

    Raises:
        ModelError: the folder is damaged, or its tokenizer is not in tokenizer.json (load the tokenizer instead).
    """
    texts = token_texts(folder)
    if texts is None:
        raise ModelError(f"{name} has no tokenizer.json to compare.", "Load the pair to compare its tokenizers.")
    reason = refusal(read_config(folder))
    return Candidate(
        name=name,
        shape=Shape.from_folder(folder),
        precision=precision,
        tokens=texts,
        eos=eos_ids(folder),
        fingerprint=fingerprint(folder),
        refused=reason[0] if reason else "",
    )


def expected_speedup(acceptance: float, depth: int, cost_ratio: float, row_cost: float = ROW_COST) -> float:
    """Speed against plain decoding when `depth` tokens are drafted and each is accepted with `acceptance`."""
    tokens = sum(acceptance**position for position in range(depth + 1))
    return tokens / (1.0 + depth * (cost_ratio + row_cost))


def best_depth(acceptance: float, cost_ratio: float, limit: int = 16) -> tuple[int, float]:
    """The draft length with the highest expected speed, and that speed (0 and 1.0 if drafting cannot pay)."""
    speeds = [(expected_speedup(acceptance, depth, cost_ratio), -depth) for depth in range(limit + 1)]
    speed, depth = max(speeds)
    return -depth, speed


def check_pair(target: Candidate, draft: Candidate, context: int = 0) -> Pairing:
    """Run every check of a pair.

    Args:
        target: the model that decides.
        draft: the model that guesses.
        context: tokens the conversation may hold; 0 compares the models' own limits.
    """
    common = min(len(target.tokens), len(draft.tokens), target.shape.vocab, draft.shape.vocab)
    differing = [i for i in range(common) if target.tokens[i] != draft.tokens[i]]
    ratio = draft.shape.step_bytes(draft.precision) / max(1.0, target.shape.step_bytes(target.precision))
    findings = (
        _same_model(target, draft),
        _token_maps(target, draft, common, differing),
        _end_ids(target, draft),
        _vocabularies(target, draft),
        _contexts(target, draft, context),
        _caches(target, draft),
        _cost(ratio),
    )
    return Pairing(tuple(found for found in findings if found), common, tuple(differing), ratio)


def check_head(target: Candidate, head: HeadSide) -> Pairing:
    """Run every check of a head and its target; texts of tokens need no comparing, as a head has no tokenizer."""
    ratio = head.shape.step_bytes(target.precision) / max(1.0, target.shape.step_bytes(target.precision))
    common = min(len(target.tokens), target.shape.vocab, head.file.config.vocab)
    findings = (
        _sizes(target, head),
        _head_vocabulary(target, head),
        _maker(target, head),
        _rounding(target, head),
        _stretch(head),
        _cost(ratio),
    )
    return Pairing(tuple(found for found in findings if found), common, (), ratio)


def _sizes(target: Candidate, head: HeadSide) -> Finding:
    config, shape = head.file.config, target.shape
    layers, title = len(shape.windows), head.source.title
    if config.hidden != shape.hidden:
        return Finding(
            Level.FAIL,
            "made for another size",
            f"{title} reads states of {config.hidden} numbers, {target.name} has {shape.hidden}.",
        )
    if not all(FINAL <= tap < layers for tap in config.taps):
        return Finding(
            Level.FAIL,
            "made for more layers",
            f"{title} reads layers {', '.join(str(tap) for tap in config.taps)}; {target.name} has {layers}.",
        )
    return Finding(Level.OK, "same size", f"States of {config.hidden} numbers, {layers} layers.")


def _head_vocabulary(target: Candidate, head: HeadSide) -> Finding:
    config, known = head.file.config, len(target.tokens)
    if config.vocab != target.shape.vocab and min(config.vocab, target.shape.vocab) < known:
        return Finding(
            Level.FAIL,
            "made for another vocabulary",
            f"{head.source.title} knows {config.vocab} tokens, {target.name} {known}.",
        )
    if not config.draft_vocab:
        return Finding(Level.OK, "same vocabulary", f"It scores all {config.vocab} tokens.")
    return Finding(
        Level.OK,
        "reduced vocabulary",
        f"It proposes {config.draft_vocab} of {config.vocab} tokens; the others are left to the target.",
    )


def _maker(target: Candidate, head: HeadSide) -> Finding:
    file = head.file
    if file.fingerprint and target.fingerprint and file.fingerprint != target.fingerprint:
        return Finding(
            Level.WARN,
            "target has changed",
            f"{head.source.title} was trained on other weights of {file.base or 'its target'}, so it may be accepted "
            "less. Train it again if it hardly pays.",
        )
    if file.fingerprint or short_name(file.base) == short_name(target.name):
        return Finding(Level.OK, "made for this model")
    if not file.base:
        return Finding(Level.NOTE, "maker unknown", f"{head.source.title} does not say which model it was made for.")
    return Finding(
        Level.WARN,
        "made for another model",
        f"{head.source.title} was made for {file.base}; with {target.name} it may hardly be accepted.",
    )


def _rounding(target: Candidate, head: HeadSide) -> Finding | None:
    if target.precision not in (Precision.NF4, Precision.INT8) or head.file.precision == target.precision:
        return None
    return Finding(
        Level.NOTE,
        "trained on other states",
        f"{head.source.title} learnt from states in {head.file.precision or '16 bits'}; those of a target in "
        f"{target.precision} differ a little, so it may be accepted less.",
    )


def _stretch(head: HeadSide) -> Finding | None:
    rope = head.file.rope
    if rope is None or rope.kind in STRETCHED:
        return None
    return Finding(
        Level.WARN,
        "unknown rotary positions",
        f"{head.source.title} stretches positions in an unknown way ({rope.kind}); it may be accepted less.",
    )


def _same_model(target: Candidate, draft: Candidate) -> Finding | None:
    if not (target.name == draft.name or (target.fingerprint and target.fingerprint == draft.fingerprint)):
        return None
    return Finding(
        Level.FAIL,
        "draft and target are the same model",
        f"{draft.name} would cost as much per token as it saves; choose a smaller model of the same family.",
    )


def _token_maps(target: Candidate, draft: Candidate, common: int, differing: Sequence[int]) -> Finding:
    unknown = sum(1 for text in target.tokens[common:] if text)
    total = len(differing) + unknown
    if not total:
        return Finding(Level.OK, "same tokens", f"All {common} token ids mean the same text to both models.")
    shown = ", ".join(f"{i}: {target.tokens[i]!r} / {draft.tokens[i]!r}" for i in differing[:3])
    if total <= max(FEW_IDS, int(FEW_SHARE * len(target.tokens))):
        parts = [f"{len(differing)} ids differ ({shown})"] if differing else []
        parts += [f"{unknown} ids are known to the target only"] if unknown else []
        return Finding(Level.OK, "nearly the same tokens", f"{' and '.join(parts)}; they are left out of drafts.")
    known = {text for text in target.tokens if text}
    share = 100 * len(known & set(draft.tokens)) / max(1, len(known))
    detail = f"{total} of {len(target.tokens)} ids differ{f' ({shown})' if shown else ''}"
    return Finding(
        Level.FAIL,
        "different tokenizers",
        f"{detail}; {share:.0f} % of the target's tokens exist in the draft model at all. "
        "Choose a draft model of the target's own family.",
    )


def _end_ids(target: Candidate, draft: Candidate) -> Finding:
    if target.eos == draft.eos:
        return Finding(Level.OK, "same end of reply", f"Ids {_listed(target.eos)} end a reply in both models.")
    return Finding(
        Level.NOTE,
        "different ends of reply",
        f"Target {_listed(target.eos)}, draft {_listed(draft.eos)}; the target decides, drafts may miss an end.",
    )


def _listed(ids: frozenset[int]) -> str:
    return ", ".join(str(token) for token in sorted(ids)) or "none"


def _vocabularies(target: Candidate, draft: Candidate) -> Finding:
    sizes = (target.shape.vocab, draft.shape.vocab)
    if sizes[0] == sizes[1]:
        return Finding(Level.OK, "same head size", f"{sizes[0]} rows each.")
    return Finding(
        Level.OK,
        "differently padded heads",
        f"{sizes[0]} and {sizes[1]} rows; rows that stand for no token are ignored on both sides.",
    )


def _contexts(target: Candidate, draft: Candidate, context: int) -> Finding:
    wanted = context or target.shape.max_context
    limit = draft.shape.max_context
    if not limit or not wanted or limit >= wanted:
        return Finding(Level.OK, "context", f"The draft model follows for the whole context of {wanted} tokens.")
    return Finding(
        Level.WARN,
        "shorter draft context",
        f"The draft model was made for {limit} tokens; beyond them drafting pauses, and the reply goes on without.",
    )


def _caches(target: Candidate, draft: Candidate) -> Finding:
    for side in (target, draft):
        if side.refused:
            return Finding(Level.FAIL, f"{side.name} cannot run here", side.refused)
    sliding = sum(window is not None for side in (target, draft) for window in side.shape.windows)
    detail = f"{sliding} layers use a sliding window." if sliding else "Every layer keeps the whole context."
    return Finding(Level.OK, "caches can be rolled back", detail)


def _cost(ratio: float) -> Finding:
    break_even = ratio + ROW_COST
    depth, speed = best_depth(TYPICAL_ACCEPTANCE, ratio)
    share = f"One draft step costs {100 * ratio:.0f} % of a target step"
    if break_even >= 1.0:
        return Finding(
            Level.WARN,
            "drafting cannot pay",
            f"{share}; it will stay parked. Choose a smaller draft model, or draft by lookup.",
        )
    if not depth:
        return Finding(
            Level.WARN,
            "drafting can hardly pay",
            f"{share}; it pays only if more than {100 * break_even:.0f} % of drafted tokens are accepted.",
        )
    return Finding(
        Level.OK,
        "drafting can pay",
        f"{share}; it pays if more than {100 * break_even:.0f} % of drafted tokens are accepted "
        f"(at {100 * TYPICAL_ACCEPTANCE:.0f} %: {speed:.1f} times plain speed, {depth} tokens deep).",
    )
