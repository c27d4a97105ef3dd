"""The one verification rule: walk the draft while the target's own pick is a drafted child, then emit that pick.

Target and drafter pick with the same noise at the same position, so the walk emits exactly what plain decoding would,
whatever was drafted (drafter-invariant speculative decoding, arXiv:2408.07978).
"""

from __future__ import annotations

from collections.abc import Sequence

from localchat.engine.types import ROOT, Verdict


def verify(tokens: Sequence[int], parents: Sequence[int], picks: Sequence[int]) -> Verdict:
    """Accept the part of a draft that the target says itself.

    Args:
        tokens: the draft's tokens, in topological order.
        parents: their parents; ROOT follows the last emitted token.
        picks: the target's own choice after the last emitted token, then after each node: len(tokens) + 1 or more.

    Returns:
        The accepted path and the emitted tokens.
    """
    path: list[int] = []
    emitted: list[int] = []
    at = ROOT
    for node, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
        if parent == at and token == picks[at + 1]:
            at = node
            path.append(node)
            emitted.append(token)
    emitted.append(picks[at + 1])
    return Verdict(tuple(path), tuple(emitted))
