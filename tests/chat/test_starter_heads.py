"""The heads that are shipped: every way of drafting can be tried on any machine, on the built-in pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Finished, Loaded, Reply
from localchat.chat.session import Session
from localchat.engine.types import Sampling
from localchat.models.choice import inspect
from localchat.models.folders import STARTER_HEADS, find_model, fingerprint
from localchat.models.heads import read_head
from localchat.models.plan import STARTER, LoadPlan, Mode, Precision
from localchat.models.starter.score import load_questions

LIMIT_MB = 6
LEAST = {"eagle": 2.5, "medusa": 1.4}
"""Tokens per round on held-out questions; the heads got 4 and 1.9 when they were trained."""


@pytest.fixture(scope="module", params=LEAST)
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The built-in target with a shipped head, found by its kind alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCALCHAT_HOME", str(tmp_path_factory.mktemp("home")))
        session = Session()
        plan = LoadPlan(draft=request.param, mode=Mode.EXACT, precision=Precision.FP32, context=1024)
        loaded = list(session.load(plan))[-1]
        assert isinstance(loaded, Loaded), loaded
        assert loaded.draft_kind == request.param
        yield session
    session.close()


def replies(session: Session, options: ReplyOptions) -> list[Reply]:
    """What is said to some held-out questions."""
    found = []
    for question in load_questions()[:60:10]:
        last = list(session.reply(Conversation.begin().user(question.ask), options))[-1]
        assert isinstance(last, Finished), last
        found.append(last.reply)
    return found


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_shipped_head_changes_the_speed_and_not_the_text(session: Session, temperature: float) -> None:
    """Guards the first promise with trained heads, and against a head that was trained for another target: it would
    still be loaded, and nothing of it accepted."""
    engine = session._engine
    assert engine is not None
    kind = engine.info.draft_kind
    options = ReplyOptions(Sampling(temperature=temperature, seed=5), max_tokens=64, fresh=True, method=kind)
    drafted, plain = replies(session, options), replies(session, replace(options, method="off"))
    assert [reply.token_ids for reply in drafted] == [reply.token_ids for reply in plain]
    tokens, rounds = (sum(getattr(reply.stats, name) for reply in drafted) for name in ("tokens", "rounds"))
    if temperature == 0.0:
        assert tokens / rounds > LEAST[kind]


def test_the_heads_are_small_and_made_for_the_target_that_is_shipped() -> None:
    """Guards the size of the package, and a target that was trained anew without its heads."""
    target = inspect(find_model(STARTER))
    heads = [read_head(find_model(name), target) for name in STARTER_HEADS]
    assert [head.kind for head in heads] == list(LEAST)
    assert {head.file.fingerprint for head in heads} == {fingerprint(target.source.folder)}
    files = [file for head in heads for file in head.source.folder.iterdir()]
    assert {file.name for file in files} == {"config.json", "model.safetensors", "README.md"}
    assert sum(file.stat().st_size for file in files) <= LIMIT_MB * 1e6
