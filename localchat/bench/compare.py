"""Are two replies the same, and if not, was it a tie?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from localchat.bench.hear import Run
from localchat.engine.types import common_prefix


class Verdict(StrEnum):
    """How two replies relate."""

    SAME = "same"
    TIE = "tie"
    """They part where the two best tokens were closer than rounding."""
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Sameness:
    """Two replies token by token."""

    verdict: Verdict
    position: int | None = None
    """Index of the first token that differs."""
    margin: float | None = None
    """Gap between the two best tokens there, in (perturbed) logits."""

    @property
    def value(self) -> bool | str:
        """True, "tie" or false, as the JSON has it."""
        return "tie" if self.verdict is Verdict.TIE else self.verdict is Verdict.SAME


# Logits are of the order of 10; their relative rounding error is 2^-8 in bf16, 2^-11 in fp16 and 2^-24 in fp32, times a
# small factor for the sums behind them.
_ROUNDING = {"fp32": 1e-3, "fp16": 0.05, "bf16": 0.25, "nf4": 0.25, "int8": 0.25}


def rounding(precision: str) -> float:
    """The gap between two logits that rounding alone can close, for weights of a precision."""
    return _ROUNDING.get(precision, 0.25)


def first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    """Index of the first token that differs (the shorter length if one is the other's beginning), or None."""
    shared = common_prefix(left, right)
    return None if shared == len(left) == len(right) else shared


def sameness(plain: Run, other: Run, within: float) -> Sameness:
    """Compare a reply with the plain one.

    Args:
        plain: written without drafts, so that each of its rounds has the margin of one token.
        other: written with drafts.
        within: the gap that rounding can close (see `rounding`).
    """
    position = first_difference(plain.reply.token_ids, other.reply.token_ids)
    if position is None:
        return Sameness(Verdict.SAME)
    margin = plain.margin_at(position)
    return Sameness(Verdict.TIE if margin <= within else Verdict.DIFFERENT, position, margin)


def parting(left: str, right: str) -> int | None:
    """Index of the first character that differs (the shorter length if one is the other's beginning), or None."""
    if left == right:
        return None
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def sentence(same: Sameness, plain: str, other: str, tokens: int) -> str:
    """Whether two texts are the same, in words.

    Args:
        same: the verdict on their tokens.
        plain: the plain text.
        other: the other text.
        tokens: how many the other one has.
    """
    if same.position is None:
        return f"The texts are the same, token for token ({tokens})."
    at = parting(plain, other) or 0
    where = f"The texts part at token {same.position}, after {plain[max(0, at - 20) : at]!r}"
    margin = "" if same.margin is None else f": the two best tokens were {same.margin:.2g} apart"
    tie = same.verdict is Verdict.TIE
    reason = "within rounding; --exact rules that out" if tie else "more than rounding explains: a bug"
    return f"{where}{margin}, {reason}."
