"""The headline claim: the same seed gives the same text, whatever drafts."""

from __future__ import annotations

import pytest

from localchat.engine import generate as loop
from localchat.engine.cache import Cache
from localchat.engine.drafters import Parts
from localchat.engine.sampling import Picker
from localchat.engine.target import Output, Target
from localchat.engine.types import Draft, Sampling, Verdict
from tests.engine.matrix import SETTINGS, compare, prompts
from tests.support.tiny import tiny

KINDS = ("llama", "qwen3", "gemma3")


def pair(kind: str) -> tuple[Target, Parts]:
    """A target and an unrelated draft model, both tiny and random."""
    target = Target(tiny(kind), 256)
    return target, Parts(target, Target(tiny("llama", seed=1, layers=1), 256))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("setting", range(len(SETTINGS)))
def test_every_drafter_writes_what_plain_decoding_writes(kind: str, setting: int) -> None:
    """Guards losslessness in float64, where rounding cannot be blamed; prompts and replies cross Gemma's window."""
    target, parts = pair(kind)
    found = compare(target, parts, prompts(6), range(2), 24, SETTINGS[setting : setting + 1])
    assert found.differences == ()
    assert found.accepted > 0, "nothing was accepted, so nothing was tested"


@pytest.mark.parametrize("kind", KINDS)
def test_exact_mode_in_float64(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the padding rows of exact mode, its rule never to cross a cache bucket, and that it verifies chains only:
    no drafter makes a branch there but the adversary, and of its drafts the trunk is taken."""
    target, parts = pair(kind)
    target.fixed_width = 6
    forward, branched = Target.forward, []

    def watched(self: Target, token: int, draft: Draft) -> Output:
        branched.append(not draft.is_chain)
        return forward(self, token, draft)

    monkeypatch.setattr(Target, "forward", watched)
    found = compare(target, parts, prompts(3, longest=250), range(1), 30, SETTINGS[2:4])
    assert found.differences == ()
    assert not any(branched)


def _lossy(tokens: object, parents: object, picks: object) -> Verdict:
    from localchat.engine.verify import verify

    verdict = verify(tokens, parents, picks)  # type: ignore[arg-type]
    drafted: list[int] = tokens  # type: ignore[assignment]
    follows: tuple[int, ...] = parents  # type: ignore[assignment]
    at = verdict.path[-1] if verdict.path else -1
    extra = next((node for node, parent in enumerate(follows) if parent == at), None)
    if extra is None:
        return verdict
    return Verdict((*verdict.path, extra), (*verdict.tokens[:-1], drafted[extra], verdict.tokens[-1]))


def test_a_lossy_verifier_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verifier that accepts one token too many must fail the suite, else the suite sees nothing."""
    monkeypatch.setattr(loop, "verify", _lossy)
    found = compare(*pair("llama"), prompts(2), range(1), 24, SETTINGS[:1])
    assert found.differences


def test_a_cache_that_forgets_to_roll_back_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeping the first rows instead of the accepted ones must fail the suite (a tree's branch is then lost)."""

    def forgetful(self: Cache, path: tuple[int, ...]) -> None:
        self.length += len(path)

    monkeypatch.setattr(Cache, "keep", forgetful)
    found = compare(*pair("llama"), prompts(2), range(1), 24, SETTINGS[:1])
    assert any(d.drafter == "random tree" for d in found.differences)


def test_a_cache_that_keeps_rejected_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A length that also counts rejected rows must fail the suite."""

    def hoarding(self: Cache, path: tuple[int, ...]) -> None:
        self.length = self._high

    monkeypatch.setattr(Cache, "keep", hoarding)
    found = compare(*pair("llama"), prompts(2), range(1), 16, SETTINGS[:1])
    assert found.differences


def test_a_processor_that_leaks_rejected_tokens_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Penalties that remember rejected proposals must fail the suite (vmlx-swift #357 shipped exactly this)."""
    honest = Picker.rows

    def leaking(self: Picker, logits: object, draft: object) -> object:
        result = honest(self, logits, draft)  # type: ignore[arg-type]
        ids = draft.ids  # type: ignore[attr-defined]
        if ids is not None:
            self._counts[ids] += 1.0
        return result

    monkeypatch.setattr(Picker, "rows", leaking)
    penalised = (Sampling(temperature=0.7, repetition_penalty=1.3, frequency_penalty=0.5),)
    found = compare(*pair("llama"), prompts(2), range(1), 24, penalised)
    assert found.differences
