"""The start page: what there is before anything was ever loaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.widgets import Input

from localchat import config
from localchat.models.plan import STARTER, LoadPlan
from localchat.tui.desk import Desk
from localchat.tui.screens.start import StartScreen
from tests.tui.stage import BIG, TINY, Sized, Stage, desk
from tests.tui.support import screen_text, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def new(hub: Path, tmp_path: Path) -> Iterator[Desk]:
    """Nothing was ever chosen."""
    with desk(tmp_path / "home", Sized(machine=TINY), plan=LoadPlan(), loaded=False) as made:
        yield made


async def test_start_page(new: Desk) -> None:
    """Guards the first start: what is here, what fits, one suggestion; enter takes it and it is kept for next time."""
    app = Stage(new, StartScreen(new))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "suggested" in screen_text(app))
        text = screen_text(app)
        assert text.index("The built-in guide") < text.index("Qwen3-8B") < text.index("Qwen3-0.6B")
        assert "7.4 GiB of 8.0 GiB are free" in text
        assert "or a folder" in text
        await pilot.press("enter")
        await wait_until(pilot, lambda: bool(app.ended))
        assert app.ended[0] == LoadPlan(model=BIG)
        assert new.store.value("started")
        assert config.read(new.file.path).values == (("model", BIG),)


async def test_start_page_without_models(new: Desk, hub: Path) -> None:
    """Guards a bare machine: the guide is offered, how to get a model is said, and escape begins."""
    shutil.rmtree(hub)
    app = Stage(new, StartScreen(new))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "localchat models pull" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: bool(app.ended))
        assert app.ended[0] == LoadPlan(model=STARTER)
        assert not new.file.path.read_text()


async def test_start_page_takes_a_name(new: Desk, hub: Path) -> None:
    """Guards models that lie elsewhere: a folder can be named, and a wrong name is answered with what to do."""
    app = Stage(new, StartScreen(new))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "suggested" in screen_text(app))
        await pilot.press("tab", *"no/model", "enter")
        await wait_until(pilot, lambda: "models pull no/model" in " ".join(app.words("told").split()))
        folder = next((hub / "models--Qwen--Qwen3-0.6B" / "snapshots").iterdir())
        app.shown.query_one(Input).value = str(folder)
        await pilot.press("enter")
        await wait_until(pilot, lambda: bool(app.ended))
        assert app.ended[0] == LoadPlan(model=str(folder))


async def test_start_page_lists_what_it_cannot_measure(new: Desk, tmp_path: Path) -> None:
    """Guards GGUF files of an unknown size, which may still be tried, and broken folders, which may not."""
    (tmp_path / "mystery.gguf").write_bytes(b"GGUF")
    broken = tmp_path / "models" / "broken"
    broken.mkdir(parents=True)
    (broken / "config.json").write_text("{")
    app = Stage(new, StartScreen(new))
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: "suggested" in screen_text(app))
        text = screen_text(app)
        assert "? " in text
        assert "cannot be read as JSON" in text
        await pilot.press("end", "enter")
        await wait_until(pilot, lambda: bool(app.ended))
        assert app.ended[0] == LoadPlan(model=str(tmp_path / "mystery.gguf"))


async def test_start_page_when_looking_fails(new: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a page without a way on: whatever goes wrong while looking, the guide is offered."""

    def fail(*_: object) -> None:
        raise RuntimeError("no disk")

    monkeypatch.setattr("localchat.tui.screens.start.find", fail)
    app = Stage(new, StartScreen(new))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "no disk" in app.words("told") and "The built-in guide" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: bool(app.ended))
        assert app.ended[0] == LoadPlan(model=STARTER)
