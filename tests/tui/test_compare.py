"""The compare screen: measured in turn, replayed side by side, kept, exported; Esc always works."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import OptionList

from localchat import config
from localchat.bench import hear
from localchat.bench.categories import KINDS
from localchat.bench.compare import Verdict
from localchat.chat.backend import Backend
from localchat.chat.events import Failed, Loaded
from localchat.chat.store import open_store
from localchat.models.plan import LoadPlan
from localchat.tui import race, theme
from localchat.tui.desk import Desk
from localchat.tui.host import FRAME, Host
from localchat.tui.screens.compare import CompareScreen
from localchat.tui.screens.comparisons import ComparisonsScreen
from localchat.tui.widgets.bar_chart import BarChart
from localchat.tui.widgets.composer import Composer
from localchat.tui.widgets.race_pane import RacePane
from tests.support.backend import Scripted
from tests.tui.support import screen_text, wait_until

pytestmark = pytest.mark.anyio

SIZES = [(80, 24), (120, 40), (200, 50)]
TEXT = "The draft proposes a few tokens, and the target checks them all at once. "


class Shell(App[None]):
    """An app with nothing but the compare screen."""

    def __init__(self, desk: Desk, prompt: str) -> None:
        super().__init__()
        self.desk, self.prompt = desk, prompt
        self.left = False
        theme.register_all(self)

    def on_mount(self) -> None:
        """Open it."""
        self.set_interval(FRAME, self.desk.host.drain)
        self.push_screen(CompareScreen(self.desk, self.prompt), self._leave)

    def _leave(self, _: None) -> None:
        self.left = True

    @property
    def compare(self) -> CompareScreen:
        """The screen."""
        found = next(screen for screen in self.screen_stack if isinstance(screen, CompareScreen))
        assert isinstance(found, CompareScreen)
        return found


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def quick_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays take no time."""
    monkeypatch.setattr(race, "replay_speed", lambda _: 1000.0)


@asynccontextmanager
async def opened(
    backend: Backend,
    loaded: Loaded | None,
    folder: Path,
    size: tuple[int, int] = (120, 40),
    prompt: str = "What is a draft?",
) -> AsyncIterator[tuple[Shell, Pilot[None]]]:
    """The screen over a backend."""
    file = config.read(folder / "config.toml")
    desk = Desk(
        host=Host(backend),
        store=open_store(folder / "chats.db").store,
        file=file,
        resolved=config.resolve(file, {}, {}, ""),
        plan=LoadPlan(),
        loaded=loaded,
    )
    app = Shell(desk, prompt)
    try:
        async with app.run_test(size=size) as pilot:
            await wait_until(pilot, lambda: isinstance(app.screen, CompareScreen))
            yield app, pilot
    finally:
        desk.host.close()
        desk.store.close()


async def finished(app: Shell, pilot: Pilot[None], sign: str = "✓") -> str:
    """The screen once the race was replayed, its words in one line."""
    await wait_until(pilot, lambda: sign in screen_text(app), seconds=60)
    return " ".join(screen_text(app).split())


@pytest.mark.parametrize("size", SIZES)
async def test_one_prompt_is_raced_replayed_and_kept(size: tuple[int, int], tmp_path: Path) -> None:
    """Guards the whole way of one prompt, on every size: figures, conditions and verdict are all in view."""
    backend = Scripted(text=TEXT)
    async with opened(backend, backend.loaded(LoadPlan()), tmp_path, size) as (app, pilot):
        await pilot.press("enter")
        text = await finished(app, pilot)
        for part in ("2.5", "n 3", "same in all 3 pairs", "first token", "whole reply", "accepted", "memory", "seed 0"):
            assert part in text, part
        assert "temperature 0.7" in text
        assert TEXT.split(",")[0].split()[-1] in text
        assert [options.sampling.seed for options in backend.options] == [0] * 8
        assert {options.accelerate for options in backend.options} == {True, False}
        kept = app.desk.store.comparisons()
        assert len(kept) == 1
        assert "What is a draft?" in kept[0].title
        assert json.loads(kept[0].record)["races"][0]["plain"]["text"] == TEXT


@pytest.mark.parametrize("size", SIZES)
async def test_six_kinds_have_a_bar_each_and_can_be_chosen(size: tuple[int, int], tmp_path: Path) -> None:
    """Guards the bars: every kind, its ratio and its n; choosing one shows its race."""
    backend = Scripted()
    async with opened(backend, backend.loaded(LoadPlan()), tmp_path, size) as (app, pilot):
        await pilot.press("alt+k", "ctrl+r")
        text = await finished(app, pilot)
        assert all(kind in text for kind in KINDS)
        assert "the median of 6 kinds" in text
        assert "1× plain" in text
        chart = app.compare.query_one(BarChart)
        assert chart.has_focus
        await pilot.press("down", "down")
        await wait_until(pilot, lambda: f"▸ {KINDS[2]}" in screen_text(app))
        await pilot.press("up")
        await wait_until(pilot, lambda: f"▸ {KINDS[1]}" in screen_text(app))
        await pilot.press("alt+b")
        await wait_until(pilot, lambda: "tokens a round" in screen_text(app))


async def test_a_difference_is_shown_where_it_is(tmp_path: Path) -> None:
    """Guards honesty: other text is never called the same, and both sides are scrolled to where they part."""
    start = "All is well here. " * 25
    backend = Scripted(text=start + "Then plain.", accelerated_text=start + "Then other.")
    async with opened(backend, backend.loaded(LoadPlan()), tmp_path, (80, 24)) as (app, pilot):
        await pilot.press("alt+n", "alt+n", "alt+n", "enter")
        text = await finished(app, pilot, "≠")
        assert "The texts part at token" in text
        assert "plain." in text
        assert "other." in text
        for pane in app.compare.query(RacePane):
            styles = [style for line in pane.lines for piece, style in line if "plain." in piece or "other." in piece]
            assert styles == ["bold underline $warning"]
        await pilot.press("tab", "home")
        await wait_until(pilot, lambda: screen_text(app).count("All is well here.") >= 4)


@pytest.mark.parametrize("kinds", [False, True])
async def test_escape_stops_and_then_leaves(kinds: bool, tmp_path: Path) -> None:
    """Guards against a comparison that cannot be stopped, and one that is kept though it is not complete."""
    backend = Scripted(text=TEXT * 4, delay=0.01)
    async with opened(backend, backend.loaded(LoadPlan()), tmp_path) as (app, pilot):
        await pilot.press(*(["alt+k"] if kinds else []), "ctrl+r")
        await wait_until(pilot, lambda: "reply 1 of" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Stopped; nothing was finished" in screen_text(app), seconds=3)
        assert not app.left
        assert not app.desk.host.busy
        assert app.desk.store.comparisons() == []
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.left)


async def test_a_long_reply_is_shown_while_it_is_measured(tmp_path: Path) -> None:
    """Guards against minutes in front of an empty screen."""
    backend = Scripted(text=TEXT * 9, delay=0.02)
    async with opened(backend, backend.loaded(LoadPlan()), tmp_path) as (app, pilot):
        await pilot.press("enter")
        await wait_until(pilot, lambda: "being measured" in screen_text(app) and "The draft" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: not app.desk.host.busy)


@pytest.mark.parametrize("after", [0, 3])
async def test_a_failing_engine_is_explained(after: int, tmp_path: Path) -> None:
    """Guards against a screen that waits for ever, or a traceback, when the engine dies."""
    failed = Failed("engine", "The engine ended by itself.", "Load again.")
    backend = Scripted(reply_failure=failed, fail_after=after)
    async with opened(backend, backend.loaded(LoadPlan()), tmp_path) as (app, pilot):
        await pilot.press("enter")
        await wait_until(pilot, lambda: "The engine ended by itself. Load again." in screen_text(app))
        backend.reply_failure = None
        await pilot.press("ctrl+r")
        await finished(app, pilot)


async def test_nothing_loaded_is_said(tmp_path: Path) -> None:
    """Guards against a race without a model."""
    async with opened(Scripted(), None, tmp_path) as (app, pilot):
        await pilot.press("enter")
        await wait_until(pilot, lambda: "No model is loaded" in screen_text(app))


async def test_history_opens_exports_and_forgets(tmp_path: Path) -> None:
    """Guards the way back to an earlier comparison, and its files."""
    backend = Scripted(text=TEXT)
    async with opened(backend, backend.loaded(LoadPlan()), tmp_path) as (app, pilot):
        await pilot.press("alt+x", "enter")
        await finished(app, pilot)
        app.compare.query_one(Composer).load_text("Something else")
        await pilot.press("ctrl+o")
        await wait_until(pilot, lambda: isinstance(app.screen, ComparisonsScreen))
        assert app.screen.query_one(OptionList).option_count == 1
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, CompareScreen))
        await wait_until(pilot, lambda: app.compare.query_one(Composer).value == "What is a draft?")
        await finished(app, pilot)
        await pilot.press("alt+x")
        await wait_until(pilot, lambda: len(list(tmp_path.glob("localchat-compare-*"))) == 3)
        await pilot.press("alt+o")
        await wait_until(pilot, lambda: isinstance(app.screen, ComparisonsScreen))
        await pilot.press("d")
        await wait_until(pilot, lambda: app.desk.store.comparisons() == [])
        assert "Nothing yet" in screen_text(app)


async def test_a_record_of_another_version_is_refused(tmp_path: Path) -> None:
    """Guards against a crash over a record that cannot be read."""
    backend = Scripted()
    async with opened(backend, backend.loaded(LoadPlan()), tmp_path) as (app, pilot):
        app.desk.store.add_comparison("old", '{"format": 9}')
        await pilot.press("ctrl+o")
        await wait_until(pilot, lambda: isinstance(app.screen, ComparisonsScreen))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "another version" in screen_text(app))


async def test_hostile_text_stays_text(tmp_path: Path) -> None:
    """Guards the terminal: escape sequences and markup of a model's reply are shown, never obeyed."""
    backend = Scripted(text="\x1b]52;c;aGk=\x07 [red]x[/red] \u202eabc\x00 漢字 " * 8)
    async with opened(backend, backend.loaded(LoadPlan()), tmp_path, prompt="\x1b[2J [bold]") as (app, pilot):
        await pilot.press("enter")
        text = await finished(app, pilot)
        assert not set(text) & {"\x1b", "\x07", "\x00", "\u202e"}
        assert "[red]x[/red]" in text


@pytest.fixture(scope="module")
def starter() -> Iterator[tuple[Backend, Loaded]]:
    """The real pair in this process."""
    from localchat.chat.session import Session

    backend = Session()
    yield backend, hear.load(backend, LoadPlan(device="cpu"), lambda _: None)
    backend.close()


async def test_the_starter_over_six_kinds(starter: tuple[Backend, Loaded], tmp_path: Path) -> None:
    """Guards the promise on the real pair: the text is the same in every kind, and the ratios are shown and kept."""
    async with opened(*starter, tmp_path) as (app, pilot):
        await pilot.press("alt+n", "alt+n", "alt+n", "alt+k", "ctrl+r")
        text = await finished(app, pilot)
        assert all(kind in text for kind in KINDS)
        whole = app.compare.shown
        assert whole is not None
        assert [result.category for result in whole.drafted] == list(KINDS)
        assert {result.sameness.verdict for result in whole.results} == {Verdict.SAME}
        assert next(shown for shown in whole.races if shown.kind == "story").fast.accepted
        assert len(app.desk.store.comparisons()) == 1
