"""Themes: data that is checked, colours that can be read, and changes seen while the app runs."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.color import Color
from textual.widgets import Markdown, Static
from typer.testing import CliRunner

from localchat import config, paths
from localchat.cli import app as cli
from localchat.tui import palette, theme
from localchat.tui.palette import Palette, colour_of, contrast
from localchat.tui.syntax import Fence
from tests.tui.support import wait_until

BUILT_IN = tuple(found for found in palette.every() if found.path.parent != palette.user_folder())
COLOURED = [found for found in BUILT_IN if not found.ansi]
SOURCES = ("source-lookup", "source-model", "source-head", "source-other", "corrected")
STATES = ("success", "warning", "error")

Matrix = tuple[tuple[float, float, float], ...]
EYES: dict[str, Matrix] = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""What a colour becomes in linear RGB for an eye without one kind of cone (Machado, Oliveira, Fernandes 2009)."""
USUAL: Matrix = ((1, 0, 0), (0, 1, 0), (0, 0, 1))

USER = 'name = "mine"\ndark = true\n[colours]\nbackground = "#101010"\ntext = "#f0f0f0"\naccent = "#80c0ff"\n'


@pytest.fixture
def mine(home: Path) -> Path:
    """The folder of the user's own themes."""
    folder = palette.user_folder()
    assert folder.is_relative_to(home)
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


class Sample(App[None]):
    """A screen with our themes."""

    CSS = """
    #accepted { color: $accepted; background: $background; }
    #free { background: $gauge-free; color: $on-accent; border: solid $rule; }
    """

    def __init__(self, wanted: str = "dark") -> None:
        super().__init__()
        self.notices = theme.register_all(self, wanted)
        self.said: list[str] = []

    def compose(self) -> ComposeResult:
        """Text and code in our colours."""
        yield Static("x", id="accepted")
        yield Static("x", id="free")
        yield Code("```python\nif True:  # why\n    x = 1\n```")

    def notify(self, message: str, **options: Any) -> None:
        """Keep what is said."""
        self.said.append(message)

    def colour(self) -> str:
        """The colour of the text."""
        return self.query_one("#accepted").styles.color.hex.lower()


class Code(Markdown):
    """Markdown with our code blocks."""

    BLOCKS = {**Markdown.BLOCKS, "fence": Fence}  # noqa: RUF012 - as textual has it


def named(name: str) -> Palette:
    """A built-in theme."""
    return next(found for found in BUILT_IN if found.name == name)


def difference(first: str, second: str, eye: Matrix) -> float:
    """How different two colours look to an eye: the distance in CIELAB (CIE 1976)."""
    return float(sum((a - b) ** 2 for a, b in zip(_lab(first, eye), _lab(second, eye), strict=True)) ** 0.5)


def _lab(colour: str, eye: Matrix) -> tuple[float, float, float]:
    values = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    r, g, b = (min(1.0, max(0.0, sum(a * c for a, c in zip(row, linear, strict=True)))) for row in eye)
    white = (0.95047, 1.0, 1.08883)
    xyz = (
        0.4124 * r + 0.3576 * g + 0.1805 * b,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        0.0193 * r + 0.1192 * g + 0.9505 * b,
    )
    x, y, z = (
        t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116
        for t in (value / whole for value, whole in zip(xyz, white, strict=True))
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_the_themes_that_are_promised_are_there() -> None:
    """Guards against a theme that the documentation names and nobody ships."""
    names = {found.name for found in BUILT_IN}
    assert {"dark", "light", "high-contrast", "colour-blind", "colour-blind-light", "terminal"} <= names
    assert all(found.path.stem == found.name and found.about for found in BUILT_IN)
    assert [found.problems for found in BUILT_IN if found.problems] == []


@pytest.mark.parametrize("found", COLOURED, ids=lambda found: found.name)
def test_everything_can_be_read(found: Palette) -> None:
    """Guards against text below 4.5:1 and marks below 3:1 on any ground they may lie on."""
    assert palette.faint(found) == ()
    of = colour_of(found.colours) if found.colours else None
    assert of is not None
    least = 7.0 if found.name.startswith("high-contrast") else 4.5
    for role in (
        "text",
        "muted",
        "accent",
        "source-lookup",
        "source-model",
        "source-head",
        "source-other",
        "corrected",
    ):
        assert contrast(of(role), of("background")) >= least, role
    assert contrast(of("background"), of("accent")) >= 4.5, "text on the accent"
    assert (contrast(of("background"), "#000000") < contrast(of("background"), "#ffffff")) is found.dark


@pytest.mark.parametrize("found", COLOURED, ids=lambda found: found.name)
def test_colours_that_mean_different_things_look_different(found: Palette) -> None:
    """Guards against two sources, states or parts of memory that nobody can tell apart."""
    assert found.colours is not None
    of = colour_of(found.colours)
    for roles, least in ((SOURCES, 18), (STATES, 20), (palette.GAUGES, 15)):
        for first, second in combinations(roles, 2):
            assert difference(of(first), of(second), USUAL) >= least, (first, second)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("name", ["colour-blind", "colour-blind-light"])
def test_the_colour_blind_themes_stay_apart_for_every_eye(name: str, eye: str) -> None:
    """Guards against a theme that only claims to suit eyes that lack a kind of cone."""
    colours = named(name).colours
    assert colours is not None
    of = colour_of(colours)
    for roles in (SOURCES, STATES, palette.GAUGES):
        for first, second in combinations(roles, 2):
            assert difference(of(first), of(second), EYES[eye]) >= 15, (first, second)


def test_contrast_is_that_of_the_standard() -> None:
    """Guards the formula with the two values everybody knows, and against textual's measure of brightness."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.anyio
async def test_the_app_starts_without_any_theme_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a screen that needs its data files to say that they are gone."""
    monkeypatch.setattr(palette, "folders", lambda: ())
    app = Sample()
    async with app.run_test():
        assert app.theme == "dark"


def test_three_colours_make_a_theme(mine: Path) -> None:
    """Guards short themes of the user's: what is derived can be read too, in the dark and in the light."""
    (mine / "mine.toml").write_text(USER, encoding="utf-8")
    light = (
        USER.replace("true", "false")
        .replace("101010", "fdfdfd")
        .replace("f0f0f0", "202020")
        .replace("80c0ff", "1050a0")
    )
    (mine / "light-mine.toml").write_text(light.replace('"mine"', '"light-mine"'), encoding="utf-8")
    found = {one.name: one for one in palette.every()}
    assert palette.faint(found["mine"]) == palette.faint(found["light-mine"]) == ()


def test_every_problem_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    """Guards against mending a theme one error at a time."""
    path = tmp_path / "x.toml"
    path.write_text('name = 3\nfont = "x"\n[colours]\ntext = "red"\nacccent = "#000000"\nmuted = 4\n', encoding="utf-8")
    found = palette.read(path)
    text = " ".join(found.problems)
    assert found.colours is None
    for part in ("name", "dark", "font", "colours.text", "did you mean accent", "colours.background", "colours.muted"):
        assert part in text
    assert palette.read(tmp_path / "none.toml").problems
    path.write_bytes(b"\xff\xfe")
    assert palette.read(path).problems


@pytest.mark.anyio
@pytest.mark.parametrize("found", BUILT_IN, ids=lambda found: found.name)
async def test_every_theme_paints_every_part(found: Palette) -> None:
    """Guards against a colour that textual or our styles know and one theme lacks, which would end the app."""
    app = Sample(found.name)
    async with app.run_test() as pilot:
        assert app.notices == []
        assert app.theme == found.name
        await wait_until(pilot, lambda: bool(app.query(Fence)))
        code = app.query_one(Fence)._highlighted_code
        assert {"$syntax-keyword", "$syntax-number"} <= {span.style for span in code.spans}
        if found.colours is not None and not found.ansi:
            assert app.colour() == found.colours.accepted


@pytest.mark.anyio
async def test_textuals_own_themes_are_gone() -> None:
    """Guards against choosing one in the command palette: they lack our colours, and the app would end."""
    app = Sample("nord")
    assert app.theme == "dark"
    assert len(app.notices) == 1
    assert set(app.available_themes) == {found.name for found in BUILT_IN}
    names = theme.defaults()
    assert {role for role in palette.ROLES if role.startswith(("source", "gauge", "syntax"))} <= set(names)
    assert all(Color.parse(value) for value in names.values())


@pytest.mark.anyio
async def test_a_wrong_name_or_file_is_said_and_the_default_used(mine: Path) -> None:
    """Guards the start: a broken theme is one sentence with its file, never a crash."""
    (mine / "bad.toml").write_text("name = ", encoding="utf-8")
    app = Sample("drak")
    async with app.run_test():
        assert app.theme == "dark"
        assert any("'drak'" in said and "did you mean dark" in said for said in app.notices)
        assert any("bad.toml" in said for said in app.notices)
    assert len(Sample("bad").notices) == 1


@pytest.mark.anyio
async def test_a_broken_copy_of_a_built_in_theme_does_not_hide_it(mine: Path) -> None:
    """Guards against losing `dark` while one's own dark.toml is being written."""
    (mine / "dark.toml").write_text('name = "dark"\n', encoding="utf-8")
    app = Sample("dark")
    async with app.run_test():
        assert app.theme == "dark"
        assert any("dark.toml" in said for said in app.notices)


@pytest.mark.anyio
async def test_a_change_of_a_file_is_seen_at_once(mine: Path) -> None:
    """Guards live reload: a new file can be chosen, a change shows, a mistake is said and changes nothing."""
    app = Sample()
    async with app.run_test() as pilot:
        watcher = theme.Watcher(app)
        path = mine / "mine.toml"
        path.write_text(USER + 'accepted = "#00ff00"\n', encoding="utf-8")
        watcher.look()
        assert theme.choose(app, "mine") == ""
        await wait_until(pilot, lambda: app.colour() == "#00ff00")
        path.write_text(USER + 'accepted = "#ffff00"\n', encoding="utf-8")
        os.utime(path, ns=(1, 1))
        watcher.look()
        await wait_until(pilot, lambda: app.colour() == "#ffff00")
        path.write_text("name = ", encoding="utf-8")
        os.utime(path, ns=(2, 2))
        watcher.look()
        assert len(app.said) == 1
        path.unlink()
        watcher.look()
        assert app.theme == "mine"
        assert app.colour() == "#ffff00"


@pytest.mark.anyio
async def test_a_choice_is_kept(mine: Path) -> None:
    """Guards against a theme that is forgotten at the end, and against a folder that cannot be written to."""
    app = Sample()
    async with app.run_test():
        assert theme.keep(app, "light", paths.config_file()) == ""
        assert dict(config.read(paths.config_file()).values)["theme"] == "light"
        paths.config_file().write_text("theme = 'dark'\nbroken", encoding="utf-8")
        problem = theme.keep(app, "dawn", paths.config_file())
        assert app.theme == "dawn"
        assert "until you leave" in problem


def test_a_theme_that_is_hard_to_read_is_told_with_figures(mine: Path) -> None:
    """Guards `localchat themes validate`: contrast is checked for the user's themes too, and names the pair."""
    (mine / "mine.toml").write_text(USER + 'muted = "#303030"\n', encoding="utf-8")
    result = CliRunner().invoke(cli, ["themes", "validate"])
    assert result.exit_code == 2
    assert "muted on panel has contrast" in result.output
    (mine / "mine.toml").write_text(USER, encoding="utf-8")
    assert CliRunner().invoke(cli, ["themes", "validate"]).exit_code == 0
    assert '"name": "mine"' in CliRunner().invoke(cli, ["themes", "list", "--json"]).output
