"""Trainings that are paused, gone on with or refused, and what they leave behind."""

from __future__ import annotations

import errno
import os
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from safetensors import safe_open

from localchat import paths
from localchat.chat.conversation import Role
from localchat.chat.store import open_store
from localchat.errors import FitError, GenerationError, UsageError
from localchat.models import choice
from localchat.models.plan import LoadPlan, Precision
from localchat.paths import data_dir
from localchat.train import checkpoint, texts, unroll
from localchat.train import run as training
from localchat.train.events import Paused
from localchat.train.loop import Loop
from tests.support.models import save_tiny
from tests.train.support import after, began, finished, never, notes, run, text_file, tiny_plan


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own."""
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))


def test_pausing_and_going_on(tmp_path: Path) -> None:
    """Guards against a pause that loses what was learnt, and against a head that is offered half trained."""
    plan = tiny_plan(tmp_path, minutes=10.0)  # ends by the pause, however slow the machine
    first = run(plan, after(8))
    assert isinstance(first[-1], Paused)
    assert not (data_dir() / "heads").exists()
    second = run(plan, after(8))
    assert isinstance(second[-1], Paused)
    assert second[-1].seconds > first[-1].seconds
    last = run(tiny_plan(tmp_path))
    assert began(last).resumed_seconds == second[-1].seconds
    assert finished(last).seconds >= began(last).resumed_seconds


def test_another_target(tmp_path: Path) -> None:
    """Guards against going on with a head for weights that are no longer there."""
    assert isinstance(run(tiny_plan(tmp_path, minutes=10.0), after(4))[-1], Paused)
    save_tiny(tmp_path / "target", layers=3, seed=9)
    events = run(tiny_plan(tmp_path))
    assert notes(events) == ["The target has changed: training starts anew."]
    assert began(events).resumed_seconds == 0.0
    finished(events)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 5},
        {"kind": "eagle"},
        {"precision": Precision.FP32},
        {"data": ("other.txt",)},
        {"data": ("self",)},
        {"data": ("text.txt", "self")},
        {},
    ],
)
def test_other_data_or_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    """Guards against hours of training that are lost to another seed, kind or precision, or to a file that was edited
    meanwhile; what is still there goes on once the old settings are back."""
    monkeypatch.chdir(tmp_path)
    file = Path("text.txt")
    text_file(tmp_path)
    Path("other.txt").write_text(file.read_text().upper())
    plan = tiny_plan(tmp_path, minutes=10.0, data=("text.txt",))
    assert isinstance(run(plan, after(8))[-1], Paused)
    edited = file.read_text() + "One more line."
    if not change:
        monkeypatch.setattr(texts, "_file", lambda _path: edited)
    monkeypatch.setattr("localchat.train.run.load_weights", never)
    other = tiny_plan(tmp_path, **{"data": ("text.txt",), **change})
    with pytest.raises(UsageError, match="unfinished training of tiny") as refused:
        run(other)
    assert "localchat models rm tiny" in refused.value.hint
    monkeypatch.undo()
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    events = run(tiny_plan(tmp_path))
    assert began(events).resumed_seconds > 0
    finished(events)


def test_chats_may_grow(tmp_path: Path) -> None:
    """Guards against a training on chats that cannot be gone on with after a chat."""
    store = open_store(paths.store_file()).store

    def say(text: str) -> None:
        chat = store.create()
        store.add(chat.id, store.add(chat.id, None, Role.USER, text).id, Role.ASSISTANT, text)

    say("Hello?")
    data = ("chats", str(text_file(tmp_path)))
    run(tiny_plan(tmp_path, data=data, minutes=10.0), after(8))
    say("Anyone?")
    store.close()
    events = run(tiny_plan(tmp_path, data=data))
    assert began(events).resumed_seconds > 0
    finished(events)


def test_a_precision_that_was_chosen_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a command that cannot go on because more or less memory is free than before the pause."""
    run(tiny_plan(tmp_path, minutes=10.0), after(8))
    asked = []
    real = choice.choose

    def choose(plan: LoadPlan, *rest: Any) -> Any:
        asked.append(plan.precision)
        return real(plan, *rest)

    monkeypatch.setattr("localchat.train.run.choose", choose)
    assert began(run(tiny_plan(tmp_path))).resumed_seconds > 0
    assert asked != [Precision.AUTO]


@pytest.mark.parametrize("kind", ["eagle", "draft"])
def test_a_name_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Guards against a trained head or model that another one replaces without a word, or two of one name."""
    (data_dir() / ("models" if kind == "draft" else "heads") / "tiny").mkdir(parents=True)
    monkeypatch.setattr("localchat.train.run.load_weights", never)
    with pytest.raises(UsageError, match="tiny is already trained") as refused:
        run(tiny_plan(tmp_path))
    assert "localchat models rm tiny" in refused.value.hint


def test_two_at_once(tmp_path: Path) -> None:
    """Guards against two trainings of one name that write over each other."""
    plan = tiny_plan(tmp_path, minutes=10.0)
    one = training.train(plan)
    next(one)
    with pytest.raises(UsageError, match="tiny is being trained by another process"):
        run(plan)
    finished(run(tiny_plan(tmp_path, name="other")))
    one.close()  # type: ignore[attr-defined]
    finished(run(tiny_plan(tmp_path)))


@pytest.mark.parametrize("damage", ["cut", "old", "misfit"])
def test_a_state_that_is_of_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    """Guards against a crash, or the best of a lost training beside the steps of a new one, where a state is damaged or
    was written by another version; and against not saying so."""
    run(tiny_plan(tmp_path, minutes=10.0), after(8))
    folder = data_dir() / "training" / "tiny"
    state = folder / "checkpoint.safetensors"
    (folder / "best.safetensors").write_bytes(b"stale")
    if damage == "cut":
        state.write_bytes(state.read_bytes()[:-4])
    elif damage == "old":
        found = checkpoint.load(state)
        assert found is not None
        checkpoint.save(state, found[0], {**found[1], "progress": {"step": "many"}})
    else:
        monkeypatch.setattr(Loop, "restore", lambda *_: False)
    events = run(tiny_plan(tmp_path, minutes=10.0), after(8))
    assert notes(events) == ["What there was of this training cannot be gone on with: training starts anew."]
    assert began(events).resumed_seconds == 0.0
    best = folder / "best.safetensors"
    assert not best.exists() or best.read_bytes() != b"stale"


def test_what_a_kill_left_of_the_result_is_removed(tmp_path: Path) -> None:
    """Guards against half-written heads that nobody sees and nobody removes."""
    left = data_dir() / "heads" / ".tiny.new"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    assert isinstance(run(tiny_plan(tmp_path, minutes=10.0), after(4))[-1], Paused)
    assert not left.exists()


def test_a_result_is_on_the_disk_before_the_state_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a power cut that leaves neither the head nor what it could be made from."""
    safe: set[int] = set()
    real = os.fsync

    def fsync(handle: int) -> None:
        safe.add(os.fstat(handle).st_ino)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    end = finished(run(tiny_plan(tmp_path)))
    assert {file.stat().st_ino for file in end.folder.iterdir()} <= safe


def test_slow_saves_are_rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a training that spends its time on a slow disk."""
    saved: list[str] = []
    real = checkpoint.save

    def save(path: Path, *rest: Any) -> None:
        saved.append(path.name)
        time.sleep(0.2)
        real(path, *rest)

    monkeypatch.setattr(checkpoint, "save", save)
    monkeypatch.setattr("localchat.train.learn._SAVE_LEAST", 0.0)
    finished(run(tiny_plan(tmp_path)))
    assert 1 <= saved.count("checkpoint.safetensors") <= 2


def test_a_full_disk_while_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against the end of a training, or the loss of its last state, because the disk is full for a while."""
    plan = tiny_plan(tmp_path, minutes=10.0)
    run(plan, after(8))
    state = data_dir() / "training" / "tiny" / "checkpoint.safetensors"
    before = state.read_bytes()
    real, full = safetensors.torch.save_file, OSError(errno.ENOSPC, "No space left on device")

    def save(*arguments: object) -> None:
        if "training" in str(arguments[1]):
            raise full
        real(*arguments)

    monkeypatch.setattr(safetensors.torch, "save_file", save)
    paused = run(plan, after(8))
    assert isinstance(paused[-1], Paused)
    assert any("No space left" in note and note.endswith("the last one is kept.") for note in notes(paused))
    assert state.read_bytes() == before
    end = finished(run(tiny_plan(tmp_path)))
    with safe_open(end.folder / "model.safetensors", "pt") as file:
        assert file.keys()


def test_a_full_disk_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against half a head in the place of a whole one, and against a training that must be done again."""
    plan = tiny_plan(tmp_path)
    real = safetensors.torch.save_file

    def save(*arguments: object) -> None:
        if "heads" in str(arguments[1]):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments)

    monkeypatch.setattr(safetensors.torch, "save_file", save)
    with pytest.raises(GenerationError, match="No space left"):
        run(plan)
    monkeypatch.undo()
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))
    assert list((data_dir() / "heads").iterdir()) == []
    last = run(plan)
    assert began(last).resumed_seconds > 0
    finished(last)


def test_no_memory_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an hour of training that is lost where another program takes the memory."""
    real, calls = unroll.loss, count()

    def loss(*arguments: Any) -> torch.Tensor:
        if next(calls) >= 5:
            raise torch.OutOfMemoryError("out of memory")
        return real(*arguments)

    monkeypatch.setattr(unroll, "loss", loss)
    with pytest.raises(FitError, match="Memory ran out") as failed:
        run(tiny_plan(tmp_path, minutes=10.0))
    assert "the same command" in failed.value.hint
    monkeypatch.setattr(unroll, "loss", real)
    events = run(tiny_plan(tmp_path))
    assert began(events).resumed_seconds > 0
    finished(events)
