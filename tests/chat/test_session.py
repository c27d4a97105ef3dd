"""The engine in this process, driven as the command line drives it: events in, events out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Failed, Finished, Loaded, Loading, Prefilling, Reply, ReplyEvent, Surveyed, Wrote
from localchat.chat.session import Session
from localchat.engine.types import Sampling, StopReason
from localchat.models.plan import LoadPlan, Mode

QUESTION = Conversation.begin().user("What is a draft model?")
SHORT = ReplyOptions(Sampling(temperature=0.0), max_tokens=24, fresh=True)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files of this test session alone."""
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("home")
    patch.setenv("LOCALCHAT_HOME", str(folder))
    yield folder
    patch.undo()


@pytest.fixture(scope="module")
def session(home: Path) -> Iterator[Session]:
    """The starter pair, loaded once."""
    session = opened(LoadPlan(mode=Mode.EXACT, context=1024))
    yield session
    session.close()


def opened(plan: LoadPlan) -> Session:
    """A session with this plan loaded."""
    session = Session()
    last = list(session.load(plan))[-1]
    assert isinstance(last, Loaded), last
    return session


def finish(events: Iterator[ReplyEvent]) -> tuple[Reply, list[ReplyEvent]]:
    """The reply, and all events."""
    seen = list(events)
    last = seen[-1]
    assert isinstance(last, Finished), last
    return last.reply, seen


def test_loading_says_what_was_decided(home: Path) -> None:
    """Guards `Loaded`: nothing is auto any more, memory is measured, timings are kept for the next start."""
    session = Session()
    loaded = list(session.load(LoadPlan(context=512)))[-1]
    assert isinstance(loaded, Loaded)
    assert "auto" not in (loaded.plan.precision, loaded.plan.draft, loaded.plan.device, loaded.plan.mode)
    assert loaded.plan.draft == "mixed"
    assert loaded.exact == (loaded.width > 0)
    assert abs(loaded.usage.target / loaded.memory.target - 1) < 0.03
    assert abs(loaded.usage.target_cache / loaded.memory.target_cache - 1) < 0.02
    assert abs(loaded.usage.draft_cache / loaded.memory.draft_cache - 1) < 0.02
    assert list((home / "cache" / "timings").iterdir())


def test_text_is_what_the_rounds_wrote(session: Session) -> None:
    """Guards streaming: pieces join to the text, tokens and origins line up, stats are a fold of the rounds."""
    reply, events = finish(session.reply(QUESTION, SHORT))
    rounds = [event.round for event in events if isinstance(event, Wrote)]
    assert reply.text.startswith("".join(event.text for event in events if isinstance(event, Wrote)))
    assert reply.token_ids == tuple(token for r in rounds for token in r.tokens)
    assert len(reply.origins) == len(reply.token_ids) == reply.stats.tokens
    assert reply.stats.rounds == len(rounds)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_switching_acceleration_does_not_change_the_text(session: Session, temperature: float) -> None:
    """Guards the first promise end to end, on the starter pair in exact mode in its own precision."""
    options = replace(SHORT, sampling=Sampling(temperature=temperature, seed=5), max_tokens=60)
    plain, _ = finish(session.reply(QUESTION, replace(options, accelerate=False)))
    assert plain.drafter == "off"
    for method in ("lookup", "model", "mixed"):
        reply, _ = finish(session.reply(QUESTION, replace(options, method=method)))
        assert reply.token_ids == plain.token_ids, method


def test_a_second_turn_computes_only_what_is_new(session: Session) -> None:
    """Guards prefix reuse through the chat template."""
    first, _ = finish(session.reply(QUESTION, SHORT))
    talk = QUESTION.assistant(first.text).user("And what is a round?")
    second, events = finish(session.reply(talk, replace(SHORT, fresh=False)))
    assert second.stats.prefilled < second.stats.prompt_tokens / 2
    assert any(isinstance(event, Prefilling) for event in events)


@pytest.mark.parametrize("after", [0, 1, 3])
def test_cancel_keeps_what_was_written(session: Session, after: int) -> None:
    """Guards Esc: the partial reply stands, the reason is said, the next reply equals an undisturbed one."""
    clean, _ = finish(session.reply(QUESTION, SHORT))
    written: list[str] = []
    reply = None
    whole = replace(SHORT, max_tokens=0)  # more than three rounds, however deep the drafts are
    for event in session.reply(QUESTION, whole):
        if isinstance(event, Wrote):
            written.append(event.text)
        if len(written) >= after and not isinstance(event, Finished):
            session.cancel()
        if isinstance(event, Finished):
            reply = event.reply
    assert reply is not None
    assert reply.finish_reason is StopReason.CANCELLED
    assert reply.text.startswith("".join(written))
    again, _ = finish(session.reply(QUESTION, SHORT))
    assert again.token_ids == clean.token_ids


def test_a_walked_away_consumer_does_no_harm(session: Session) -> None:
    """Guards a generator that is dropped mid-reply."""
    clean, _ = finish(session.reply(QUESTION, SHORT))
    events = session.reply(QUESTION, SHORT)
    for _ in range(4):
        next(events)
    del events
    again, _ = finish(session.reply(QUESTION, SHORT))
    assert again.token_ids == clean.token_ids


def test_a_prompt_longer_than_the_context_is_refused(session: Session) -> None:
    """Guards the context: both numbers are said, and the next reply works."""
    failed = list(session.reply(Conversation.begin().user("word " * 2000), SHORT))[-1]
    assert isinstance(failed, Failed)
    assert failed.kind == "usage"
    assert "1024" in failed.title
    finish(session.reply(QUESTION, SHORT))


def test_failures_are_events() -> None:
    """Guards the border: nothing is raised through it, loaded or not."""
    session = Session()
    assert isinstance(list(session.reply(QUESTION, SHORT))[-1], Failed)
    failed = list(session.load(LoadPlan(model="/nowhere/at/all")))[-1]
    assert isinstance(failed, Failed)
    assert failed.kind == "model"


def test_running_out_of_memory_is_said_and_survived(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards an out-of-memory error mid-reply: one sentence, a way on, and the engine still works."""
    import torch

    from localchat.engine.target import Target

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(Target, "forward", full)
        failed = list(session.reply(QUESTION, SHORT))[-1]
    assert isinstance(failed, Failed)
    assert failed.kind == "fit"
    finish(session.reply(QUESTION, SHORT))


def test_kept_timings_survive_damage(home: Path) -> None:
    """Guards the kept figures: a broken file means measuring again, and the faster of two measurements wins."""
    from localchat.chat.timings import best, keep_timings, read_timings
    from localchat.engine.governor import Timings

    file = home / "t.json"
    timings = Timings(((1, 0.5), (2, 0.6)), (("model", 0.1),), (("model", 0.01),))
    keep_timings(file, timings)
    assert read_timings(file) == timings
    file.write_text("{")
    assert read_timings(file) is None
    assert best(timings, replace(timings, verify=((1, 0.4), (2, 0.9)))).verify == ((1, 0.4), (2, 0.6))


@pytest.mark.parametrize("method", ["lookup", "mixed"])
def test_a_chat_of_three_turns_is_the_same_with_and_without_drafts(session: Session, method: str) -> None:
    """Guards exact mode across turns: caches are kept, and a stop string ends the first reply inside a draft."""
    texts = []
    for options in (replace(SHORT, accelerate=False), replace(SHORT, method=method)):
        talk, said = QUESTION, []
        for turn, question in enumerate(("And what is a round?", "Thank you!", "Bye")):
            stop = ("the",) if turn == 0 else ()
            reply, _ = finish(session.reply(talk, replace(options, fresh=turn == 0, stop=stop)))
            said.append(reply.token_ids)
            talk = talk.assistant(reply.text).user(question)
        texts.append(said)
    assert texts[0] == texts[1]


def test_switching_at_any_round_changes_no_text(session: Session) -> None:
    """Guards the switch in mid-reply: same tokens, and rounds draft or not as the switch said before them."""
    options = ReplyOptions(Sampling(temperature=0.8, seed=4), max_tokens=48, fresh=True)
    plain, _ = finish(session.reply(QUESTION, replace(options, method="off")))
    for begins, at in ((True, 2), (False, 2), (True, 0), (False, 5)):
        heard: list[Wrote] = []
        events = session.reply(QUESTION, replace(options, accelerate=begins))
        reply = None
        for event in events:
            if isinstance(event, Wrote):
                heard.append(event)
            if len(heard) == at:
                session.accelerate(not begins)
            reply = event.reply if isinstance(event, Finished) else None
        assert reply is not None
        assert reply.token_ids == plain.token_ids
        off = heard[:at] if not begins else heard[at:]
        assert all(event.round.decision.reason == "switched off" and not event.round.drafted for event in off)
        assert any(event.round.drafted for event in heard) == reply.accelerated
        assert reply.drafter == ("mixed" if reply.accelerated else "off")


def test_cancel_before_the_first_event_counts(session: Session) -> None:
    """Guards an Esc between asking for a reply and hearing of it; an older one must not stop a new reply."""
    events = session.reply(QUESTION, SHORT)
    session.cancel()
    reply, _ = finish(events)
    assert reply.finish_reason is StopReason.CANCELLED
    assert reply.stats.rounds == 0
    again, _ = finish(session.reply(QUESTION, SHORT))
    assert again.finish_reason is not StopReason.CANCELLED


def test_cancel_while_loading(home: Path) -> None:
    """Guards Esc while loading in this process: said as what it is, and nothing is half loaded."""
    session = Session()
    events = session.load(LoadPlan(context=512))
    assert any(isinstance(event, Loading) and "target" in event.stage for event in events)
    session.cancel()
    last = list(events)[-1]
    assert isinstance(last, Failed)
    assert last.kind == "cancelled"
    assert isinstance(list(session.reply(QUESTION, SHORT))[-1], Failed)


def test_pieces_are_the_tokens_as_text(session: Session) -> None:
    """Guards the token strip: one piece per token, rejected ones too, and together they are the reply."""
    reply, events = finish(session.reply(QUESTION, replace(SHORT, max_tokens=60)))
    heard = [event for event in events if isinstance(event, Wrote)]
    assert all(len(event.pieces) == len(event.round.tokens) for event in heard)
    assert all(len(event.rejected) == len(event.round.rejected) for event in heard)
    assert "".join(piece for event in heard for piece in event.pieces) == reply.text


def test_the_machine_is_told(session: Session) -> None:
    """Guards the settings page: device, name and free memory, before and after loading; no such device is said."""
    surveyed, refused = list(session.survey("cpu"))[-1], list(session.survey("toaster"))[-1]
    assert isinstance(surveyed, Surveyed)
    assert "cpu (" in surveyed.machine.title
    assert isinstance(refused, Failed)
