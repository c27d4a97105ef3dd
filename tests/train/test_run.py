"""Whole trainings of a tiny target, from a text file to a head that drafts."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from safetensors import safe_open

from localchat.chat.session import wrapped
from localchat.engine.heads import AnyHead
from localchat.errors import GenerationError, UsageError
from localchat.models.folders import find_model, fingerprint
from localchat.models.loader import load
from localchat.models.plan import LoadPlan, Precision
from localchat.paths import data_dir
from localchat.train import texts, unroll
from localchat.train.events import Began, Paused, Stage, Step
from localchat.train.plan import TrainPlan
from localchat.train.teacher import Lesson
from tests.support.models import END, save_tiny, vocab_id
from tests.train.support import after, finished, judgements, notes, run, text_file, tiny_plan

KINDS = ("eagle", "medusa", "mtp", "draft")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own."""
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("kind", KINDS)
def test_from_text_to_a_part_that_loads(tmp_path: Path, kind: str) -> None:
    """Guards against a training whose result cannot be found, read or paired with its target."""
    plan = tiny_plan(tmp_path, kind)
    events = run(plan)
    end = finished(events)
    assert [event.stage for event in events if isinstance(event, Step)][:2] == [Stage.COLLECTING, Stage.LOADING]
    began = next(event for event in events if isinstance(event, Began))
    assert (began.name, began.kind, began.resumed_seconds) == ("tiny", kind, 0.0)
    assert end.folder == data_dir() / ("models" if kind == "draft" else "heads") / "tiny"
    assert len(judgements(events)) >= 2
    assert all(judged.speedup >= 1.0 and math.isfinite(judged.loss) for judged in judgements(events))
    assert not (data_dir() / "training" / "tiny").exists()
    loaded = load(LoadPlan(plan.model, draft="tiny", device="cpu"), lambda _stage, _done, _total: None)
    assert (loaded.draft_model is not None, loaded.head is not None) == (kind == "draft", kind != "draft")
    assert loaded.pairing is None or loaded.pairing.problem is None


def test_a_draft_model_scores_what_it_was_trained_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a cut model that drafts with its target's whole head, which costs most of its steps."""
    monkeypatch.setattr("localchat.train.pupil.VOCABULARY", 128)
    plan = tiny_plan(tmp_path, "draft")
    finished(run(plan))
    loaded = load(LoadPlan(plan.model, draft="tiny", device="cpu"), lambda _stage, _done, _total: None)
    draft = wrapped(loaded)[1].draft
    assert draft is not None
    assert draft.head_ids is not None
    ids = draft.head_ids.tolist()
    assert len(ids) == 128
    assert ids == sorted(ids)
    assert vocab_id(END) in ids


def test_a_target_in_four_bits(tmp_path: Path) -> None:
    """Guards against a teacher that cannot be as small as the user needs it."""
    end = finished(run(tiny_plan(tmp_path, "eagle", precision=Precision.NF4)))
    assert json.loads((end.folder / "config.json").read_text())["trained"]["precision"] == "nf4"


def test_a_head_says_what_it_is(tmp_path: Path) -> None:
    """Guards against a head that nobody can match with its target, or judge without trying it."""
    plan = tiny_plan(tmp_path)
    end = finished(run(plan))
    stored = json.loads((end.folder / "config.json").read_text())
    target = find_model(plan.model)
    assert stored["architectures"] == ["LocalchatHead"]
    assert stored["target"]["fingerprint"] == fingerprint(target.folder)
    assert stored["target"]["name"] == "target"
    assert (stored["target"]["hidden"], stored["target"]["layers"], stored["target"]["vocab"]) == (64, 3, 262)
    assert [len(row) for row in stored["acceptance"]] == [len(row) for row in end.judged.acceptance]
    assert stored["trained"]["data"] == ["text.txt"]
    assert str(tmp_path) not in (end.folder / "config.json").read_text() + (end.folder / "README.md").read_text()
    assert all(path.stat().st_mode & 0o077 == 0 for path in end.folder.iterdir())


def test_the_target_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against texts that are written again for each kind of head, and against a time that does not end."""
    monkeypatch.setattr("localchat.train.selfwrite.LONGEST", 60)
    plan = tiny_plan(tmp_path, data=("self",), minutes=0.05)
    events = run(plan)
    finished(events)
    written = [event.tokens for event in events if isinstance(event, Step) and event.stage is Stage.WRITING]
    assert written[0] == 0
    assert written == sorted(written)
    kept = next((tmp_path / "home" / "cache" / "written").iterdir())
    size = kept.stat().st_size
    monkeypatch.setattr("localchat.train.run.ENOUGH", 1)
    again = run(tiny_plan(tmp_path, "eagle", data=("self", str(text_file(tmp_path))), name="other", minutes=0.05))
    assert finished(again).name == "other"
    assert kept.stat().st_size == size


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
    began = next(event for event in last if isinstance(event, Began))
    assert began.resumed_seconds == second[-1].seconds
    assert finished(last).seconds >= began.resumed_seconds


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": True}, "The target has changed: training starts anew."),
        ({"seed": 5}, "Data or settings have changed: training starts anew."),
    ],
)
def test_another_target_or_other_data(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    """Guards against going on with a head for weights that are no longer there, or with another order of texts."""
    assert isinstance(run(tiny_plan(tmp_path, minutes=10.0), after(4))[-1], Paused)
    if change.pop("model", False):
        save_tiny(tmp_path / "target", layers=3, seed=9)
    events = run(tiny_plan(tmp_path, **change))
    assert notes(events) == [words]
    assert next(event for event in events if isinstance(event, Began)).resumed_seconds == 0.0
    finished(events)


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
    assert any("No space left" in note and "the last one is kept" in note for note in notes(paused))
    assert state.read_bytes() == before
    end = finished(run(tiny_plan(tmp_path)))
    with safe_open(end.folder / "model.safetensors", "pt") as file:
        assert file.keys()


def test_a_full_disk_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against half a head in the place of a whole one, and against a training that must be done again."""
    plan = tiny_plan(tmp_path)
    earlier = (finished(run(plan)).folder / "config.json").read_text()
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
    folder = data_dir() / "heads"
    assert [path.name for path in folder.iterdir()] == ["tiny"]
    assert (folder / "tiny" / "config.json").read_text() == earlier
    last = run(plan)
    assert next(event for event in last if isinstance(event, Began)).resumed_seconds > 0
    finished(last)


def test_memory_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an end without a word where a smaller batch would do."""
    real = unroll.loss

    def loss(head: AnyHead, lesson: Lesson, depth: int, typical: torch.Tensor) -> torch.Tensor:
        if len(lesson.last) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return real(head, lesson, depth, typical)

    monkeypatch.setattr(unroll, "loss", loss)
    monkeypatch.setattr(texts, "LENGTH", 64)
    events = run(tiny_plan(tmp_path))
    assert any("1 texts are computed at a time" in note for note in notes(events))
    finished(events)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "hydra"}, "no kind 'hydra'"),
        ({"minutes": 0.0}, "no time"),
        ({"minutes": float("nan")}, "no time"),
        ({"name": "../evil"}, "cannot be a name"),
        ({"name": "starter-eagle"}, "is built in"),
        ({"data": ()}, "no text"),
    ],
)
def test_impossible_plans(tmp_path: Path, fields: dict[str, object], words: str) -> None:
    """Guards against files outside of their folder, and against finding out after an hour."""
    with pytest.raises(UsageError, match=words):
        run(tiny_plan(tmp_path, **fields))  # type: ignore[arg-type]


def test_text_is_refused_before_anything_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against waiting for a large model to be told that a file is empty or short."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("localchat.train.run.load_weights", never)
    short = tmp_path / "short.txt"
    short.write_text("Only a few words.")
    assert len("Only a few words.") < texts.LENGTH
    with pytest.raises(UsageError, match="too short"):
        run(tiny_plan(tmp_path, data=(str(short),)))
    with pytest.raises(UsageError, match="no file"):
        run(tiny_plan(tmp_path, data=("self", str(tmp_path / "missing"))))


def test_names_are_made_of_target_and_kind() -> None:
    """Guards against names that are no file names."""
    assert TrainPlan("eagle").called("Qwen3 0.6B (base)") == "eagle-for-qwen3-0.6b-base"
    assert TrainPlan("eagle", name="Mine").called("x") == "Mine"
