"""What the target's own texts begin with."""

from __future__ import annotations

from itertools import islice

from localchat.bench.categories import prompts
from localchat.models.loader import load_tokenizer
from localchat.models.starter import TARGET
from localchat.models.starter.paraphrase import normalise
from localchat.models.starter.score import banned_questions
from localchat.train.openings import openings, texts
from tests.peers.prompts import PROMPTS
from tests.support.models import tiny_tokenizer


def first(form: str, count: int = 1000) -> list[str]:
    """The first beginnings of a form."""
    return list(islice(texts(form, 0), count))


def test_beginnings_are_many_and_mixed() -> None:
    """Guards against a target that writes the same few texts, or one kind of text for an hour."""
    for form in ("chat", "completion"):
        found = first(form, 350)
        assert len(set(found)) == 350
        assert not any("{}" in text or not text.strip() for text in found)
    assert sum("def " in text for text in first("completion", 45)) in range(3, 20)
    assert first("chat", 40) != list(islice(texts("chat", 1), 40))


def test_nothing_is_learnt_from_what_is_measured_with() -> None:
    """Guards against speedups that were learnt by heart: no measured prompt may be an opening, or the start of one."""
    measured = [*(prompt.text for prompt in prompts()), *(prompt.text for prompt in PROMPTS)]
    known = {text.strip() for form in ("chat", "completion") for text in first(form)}
    for text in measured:
        assert text.strip() not in known
        assert not any(len(one) > 40 and one in text for one in known)


def test_openings_suit_the_model() -> None:
    """Guards against chat models that get bare text, base models that get a template they do not know, and a guide that
    is asked what it cannot know."""
    chat = tiny_tokenizer()
    found = [chat.decode(ids) for ids in islice(openings("some/model", chat), 20)]
    assert all(text.startswith("<|bos|><|user|>") and text.endswith("<|end|><|assistant|>") for text in found)
    base = tiny_tokenizer(template=None)
    assert [base.decode(ids) for ids in islice(openings("some/model", base), 20)] == first("completion", 20)
    guide = load_tokenizer(TARGET)
    asked = [guide.decode(ids) for ids in islice(openings("starter", guide), 300)]
    assert all(text.startswith("<|bos|><|user|>") for text in asked)
    banned = banned_questions()
    assert not [text for text in asked if normalise(text.split("|>")[2].removesuffix("<|end")) in banned]
