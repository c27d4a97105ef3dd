"""Whole trainings of a tiny target, from a text file to a head that drafts."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest
import torch

from localchat.chat.session import wrapped
from localchat.engine.heads import AnyHead
from localchat.errors import UsageError
from localchat.models.folders import find_model, fingerprint
from localchat.models.loader import load
from localchat.models.plan import LoadPlan, Precision
from localchat.paths import data_dir
from localchat.train import run as training
from localchat.train import selfwrite, texts, unroll
from localchat.train.events import Stage, Step
from localchat.train.plan import TrainPlan
from localchat.train.teacher import Lesson
from localchat.train.texts import Text
from tests.support.models import END, vocab_id
from tests.train.support import began, finished, judgements, never, notes, run, text_file, tiny_plan

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
    first = began(events)
    assert (first.name, first.kind, first.resumed_seconds) == ("tiny", kind, 0.0)
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


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="names of files are UTF-8 there")
@pytest.mark.parametrize("kind", ["medusa", "draft"])
def test_names_that_are_not_utf_8(tmp_path: Path, kind: str) -> None:
    """Guards against a training whose card cannot be written because of how a file is called."""
    odd = os.fsdecode(b"caf\xe9.txt")
    text_file(tmp_path).rename(tmp_path / odd)
    end = finished(run(tiny_plan(tmp_path, kind, data=(str(tmp_path / odd),))))
    assert "caf?.txt" in (end.folder / "README.md").read_text(encoding="utf-8")


def test_a_large_seed(tmp_path: Path) -> None:
    """Guards against a number that torch cannot hold, found out after the target was loaded."""
    finished(run(tiny_plan(tmp_path, seed=2**80 + 1)))


def test_too_little_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against advice that was followed already."""
    monkeypatch.setattr(selfwrite, "write", lambda *_: [])
    with pytest.raises(UsageError, match="too short") as refused:
        run(tiny_plan(tmp_path, data=("self",), minutes=0.001))
    assert "--minutes" in refused.value.hint
    assert "--data self" not in refused.value.hint


def test_openings_are_taken_once_and_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against beginnings that are made again for every batch, and against those that are lost where memory runs
    out."""
    made, taken, lacks = [], [], [True]

    def openings(*_: object) -> Iterator[tuple[int, ...]]:
        made.append(True)
        return ((1, number // 250, number % 250) for number in count())

    def write(_model: object, begins: Iterable[tuple[int, ...]], *_: object) -> list[Text]:
        batch = list(begins)[:32]
        if lacks and lacks.pop():
            raise torch.OutOfMemoryError("out of memory")
        taken.extend(batch)
        return [Text((*begin, *range(30)), 3) for begin in batch]

    monkeypatch.setattr(training, "openings", openings)
    monkeypatch.setattr(selfwrite, "write", write)
    monkeypatch.setattr(training, "ENOUGH", 3000)
    events = run(tiny_plan(tmp_path, data=("self",), minutes=10.0), lambda: len(taken) >= 100)
    assert notes(events) == ["Memory ran out: from now on 16 texts are written at a time."]
    assert taken == [(1, number // 250, number % 250) for number in range(len(taken))]
    assert len(made) == 1


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
        ({"name": "auto"}, "a way of drafting"),
        ({"name": "lookup"}, "a way of drafting"),
        ({"data": ()}, "no text"),
        ({"data": ("self", "")}, "no text"),
    ],
)
def test_impossible_plans(tmp_path: Path, fields: dict[str, object], words: str) -> None:
    """Guards against files outside of their folder, and against finding out after an hour."""
    with pytest.raises(UsageError, match=words):
        run(tiny_plan(tmp_path, **fields))  # type: ignore[arg-type]


def test_text_is_refused_before_anything_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against waiting for a large model to be told that a file is empty or short."""
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
