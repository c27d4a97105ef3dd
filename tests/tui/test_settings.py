"""The settings screen: all of it by keyboard, and every way a load can go wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input, OptionList

from localchat import config
from localchat.chat.events import Failed
from localchat.models.folders import find_model
from localchat.models.plan import LoadPlan, Mode, Precision
from localchat.tui.desk import Desk
from localchat.tui.screens.no_room import NoRoom
from localchat.tui.screens.settings import SettingsScreen
from localchat.tui.widgets.choice_row import ChoiceRow
from tests.support.shelf import stock_hub
from tests.support.shelf_heads import put_head
from tests.tui.stage import BIG, CARD, Sized, Stage, desk
from tests.tui.support import screen_text, wait_until

pytestmark = pytest.mark.anyio

NO_MEMORY = Failed("fit", "The device ran out of memory.", "Close other programs.")
Make = Callable[..., Desk]


@pytest.fixture
def make(hub: Path, tmp_path: Path) -> Iterator[Make]:
    """Makes desks, and closes them."""
    with ExitStack() as stack:
        yield lambda backend, text="", loaded=True: stack.enter_context(
            desk(tmp_path / "home", backend, plan=LoadPlan(model=BIG), text=text, loaded=loaded)
        )


def settings(desk: Desk) -> tuple[Stage, SettingsScreen]:
    screen = SettingsScreen(desk)
    return Stage(desk, screen), screen


def known(app: Stage, screen: SettingsScreen) -> Callable[[], bool]:
    """Everything has been looked for."""
    return lambda: "GiB" in app.words("title") and not screen.looking


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_what_is_loaded_stands_in_every_row(make: Make, size: tuple[int, int]) -> None:
    """Guards the first look: the rows show what is loaded, all of it on the screen, nothing cut at any size."""
    app, screen = settings(make(Sized(machine=CARD)))
    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, known(app, screen))
        names = ("model", "precision", "draft", "draft_precision", "context", "mode", "profile")
        stands = [app.row(name) for name in names]
        assert stands == ["Qwen3-8B", "bf16", "Qwen3-0.6B + lookup", "bf16", "8k", "auto", "none"]
        await wait_until(pilot, lambda: all(title in screen_text(app) for title in ("Fit for me", "Profile", "Enter")))
        assert "measured" in app.words("sum")
        assert "target 15.3" in screen_text(app)
        assert not [line for line in screen_text(app).splitlines() if len(line) > size[0]]
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.ended == [None])


async def test_arrows_answer_in_the_bar_and_enter_applies(make: Make, tmp_path: Path) -> None:
    """Guards the whole way by keyboard: right changes the figures, enter loads, the file keeps what changed."""
    backend = Sized(machine=CARD)
    desk = make(backend, text="# mine\ntemperature = 0.5\n")
    app, screen = settings(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        await pilot.press("right", "right")
        assert app.row("precision") == "nf4"
        assert "target 5.7" in app.words("legend")
        assert "•Precision" in screen_text(app)
        assert not backend.plans
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Loaded in" in app.words("told"))
        assert "target 5.7 GiB → 5.7 GiB" in app.words("told")
        assert desk.loaded is not None
        assert desk.plan.precision is Precision.NF4
        assert "•" not in screen_text(app)
        text = desk.file.path.read_text()
        assert 'precision = "nf4"' in text
        assert "# mine" in text
        assert "context" not in text
        assert desk.resolved.settings.precision == "nf4"
        await pilot.press("enter")
        await wait_until(pilot, lambda: bool(app.ended))
        assert app.ended[0] == desk.plan


async def test_the_choice_that_stands_is_always_in_sight(make: Make, hub: Path) -> None:
    """Guards a long row on a narrow screen: it slides, and no step leaves the screen."""
    stock_hub(hub, "Qwen/Qwen3-1.7B", "Qwen/Qwen3-4B", "Qwen/Qwen3-14B")
    app, screen = settings(make(Sized(machine=CARD)))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        draft = screen.query_one("#draft", ChoiceRow)
        draft.focus()
        await pilot.press("home")
        for place, cell in enumerate(draft.cells):
            await wait_until(pilot, lambda place=place: draft.chosen == place)  # type: ignore[misc]
            line = next(text for text in screen_text(app).splitlines() if "Drafting" in text)
            assert f"[{cell.sign}{cell.label}" in line
            assert cell.sign.strip() in ("✓", "✗")
            await pilot.press("right")
        assert draft.chosen == len(draft.cells) - 1 == 7


async def test_every_row_can_be_reached_on_a_tiny_screen(make: Make) -> None:
    """Guards up and down where the rows scroll: they go from row to row, and the row with the cursor is in sight."""
    app, screen = settings(make(Sized(machine=CARD)))
    async with app.run_test(size=(60, 14)) as pilot:
        await wait_until(pilot, known(app, screen))
        seen = []
        for _ in range(8):
            row = app.focused
            assert row is not None
            seen.append(row.id)
            await wait_until(pilot, lambda: "▸" in screen_text(app))
            await pilot.press("down")
        assert len(set(seen)) == 8
        assert seen[0] == app.focused.id if app.focused else False


async def test_fit_for_me_sets_every_row(make: Make) -> None:
    """Guards the three aims: one key sets all rows, and what they come to fits."""
    app, screen = settings(make(Sized(machine=CARD)))
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, known(app, screen))
        screen.query_one("#fit", ChoiceRow).focus()
        await pilot.press("home")
        assert (app.row("fit"), app.row("precision")) == ("fastest", "nf4")
        await pilot.press("right")
        assert (app.row("fit"), app.row("context")) == ("longest", "40k")
        assert "stay free" in app.words("sum")
        assert "longest conversation" in app.words("words")


async def test_what_does_not_fit_asks_first(make: Make) -> None:
    """Guards a red choice: enter shows what would fit, cheapest first; anyway is a choice; escape goes back."""
    backend = Sized(machine=CARD)
    app, screen = settings(make(backend))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        screen.query_one("#context", ChoiceRow).focus()
        await pilot.press("end")
        assert "too much" in app.words("sum")
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, NoRoom) and bool(app.screen.query(OptionList)))
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.screen is screen)
        assert not backend.plans
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, NoRoom) and bool(app.screen.query(OptionList)))
        await pilot.press("up", "up", "enter")  # from the first over the last, "back", to "anyway"
        await wait_until(pilot, lambda: bool(backend.plans))
        assert backend.plans[0].force
        assert backend.plans[0].context == 40960


async def test_a_failed_load_brings_back_what_worked(make: Make) -> None:
    """Guards against ending with nothing: a load that fails is followed by the old one, and one sentence says so."""
    backend = Sized(machine=CARD, failures=[Failed("model", "The weights are damaged.", "Download them again.")])
    desk = make(backend)
    before = desk.plan
    app, screen = settings(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        await pilot.press("right", "enter")
        await wait_until(pilot, lambda: "What worked before" in app.words("told"))
        assert app.words("told").startswith("The weights are damaged.")
        assert [plan.precision for plan in backend.plans] == [Precision.INT8, Precision.BF16]
        assert desk.loaded is not None
        assert desk.plan == before
        assert app.row("precision") == "int8"
        assert "precision" not in desk.file.path.read_text()


async def test_out_of_memory_offers_less(make: Make) -> None:
    """Guards a plan that should have fit: after an out-of-memory error smaller ones are offered, one key away."""
    backend = Sized(machine=CARD, failures=[NO_MEMORY])
    desk = make(backend)
    app, screen = settings(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        screen.query_one("#context", ChoiceRow).focus()
        await pilot.press("right", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, NoRoom) and bool(app.screen.query(OptionList)))
        assert desk.loaded is not None
        assert len(app.screen.query_one(OptionList).options) > 2
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Loaded in" in app.words("told"))
        asked, back, smaller = backend.plans
        assert (asked.context, back.context) == (16384, 8192)
        assert replace(smaller, force=False) == desk.plan or smaller.mode is Mode.AUTO
        assert smaller != asked


async def test_nothing_works_any_more(make: Make) -> None:
    """Guards a dead end: when the old setting fails too, the screen says so and stays, so another can be tried."""
    backend = Sized(machine=CARD, failures=[Failed("model", "It is damaged.", ""), Failed("engine", "It died.", "")])
    desk = make(backend)
    app, screen = settings(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        await pilot.press("right", "enter")
        await wait_until(pilot, lambda: "Nothing is loaded now" in app.words("told"))
        assert desk.loaded is None
        await pilot.press("right", "enter")
        await wait_until(pilot, lambda: "Loaded in" in app.words("told"))
        assert desk.plan.precision is Precision.NF4


async def test_escape_stops_loading(make: Make) -> None:
    """Guards cancel: escape while loading stops it, and what was loaded before comes back."""
    backend = Sized(machine=CARD, load_steps=200, load_delay=0.005)
    desk = make(backend)
    app, screen = settings(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        await pilot.press("right", "enter")
        await wait_until(pilot, lambda: "Loading the target" in screen_text(app))
        await pilot.press("left")
        assert app.row("precision") == "int8"
        backend.load_steps = 1
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Cancelled" in app.words("told"))
        assert desk.loaded is not None
        assert not app.ended


async def test_a_model_that_went_away(make: Make, hub: Path) -> None:
    """Guards a folder deleted before the screen opens, and one deleted before apply: a sentence, and another choice."""
    backend = Sized(machine=CARD, failures=[Failed("model", f"{BIG} is not on this machine.", "Get it again.")])
    desk = make(backend)
    shutil.rmtree(hub / "models--Qwen--Qwen3-8B")
    app, screen = settings(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "cannot be chosen" in app.words("sum"))
        assert not screen.query_one("#context", ChoiceRow).display
        screen.query_one("#model", ChoiceRow).focus()
        await pilot.press("end")
        await wait_until(pilot, known(app, screen))
        assert app.row("model") == "Qwen3-0.6B"
        await pilot.press("enter")
        await wait_until(pilot, lambda: "is loaded" in app.words("told"))


async def test_the_file_cannot_be_written(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards a read-only config: what was applied stays loaded, and the screen says that it was not saved."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(config, "write", refuse)
    desk = make(Sized(machine=CARD))
    app, screen = settings(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        await pilot.press("right", "enter")
        await wait_until(pilot, lambda: "could not be written (permission denied)" in app.words("told"))
        assert desk.plan.precision is Precision.INT8
        await pilot.press("s")
        await wait_until(pilot, lambda: app.screen is not screen)
        await pilot.press("x", "enter")
        await wait_until(pilot, lambda: "could not be kept" in app.words("told"))


async def test_profiles(make: Make) -> None:
    """Guards profiles: one is kept with s, another is chosen by arrows and used from then on."""
    text = '[profiles.long]\nprecision = "nf4"\ncontext = 32768\nsystem = "Be brief."\n'
    text += '[profiles.gone]\nmodel = "no/model"\n'
    desk = make(Sized(machine=CARD), text=f'model = "{BIG}"\n{text}')
    app, screen = settings(desk)
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, known(app, screen))
        screen.query_one("#profile", ChoiceRow).focus()
        await pilot.press("right")
        assert (app.row("profile"), app.row("precision"), app.row("context")) == ("long", "nf4", "32k")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Loaded in" in app.words("told"))
        assert desk.system == "Be brief."
        assert desk.resolved.profile == config.read(desk.file.path).profile == "long"
        await pilot.press("right")
        assert "not on this machine" in app.words("told")
        await pilot.press("left", "s")
        await wait_until(pilot, lambda: app.screen is not screen)
        app.screen.query_one(Input).value = "mine"
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.row("profile") == "mine")
        assert dict(dict(desk.file.profiles)["mine"])["context"] == 32768


async def test_before_anything_is_loaded(make: Make) -> None:
    """Guards settings after a failed start: the machine is asked, and a device that is not there leaves the CPU."""
    backend = Sized(machine=CARD, survey_failure=Failed("fit", "There is no GPU 7.", "Use --device cuda:0."))
    desk = make(backend, loaded=False, text='device = "cuda:7"\n')
    app, screen = settings(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "There is no GPU 7." in app.words("told"))
        backend.survey_failure = None
        await wait_until(pilot, lambda: not desk.host.busy)
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.ended == [None])
    desk = make(Sized(machine=CARD), loaded=False)
    app, screen = settings(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        assert app.row("precision") == "bf16"
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Loaded in" in app.words("told"))


async def test_a_hostile_name_is_only_text(make: Make) -> None:
    """Guards names: a profile called [red]x[/] or with control characters is shown as it is written."""
    desk = make(Sized(machine=CARD), text='[profiles."[red]x[/]\\u001b[31m"]\ncontext = 2048\n')
    app, screen = settings(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        await wait_until(pilot, lambda: "[red]x[/]␛[31m" in screen_text(app))


async def test_the_mouse_works_too(make: Make) -> None:
    """Guards clicks: on a choice, and on what the foot says."""
    app, screen = settings(make(Sized(machine=CARD)))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, known(app, screen))
        await pilot.pause()
        line = next(text for text in screen_text(app).splitlines() if "Precision" in text)
        await pilot.click("#precision", offset=(line.index("nf4") - 1, 0))
        await wait_until(pilot, lambda: app.row("precision") == "nf4")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_a_head_is_chosen_like_a_draft_model(make: Make, hub: Path, home: Path, size: tuple[int, int]) -> None:
    """Guards heads in the drafting row: named, marked where the target has changed, explained with what was accepted in
    training; one that does not match is told of; the chosen one is loaded and kept, its precision is the target's."""
    target = find_model(BIG).folder
    heads = home / "data" / "heads"
    put_head(heads / "an-eagle", "eagle", target, name=BIG, acceptance=[[0.71, 0.1], [0.62, 0.1]])
    put_head(heads / "medusa", "medusa", target, name=BIG, changed=True)
    put_head(heads / "wrong", "eagle", find_model("Qwen/Qwen3-0.6B").folder, name=BIG)
    desk = make(Sized(machine=CARD))
    app, screen = settings(desk)
    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, known(app, screen))
        draft = screen.query_one("#draft", ChoiceRow)
        draft.focus()
        await pilot.press("home", "right")
        await wait_until(pilot, lambda: "wrong cannot draft here: it was made for another size." in app.words("words"))
        labels = [cell.label for cell in draft.cells]
        assert labels[4:] == ["an-eagle + lookup", "an-eagle", "! medusa + lookup", "! medusa"]
        await pilot.press("end")
        await wait_until(pilot, lambda: "Target has changed: medusa was trained on" in app.words("words"))
        await pilot.press("left", "left", "left")
        await wait_until(pilot, lambda: "In training 71 62 % were, place by place" in app.words("words"))
        assert app.row("draft") == "an-eagle + lookup"
        assert not screen.query_one("#draft_precision", ChoiceRow).display
        assert not [line for line in screen_text(app).splitlines() if len(line) > size[0]]
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Loaded in" in app.words("told"))
    assert (desk.plan.draft, desk.plan.draft_model) == ("mixed", "an-eagle")
    assert desk.resolved.settings.draft_model == "an-eagle"
    assert "draft_precision =" not in config.read(desk.file.path).text.replace("# draft_precision =", "")
