"""The settings screen over the real engine in its own process, with the built-in pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from localchat.models.plan import LoadPlan
from localchat.tui.desk import Desk
from localchat.tui.screens.settings import SettingsScreen
from localchat.worker.client import Worker
from tests.tui.stage import Stage, desk
from tests.tui.support import screen_text, wait_until

pytestmark = pytest.mark.anyio


def precision(made: Desk) -> str:
    """Of what is loaded; empty if nothing is."""
    return made.loaded.plan.precision.value if made.loaded else ""


def usage(made: Desk) -> int:
    """Bytes of the target as measured."""
    assert made.loaded is not None
    return made.loaded.usage.target


async def test_the_built_in_pair_is_loaded_changed_and_brought_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the whole way: survey, load, another precision measured beside its plan, and cancel with the way back."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    worker = Worker()
    worker.start()
    with desk(tmp_path / "home", worker, plan=LoadPlan(), loaded=False) as made:
        screen = SettingsScreen(made)
        app = Stage(made, screen)
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until(pilot, lambda: "GiB" in app.words("title") and not screen.looking, seconds=120)
            await pilot.press("enter")
            await wait_until(pilot, lambda: "Loaded in" in app.words("told"), seconds=120)
            assert precision(made) == "bf16"
            assert made.plan.draft_model == "starter-draft"
            first = usage(made)
            await pilot.press("right", "enter")
            await wait_until(pilot, lambda: precision(made) == "nf4", seconds=120)
            assert usage(made) < 0.7 * first
            assert "measured" in app.words("sum")
            await pilot.press("left", "enter")
            await wait_until(pilot, lambda: "Esc stops" in screen_text(app))
            await pilot.press("escape")
            await wait_until(pilot, lambda: "What was loaded before is back." in app.words("told"), seconds=120)
            assert precision(made) == "nf4"
