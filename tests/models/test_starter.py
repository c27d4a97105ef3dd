"""The starter pair: its tokenizer, its corpus, the shipped weights and how well they answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from localchat.models.starter import DRAFT, TARGET
from localchat.models.starter.conversations import conversation, encode
from localchat.models.starter.corpus import load_intents
from localchat.models.starter.decode import tokens_per_round
from localchat.models.starter.paraphrase import ask, normalise
from localchat.models.starter.score import banned_questions, held_out_answers, load_questions, prompt_ids
from localchat.models.starter.shapes import DRAFT_SHAPE, TARGET_SHAPE, deepen, load_model, new_model
from localchat.models.starter.stages import Plan, outcomes, run_stage
from localchat.models.starter.tasks import TASKS
from localchat.models.starter.tokenizer import END_ID, SPECIALS, load_tokenizer

LIMIT_MB = 30


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """The shipped tokenizer."""
    return load_tokenizer(TARGET)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words, and a number: 40 960",
        "  spaces\t\n\n  kept  .",
        "don't can't it's I'm",
        "naïve Größe — “quoted” … ×",
        "日本語 العربية 🦜👩‍👩‍👧",
        "\x00\x07\x1b[31m",
        "def f(x):\n    return x[::-1]\n",
    ],
)
def test_text_survives_the_tokenizer(tokenizer: Any, text: str) -> None:
    """Guards against a tokenizer that loses bytes, spaces or line ends: copied code would come back broken."""
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_any_bytes_survive_the_tokenizer(tokenizer: Any) -> None:
    """Guards against a byte without a token of its own."""
    rng = Random(3)
    for _ in range(200):
        text = bytes(rng.randrange(256) for _ in range(30)).decode("utf-8", errors="replace")
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_digits_stand_alone(tokenizer: Any) -> None:
    """Guards against merged digits, which made copied numbers wrong."""
    assert len(tokenizer.encode("123456", add_special_tokens=False)) == 6


def test_both_models_speak_the_same_tokens() -> None:
    """Guards against a draft stored with the tokenizer of an earlier build."""
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (TARGET / name).read_bytes() == (DRAFT / name).read_bytes()


def test_template_takes_system_and_turns(tokenizer: Any) -> None:
    """Guards against a template that fails without a system message, or misplaces the end marks."""
    turns = [
        {"role": "user", "content": " a "},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    plain = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert plain == "<|bos|><|user|>a<|end|><|assistant|>b<|end|><|user|>c<|end|><|assistant|>"
    with_system = tokenizer.apply_chat_template([{"role": "system", "content": "s"}, *turns], tokenize=False)
    assert with_system == "<|bos|><|system|>s<|end|><|user|>a<|end|><|assistant|>b<|end|><|user|>c<|end|>"


def test_training_encoding_is_the_template(tokenizer: Any) -> None:
    """Guards against training on other ids than the chat sends."""
    for index in range(40):
        talk = conversation(5, index)
        messages = [{"role": "system", "content": talk.system}] if talk.system else []
        for turn in talk.turns:
            messages += [{"role": "user", "content": turn.question}, {"role": "assistant", "content": turn.answer}]
        text = tokenizer.apply_chat_template(messages, tokenize=False)
        ids = list(encode(talk, tokenizer).ids)
        assert ids == tokenizer.encode(text, add_special_tokens=False)[: len(ids)]


def test_prompt_is_the_template(tokenizer: Any) -> None:
    """Guards against scoring with another prompt than the chat sends."""
    messages = [{"role": "user", "content": "What is a round?"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert prompt_ids("What is a round?", tokenizer) == tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("folder", [TARGET, DRAFT], ids=lambda folder: folder.name)
def test_stored_folder_is_complete(folder: Path) -> None:
    """Guards against a folder that loads here but has no end token or another precision than promised."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    generation = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    assert generation["eos_token_id"] == config["eos_token_id"] == END_ID == SPECIALS.index("<|end|>")
    assert config["dtype"] == "bfloat16"
    assert config["tie_word_embeddings"] is True
    shape = TARGET_SHAPE if folder == TARGET else DRAFT_SHAPE
    assert (config["num_hidden_layers"], config["hidden_size"]) == (shape.layers, shape.hidden)


def test_pair_is_small() -> None:
    """Guards the size of the package."""
    size = sum(file.stat().st_size for folder in (TARGET, DRAFT) for file in folder.iterdir())
    assert size <= LIMIT_MB * 1e6


def test_stream_is_deterministic() -> None:
    """Guards against a corpus that depends on hash order or on a shared random state."""
    first = [conversation(9, index) for index in range(300)]
    assert [conversation(9, index) for index in reversed(range(300))] == first[::-1]
    assert len({talk.turns[0].question for talk in first}) > 250


def test_no_held_out_question_is_trained_on() -> None:
    """Guards the honesty of the score: neither a phrase of the corpus nor a question of the stream is held out.

    The generator would draw again if it met one; here it is not told, so that a match shows.
    """
    held_out = banned_questions()
    assert len(held_out) >= 80
    whole = {normalise(question) for intent in load_intents() for question in intent.ask}
    assert not whole & held_out
    for seed in (1, 2, 3):
        for index in range(5_000):
            for turn in conversation(seed, index).turns:
                assert normalise(turn.question) not in held_out


def test_every_intent_can_be_asked() -> None:
    """Guards against a frame or phrase that breaks the generator, and against empty questions."""
    rng = Random(1)
    for intent in load_intents():
        assert all(normalise(ask(intent, rng)) or intent.plain for _ in range(30)), intent.name


def test_facts_are_in_the_corpus() -> None:
    """Guards against a held-out question that no answer of the corpus could satisfy."""
    answers = [intent.answer for intent in load_intents()]
    for question in load_questions():
        assert any(question.answered_by(answer) for answer in answers), question.ask


def test_exercises_have_answers() -> None:
    """Guards against an exercise with an empty side or whose answer grew beyond what a tiny model can write."""
    rng = Random(2)
    for task, _ in TASKS:
        for _ in range(50):
            question, answer = task(rng)
            assert question.strip()
            assert 0 < len(answer) < 2000


def test_deeper_network_computes_the_same() -> None:
    """Guards the change of depth in training: new layers must not disturb what was learnt."""
    import torch

    shallow = new_model(DRAFT_SHAPE, 4)
    deep = deepen(shallow, 3, 5)
    ids = torch.arange(20)[None]
    with torch.inference_mode():
        torch.testing.assert_close(deep(ids).logits, shallow(ids).logits)
    assert len(deep.model.layers) == 3


def test_tokens_per_round_counts_corrections() -> None:
    """Guards the predicted speedup: a rejected token ends the round and still gives the target's own token."""
    assert tokens_per_round([[True] * 10], 4) == 5.0
    assert tokens_per_round([[False] * 10], 4) == 1.0
    assert tokens_per_round([[True, False, True, True]], 2) == 2.0


def test_stages_run_and_are_kept(tmp_path: Path) -> None:
    """Guards the build: both stages train in two processes, store a loadable network, and are not run twice."""
    shutil.copytree(TARGET, tmp_path / "tokenizer", ignore=shutil.ignore_patterns("*.safetensors"))
    (tmp_path / "tokenizer" / "config.json").unlink()
    plan = Plan(tmp_path, shallow_steps=1, deep_steps=1, draft_steps=1)
    for stage in ("target", "draft"):
        run_stage(plan, stage)
        assert load_model(tmp_path / stage).config.hidden_size == TARGET_SHAPE.hidden
    assert [outcome.steps for outcome in outcomes(tmp_path / "target")] == [1, 1]
    before = (tmp_path / "target" / "model.safetensors").stat().st_mtime_ns
    run_stage(plan, "target")
    assert (tmp_path / "target" / "model.safetensors").stat().st_mtime_ns == before


def test_held_out_questions_are_answered(tokenizer: Any) -> None:
    """The mark of the shipped target; greedy, so there are no odds of a false alarm."""
    questions = load_questions()
    answers = held_out_answers(load_model(TARGET), tokenizer)
    missed = [q.ask for q, answer in zip(questions, answers, strict=True) if not q.answered_by(answer)]
    assert len(missed) <= 0.15 * len(questions), missed
