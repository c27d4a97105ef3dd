"""The engine in this process with a drafting head, as a load leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from localchat.chat import session as chat
from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Failed, Finished, Loaded, Reply
from localchat.engine.drafters import DRAFTERS, Parts
from localchat.engine.drafters.features import FeatureDrafter
from localchat.engine.types import Sampling
from localchat.models.loader import LoadedModels, load
from localchat.models.plan import LoadPlan, Mode
from tests.support.tiny_heads import tiny_head

Progress = Callable[[str, int, int], None]
QUESTION = Conversation.begin().user("What is a draft model?")


def reply(session: chat.Session, talk: Conversation, options: ReplyOptions) -> Reply:
    """The reply to a talk."""
    last = list(session.reply(talk, options))[-1]
    assert isinstance(last, Finished), last
    return last.reply


@pytest.fixture(scope="module", params=["medusa", "eagle3", "mtp"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[chat.Session]:
    """The starter target with a head of random weights."""

    def with_head(plan: LoadPlan, progress: Progress, width: int, memory: object) -> LoadedModels:
        models = load(replace(plan, draft="off"), progress, width)
        return replace(models, head=tiny_head(request.param, models.target_model))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCALCHAT_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(chat, "load", with_head)
        session = chat.Session()
        loaded = list(session.load(LoadPlan(mode=Mode.EXACT, context=512)))[-1]
        assert isinstance(loaded, Loaded), loaded
        assert loaded.draft_kind == request.param.rstrip("3")
        yield session
    session.close()


def test_two_turns_with_a_head_are_those_without(session: chat.Session) -> None:
    """Guards the way of the states from prefill to drafter, over turns whose prompt is kept in part, and the switch
    between methods that tap and methods that do not."""
    engine = session._engine
    assert engine is not None
    kind = engine.info.draft_kind
    assert set(engine.drafters) == {name for name, entry in DRAFTERS.items() if entry.alone} | {"mixed", kind}
    assert engine.info.plan.draft == "off"
    assert kind in dict(engine.governor.timings.draft), "its step was measured"
    texts = []
    for methods in (("off", "off"), (kind, kind), ("mixed", kind), ("off", "mixed")):
        options = ReplyOptions(Sampling(temperature=0.7, seed=3), max_tokens=24, fresh=True, method=methods[0])
        first = reply(session, QUESTION, options)
        talk = QUESTION.assistant(first.text).user("And what is a round?")
        second = reply(session, talk, replace(options, fresh=False, method=methods[1]))
        texts.append((first.token_ids, second.token_ids))
    assert set(texts) == {texts[0]}


def test_a_method_without_its_part_is_refused_in_words(session: chat.Session) -> None:
    """Guards the border: a method that needs a draft model which is not there is no fault of the engine."""
    last = list(session.reply(QUESTION, ReplyOptions(method="model")))[-1]
    assert isinstance(last, Failed)
    assert last.kind == "usage"


def test_a_head_has_its_memory_counted(session: chat.Session) -> None:
    """Guards the memory shown: the cache of a head that has one is the draft's cache."""
    engine = session._engine
    assert engine is not None
    kind = engine.info.draft_kind
    usage = reply(session, QUESTION, ReplyOptions(max_tokens=8, method=kind)).usage
    has_cache = isinstance(engine.drafters[kind], FeatureDrafter)
    assert (usage.draft_cache > 0) == has_cache
    assert engine.parts == Parts(engine.target, head=engine.models.head)
