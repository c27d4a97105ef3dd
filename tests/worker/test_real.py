"""The starter pair in a real engine process."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Event, Failed, Finished, Loaded, Loading, Prefilling, Reply, Surveyed, Wrote
from localchat.engine.types import Sampling, StopReason
from localchat.models.plan import LoadPlan, Mode
from localchat.worker.client import Worker
from tests.worker.support import gone, gone_or_zombie, prompt

PLAN = LoadPlan(mode=Mode.EXACT, context=1024)
QUESTION = Conversation.begin().user("What is a draft model?")
LONG_PROMPT = Conversation.begin().user("What is a round? " * 90)
EXACT = ReplyOptions(Sampling(temperature=0.0), max_tokens=40, fresh=True)
RAMBLING = ReplyOptions(Sampling(temperature=50.0, seed=3), fresh=True)
"""Hot enough that the reply never ends by itself."""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """The starter pair, loaded in exact mode."""
    patch = pytest.MonkeyPatch()
    patch.setenv("LOCALCHAT_HOME", str(tmp_path_factory.mktemp("home")))
    worker = Worker()
    load(worker)
    yield worker
    worker.close()
    patch.undo()


def load(worker: Worker) -> Loaded:
    """Load the plan."""
    last = list(worker.load(PLAN))[-1]
    assert isinstance(last, Loaded), last
    return last


@pytest.fixture
def ready(worker: Worker, home: Path) -> Worker:
    """The same worker, loaded again if a test ended it."""
    del home
    if not worker.pid:
        load(worker)
    return worker


def finish(events: Iterator[Event]) -> Reply:
    """The reply."""
    last = list(events)[-1]
    assert isinstance(last, Finished), last
    return last.reply


def test_same_text_as_in_this_process(ready: Worker) -> None:
    """Guards the wire and the child's environment: the same tokens, origins and pieces as without a process."""
    from localchat.chat.session import Session

    session = Session()
    assert isinstance(list(session.load(PLAN))[-1], Loaded)
    for options in (EXACT, replace(EXACT, sampling=Sampling(temperature=0.8, seed=9))):
        inside = list(session.reply(QUESTION, options))
        outside = list(ready.reply(QUESTION, options))
        assert finish(iter(outside)).token_ids == finish(iter(inside)).token_ids
    session.close()


def test_survey_says_what_there_is(ready: Worker) -> None:
    """Guards the settings page: device, name and memory, without loading anything."""
    last = list(ready.survey("cpu"))[-1]
    assert isinstance(last, Surveyed)
    assert last.machine.device == "cpu"
    assert 0 < last.machine.free < last.machine.total
    refused = list(ready.survey("toaster"))[-1]
    assert isinstance(refused, Failed)
    assert refused.kind == "usage"


def test_switching_at_any_round_changes_no_text(ready: Worker) -> None:
    """Guards F5: at a random round of 50 replies at temperature 0.8, off or on and perhaps back, all texts equal.

    What they equal is written without the switch, every fifth time without drafts.
    """
    luck, mixed = random.Random(11), 0
    for seed in range(50):
        options = ReplyOptions(Sampling(temperature=0.8, seed=seed), max_tokens=80, fresh=True)
        unswitched = finish(ready.reply(QUESTION, replace(options, method="off" if seed % 5 == 0 else "")))
        on = luck.random() < 0.5
        switches = sorted(luck.sample(range(12), luck.randint(1, 3)))
        rounds: list[bool] = []
        events = ready.reply(QUESTION, replace(options, accelerate=on))
        for event in events:
            if isinstance(event, Wrote):
                rounds.append(event.round.decision.reason == "switched off")
            while switches and len(rounds) >= switches[0]:
                switches.pop(0)
                on = not on
                ready.accelerate(on)
            if isinstance(event, Finished):
                assert event.reply.token_ids == unswitched.token_ids, seed
        mixed += len(set(rounds)) == 2
    assert mixed >= 15, "the switch came too late to prove anything"


@pytest.mark.parametrize("stage", ["before anything", "checking", "loading the target weights", "measuring speed"])
def test_cancelling_a_load_at_every_stage(home: Path, stage: str) -> None:
    """Guards Esc while loading: within 200 ms, and the process is gone."""
    del home

    def attempt() -> float:
        worker = Worker()
        events = worker.load(PLAN)
        if stage == "before anything":
            worker.start()
        else:
            assert any(isinstance(event, Loading) and event.stage == stage for event in events)
        pid, begun = worker.pid, time.monotonic()
        worker.cancel()
        last = list(events)[-1]
        seconds = time.monotonic() - begun
        assert isinstance(last, Failed)
        assert last.kind == "cancelled"
        worker.close()
        assert gone(pid, 0.1)
        return seconds

    assert prompt(attempt)


@pytest.mark.parametrize("stage", [Prefilling, Wrote])
def test_cancelling_a_reply_at_every_stage(ready: Worker, stage: type[Event]) -> None:
    """Guards Esc while writing: within 200 ms, what was written stands, and the next reply is undisturbed."""
    clean = finish(ready.reply(QUESTION, EXACT))

    def attempt() -> float:
        events = ready.reply(LONG_PROMPT, RAMBLING)
        assert any(isinstance(event, stage) for event in events)
        begun = time.monotonic()
        ready.cancel()
        reply = finish(events)
        seconds = time.monotonic() - begun
        assert reply.finish_reason is StopReason.CANCELLED
        return seconds

    assert prompt(attempt)
    assert finish(ready.reply(QUESTION, EXACT)).token_ids == clean.token_ids


@pytest.mark.parametrize("stage", [Wrote, None])
def test_a_killed_engine_can_be_loaded_again(ready: Worker, stage: type[Event] | None) -> None:
    """Guards the crash of a real engine: said in one sentence, and the next load gives the same reply."""
    clean = finish(ready.reply(QUESTION, EXACT))
    events = ready.reply(LONG_PROMPT, RAMBLING)
    if stage is not None:
        assert any(isinstance(event, stage) for event in events)
    os.kill(ready.pid, signal.SIGKILL)
    last = list(events)[-1]
    assert isinstance(last, Failed)
    assert last.kind == "engine"
    assert not ready.alive
    load(ready)
    assert finish(ready.reply(QUESTION, EXACT)).token_ids == clean.token_ids


def test_loading_again_gives_the_memory_back(ready: Worker) -> None:
    """Guards reloading: the old process is gone, and the new one is no bigger than the first was."""
    sizes = []
    for _ in range(2):
        pid = ready.pid
        sizes.append(load(ready).usage.process)
        assert gone(pid, 0.1)
    assert max(sizes) < 1.02 * min(sizes)


def test_the_engine_ends_with_the_screen(home: Path) -> None:
    """Guards against orphans: the screen is killed while a forward runs, and the engine is gone soon after."""
    script = """
from tests.worker.test_real import *
worker = Worker()
load(worker)
events = worker.reply(LONG_PROMPT, RAMBLING)
next(events)
print(worker.pid, flush=True)
list(events)
"""
    environment = {**os.environ, "LOCALCHAT_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as screen:
        assert screen.stdout is not None
        pid = int(screen.stdout.readline())
        screen.kill()
    assert gone_or_zombie(pid)
