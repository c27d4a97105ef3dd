"""Which draft models suit which targets, from hand-made candidates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localchat.models.catalog import spec_for
from localchat.models.folders import find_model
from localchat.models.memory import Shape
from localchat.models.pairing import (
    Candidate,
    Finding,
    Level,
    Pairing,
    best_depth,
    check_pair,
    expected_speedup,
    read_candidate,
)
from localchat.models.plan import Precision
from tests.support.models import bare_folder

WORDS = tuple(f"w{i}" for i in range(1000))


def shape(name: str, vocab: int = 1024) -> Shape:
    spec = spec_for(name)
    assert spec is not None
    return replace(spec.shape, vocab=vocab)


TARGET = Candidate("big", shape("Qwen3-8B"), Precision.NF4, WORDS, frozenset({7}))
DRAFT = Candidate("small", shape("Qwen3-0.6B"), Precision.NF4, WORDS, frozenset({7}))


def finding(pairing: Pairing, title: str) -> Finding:
    return next(found for found in pairing.findings if found.title == title)


def test_a_good_pair() -> None:
    """Guards against false alarms: a same-family pair has nothing but good news."""
    pairing = check_pair(TARGET, DRAFT)
    assert pairing.ok
    assert pairing.problem is None
    assert {found.level for found in pairing.findings} == {Level.OK}
    assert pairing.common_vocab == 1000
    assert pairing.banned_ids == ()
    assert pairing.cost_ratio == pytest.approx(0.09, abs=0.01)


def test_same_model_twice() -> None:
    """Guards against loading a model as its own draft, by name or under another one."""
    assert check_pair(TARGET, replace(DRAFT, name="big")).problem is not None
    twin = check_pair(replace(TARGET, fingerprint="f"), replace(DRAFT, fingerprint="f"))
    assert twin.problem is not None
    assert "same model" in twin.problem.title


def test_padded_vocabularies_are_fine() -> None:
    """Guards against refusing 152064 beside 151936 rows: the rows beyond the tokenizer stand for nothing."""
    pairing = check_pair(replace(TARGET, shape=shape("Qwen3-8B", 1152)), DRAFT)
    assert pairing.ok
    assert pairing.common_vocab == 1000
    assert finding(pairing, "differently padded heads").level is Level.OK


def test_few_differing_ids_are_masked() -> None:
    """Guards the mask: a differing id that slipped into drafts would cost acceptance for nothing."""
    tokens = list(WORDS)
    tokens[3], tokens[500] = "x", "y"
    pairing = check_pair(TARGET, replace(DRAFT, tokens=tuple(tokens)))
    assert pairing.ok
    assert pairing.banned_ids == (3, 500)
    detail = finding(pairing, "nearly the same tokens").detail
    assert "3: 'w3' / 'x'" in detail


def test_ids_only_the_target_knows_count_as_differing() -> None:
    """Guards against a shorter draft vocabulary passing as equal because the common part is."""
    assert check_pair(TARGET, replace(DRAFT, tokens=WORDS[:990])).ok
    pairing = check_pair(TARGET, replace(DRAFT, tokens=WORDS[:500]))
    assert not pairing.ok
    assert pairing.common_vocab == 500


def test_different_tokenizers_are_refused_with_the_share() -> None:
    """Guards against drafting with ids of another meaning: all would be rejected."""
    pairing = check_pair(TARGET, replace(DRAFT, tokens=WORDS[500:] + WORDS[:500]))
    assert pairing.problem is not None
    assert "100 %" in pairing.problem.detail
    assert "0: 'w0' / 'w500'" in pairing.problem.detail


def test_eos_sets_that_differ_are_a_note() -> None:
    """Guards against refusing a pair whose ends differ: the target decides them alone."""
    pairing = check_pair(TARGET, replace(DRAFT, eos=frozenset({8})))
    assert pairing.ok
    assert finding(pairing, "different ends of reply").level is Level.NOTE


def test_short_draft_context_warns() -> None:
    """Guards against silence about a draft model that cannot follow the whole conversation."""
    draft = replace(DRAFT, shape=replace(DRAFT.shape, max_context=2048))
    assert finding(check_pair(TARGET, draft, 8192), "shorter draft context").level is Level.WARN
    assert check_pair(TARGET, draft, 2048).findings == check_pair(TARGET, DRAFT, 2048).findings


def test_a_model_that_cannot_roll_back_is_refused() -> None:
    """Guards against a recurrent draft model: its state cannot forget rejected tokens."""
    problem = check_pair(TARGET, replace(DRAFT, refused="Its state cannot be rolled back.")).problem
    assert problem is not None
    assert "small" in problem.title


def test_a_pair_that_cannot_pay_is_said() -> None:
    """Guards the prediction: a draft as dear as its target must be warned about, not praised."""
    dear = check_pair(DRAFT, replace(TARGET, name="bigger", shape=shape("Qwen3-14B")))
    assert dear.ok
    assert finding(dear, "drafting cannot pay").level is Level.WARN
    close = check_pair(replace(TARGET, shape=shape("Qwen3-1.7B"), precision=Precision.NF4), DRAFT)
    assert close.findings[-1].level is Level.OK


def test_speedup_formula() -> None:
    """Guards the formula against research figures: c = 0.06, flat verification, 70 % gives 2.26 at 5 tokens."""
    assert expected_speedup(0.7, 5, 0.06, 0.0) == pytest.approx(2.26, abs=0.01)
    depth, speed = best_depth(0.7, 0.11)
    assert depth == 3
    assert speed == pytest.approx(1.78, abs=0.01)
    assert best_depth(0.1, 0.5) == (0, 1.0)


def test_the_built_in_pair_suits_itself() -> None:
    """Guards the shipped pair: it must load without a warning."""
    target, draft = (read_candidate(n, find_model(n).folder, Precision.BF16) for n in ("starter", "starter-draft"))
    pairing = check_pair(target, draft, 2048)
    assert pairing.ok
    assert {found.level for found in pairing.findings} == {Level.OK}


def test_reading_a_candidate_names_a_recurrent_model(tmp_path: Path) -> None:
    """Guards `models pair`: a refusal of one side must be among the findings, not an exception."""
    config = {"model_type": "mamba2", "hidden_size": 4, "num_hidden_layers": 1, "vocab_size": 1, "n_head": 1}
    candidate = read_candidate("m", bare_folder(tmp_path / "m", config), Precision.BF16)
    assert "rolled back" in candidate.refused
