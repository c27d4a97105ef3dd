"""The live panel, its bars and the two lines that stand in for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from textual.app import App, ComposeResult
from textual.strip import Strip

from localchat.chat.events import Failed, Finished, Loading, Prefilling, Usage, Wrote
from localchat.engine.types import SourceCount
from localchat.models.memory import GIB, MIB, MemoryPlan
from localchat.tui import sections, theme
from localchat.tui.figures import Line, apportion, duration, fit, joined, rate, ratio, rule, spread, width_of, wrap
from localchat.tui.live import Live
from localchat.tui.round_strip import strip_lines
from localchat.tui.sources import sources_of
from localchat.tui.widgets import memory_bar
from localchat.tui.widgets.lines import Lines
from localchat.tui.widgets.memory_bar import MemoryBar
from localchat.tui.widgets.panel import Panel, panel_lines
from localchat.tui.widgets.status_line import StatusLine
from localchat.tui.widgets.title_bar import TitleBar
from tests.support.backend import PLAN, Scripted
from tests.support.rounds import STORY, a_round, events, heard, loaded, story
from tests.tui.support import screen_text, wait_until

SIZES = [(30, 20), (31, 22), (31, 38), (31, 48), (46, 30), (78, 21), (118, 30), (20, 8)]
CARD = Usage(
    target=6 * GIB,
    draft=GIB,
    target_cache=2 * GIB,
    draft_cache=GIB // 2,
    process=10 * GIB,
    device_free=12 * GIB,
    device_total=24 * GIB,
)
HOSTILE = "\x1b]52;c;AAAA\x07[bold red]x[/]\u202edcba\x9b31m\x00\n\r\t" * 20


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


def text_of(lines: list[Line]) -> str:
    """What stands on the lines."""
    return "\n".join("".join(text for text, _ in line) for line in lines)


def gone_wrong() -> Live:
    """An engine that has ended."""
    return story().hear(Failed("engine", "The engine was killed.", "Press alt+z to start it again."), 1.0)


STATES: dict[str, Callable[[], Live]] = {
    "empty": Live,
    "loading": lambda: Live().hear(Loading("reading weights", 3, 4), 0.0),
    "ready": loaded,
    "asked": lambda: loaded().begin(accelerate=True, now=0.0),
    "prefilling": lambda: loaded().begin(accelerate=True, now=0.0).hear(Prefilling(30, 120), 0.1),
    "writing": lambda: story(finished=False),
    "stopping": lambda: story(finished=False).stopping(),
    "finished": story,
    "plain": lambda: story(accelerate=False),
    "dead": gone_wrong,
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", STATES)
def test_the_panel_fits_its_place(state: str, size: tuple[int, int]) -> None:
    """Guards against clipped figures: no line is wider than the panel, and none is below its end."""
    width, height = size
    lines = panel_lines(STATES[state](), width, height)
    assert len(lines) <= height
    assert all(width_of(line) <= width for line in lines)


@pytest.mark.parametrize("size", [(31, 22), (31, 38), (78, 21)])
def test_every_figure_is_there(size: tuple[int, int]) -> None:
    """Guards design 7: each of the panel's figures is on it at every size that is laid out with a panel."""
    text = text_of(panel_lines(story(), *size))
    for word in ("Drafting paid off", "speed", "plain", "saved", "rounds", "accepted", "by place", "lookup", "target"):
        assert word in text
    for word in ("governor", "lookup, 3 deep", "draft", "verify", "host", "memory", "free", "first token", "total"):
        assert word in text
    assert "2.7×" in text
    assert "273 tok/s" in text
    assert "67 %" in text


def test_nothing_jumps_while_a_reply_is_written() -> None:
    """Guards a calm panel: from the first round on each name keeps its line, whatever the rounds bring."""

    def names(live: Live) -> list[str]:
        firsts = [line[0][0].strip() for line in panel_lines(live, 31, 38) if line]
        return [first for first in firsts if first.isalpha() or first.endswith("%")]

    live = loaded().begin(accelerate=True, now=0.0)
    waits = "lookup parked: accepted 3%, pays above 12%; model waits: reading 400 tokens first must pay"
    seen = []
    for number in range(12):
        reason = (waits, "model, 3 deep", "nothing to draft")[number % 3]
        live = live.hear(a_round(number, "ab", reason=reason), 0.0)
        seen.append(names(live))
    assert all(rows == seen[0] for rows in seen)
    assert "governor" in seen[0]


def test_the_panel_says_what_is_the_matter() -> None:
    """Guards the words: parked, off, loading and ended must each be told apart at a glance."""
    live = loaded().begin(accelerate=True, now=0.0)
    for number in range(6):
        live = live.hear(a_round(number, source="", parked=True, reason="model parked: pays above 60%"), 0.0)
    parked = text_of(panel_lines(live, 31, 38))
    assert "◐ Parked: plain is faster" in parked
    assert "above 60%" in parked
    assert "○ Drafting was off" in text_of(panel_lines(story(accelerate=False), 31, 38))
    assert "75 %" in text_of(panel_lines(STATES["loading"](), 31, 38))
    assert "alt+z" in text_of(panel_lines(gone_wrong(), 31, 38))
    assert "25 %" in text_of(panel_lines(STATES["prefilling"](), 31, 38))


def test_rounds_stand_solid_and_hatched() -> None:
    """Guards the strip of rounds: own token at the bottom, accepted ones on it, rejected ones hatched above."""
    rounds = [a_round(0, "abc").round, a_round(1, "a", rejected="bc").round, a_round(2, source="").round]
    lines = strip_lines(rounds, 5, 2)
    assert text_of(lines) == "  █▒ \n  ▄▄▄"
    assert [style for _, style in lines[0][1:]] == ["$source-model", "$rejected", ""]
    assert [style for _, style in lines[1][1:]] == ["$muted on $source-model", "$muted"]
    assert text_of(strip_lines([a_round(0, "a" * 15).round, rounds[1], rounds[2]], 3, 1)) == "█▁▁"


def test_a_lost_reply_is_not_called_saved() -> None:
    """Guards honesty: seconds lost are said to be lost."""
    live = loaded().begin(accelerate=True, now=0.0)
    for number in range(100):
        live = live.hear(a_round(number, "", rejected="abc"), 0.0)
    text = text_of(panel_lines(live, 31, 38))
    assert "lost" in text
    assert "saved" not in text


def test_memory_adds_up() -> None:
    """Guards the memory bar: its parts are all there is, and it is filled to the last cell."""
    parts = memory_bar.measured(CARD)
    assert sum(part.bytes for part in parts) == CARD.device_total
    assert [part.bytes for part in parts if part.name == "other programs"] == [2 * GIB]
    assert memory_bar.used_share(parts) == 0.5
    for width in (5, 24, 60):
        assert width_of(memory_bar.bar(parts, width)) == width
    assert text_of([memory_bar.bar(parts, 24)]) == "██████▓▓▒░╱╱············"
    assert len({part.hatch for part in parts}) == len(parts), "each part reads without colour"


def test_a_small_model_on_a_large_machine_still_shows() -> None:
    """Guards the starter on a big machine: what the engine takes is never rounded away."""
    tiny = replace(CARD, target=20 * MIB, draft=3 * MIB, target_cache=MIB, draft_cache=MIB, process=30 * MIB)
    tiny = replace(tiny, device_free=24 * GIB - 30 * MIB)
    assert text_of([memory_bar.bar(memory_bar.measured(tiny), 20)]).startswith("█·")


def test_a_plan_that_does_not_fit_leaves_nothing_free() -> None:
    """Guards the settings' bar: reserve counts as free, but not where it is already eaten."""
    fits = memory_bar.planned(PLAN, total=2 * 10**9)
    assert sum(part.bytes for part in fits) == 2 * 10**9
    tight = MemoryPlan(900, 0, 200, 0, 30, 100, 1000, 1, 1, "nf4", "")
    assert [part.bytes for part in memory_bar.planned(tight) if part.name == "free"] == [0]


def test_hostile_names_stay_text() -> None:
    """Guards the terminal: names, stages, reasons and problems from files and models are data."""
    live = loaded()
    assert live.loaded
    live = replace(live, loaded=replace(live.loaded, model_name=HOSTILE, draft_name=HOSTILE))
    live = live.begin(accelerate=True, now=0.0).hear(a_round(0, "ab", source=HOSTILE, reason=HOSTILE), 0.1)
    bad = Live().hear(Failed("engine", HOSTILE, HOSTILE), 0.0)
    staged = Live().hear(Loading(HOSTILE), 0.0)
    for state in (live, bad, staged):
        shown = text_of(panel_lines(state, 31, 38))
        for bar in (TitleBar(), StatusLine()):
            bar.show(state)
            shown += text_of(list(bar.draw(100, 1)))
        assert not {"\x1b", "\x9b", "\x00", "\r", "\u202e", "\x07"} & set(shown)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("width", [20, 38, 78, 118])
def test_the_lines_fit(state: str, width: int) -> None:
    """Guards 80 columns and fewer: title and status are cut between figures, never within the screen's edge."""
    for bar in (TitleBar(), StatusLine()):
        bar.show(STATES[state]())
        lines = bar.draw(width, 1)
        assert len(lines) == 1
        assert width_of(lines[0]) <= width


def test_the_title_names_what_runs() -> None:
    """Guards the top line of design 7."""
    bar = TitleBar()
    bar.show(story(), title="Tell me.")
    text = text_of(list(bar.draw(110, 1)))
    assert text.startswith("localchat · starter fp32 · draft small · 1k · fast · Tell me.")
    assert text.endswith("▲ on · 2.7× · 273 tok/s")


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (rate(0), "–"), (rate(9.94), "9.9"), (rate(84.4), "84"), (ratio(2.06), "2.1×"), (ratio(0), "–"),
        (ratio(float("inf")), "–"), (duration(0.2), "0.20 s"), (duration(3.44), "3.4 s"), (duration(59.9), "1:00 min"),
        (duration(7500), "2:05 h"), (fit("Qwen漢字", 6), "Qwen…"), (fit("ab", 1), "…"),
    ],
)  # fmt: skip
def test_figures(shown: str, words: str) -> None:
    """Guards the looks of numbers: short, with a unit, and no "nan" or "inf" on the screen."""
    assert shown == words


def test_lines_are_composed_to_a_width() -> None:
    """Guards the aligned columns: parts at both ends, wrapped words, dots between parts, rounding that adds up."""
    assert text_of([spread((("left", ""), (" more", "")), (("right", ""),), 12)]) == "left…  right"
    assert wrap("one two three four", 9, 2) == ["one two", "three fo…"]
    assert wrap("", 9, 2) == [""]
    assert text_of([joined([(("a", ""),), (("bb", ""),), (("ccc", ""),)], 8)]) == "a · bb"
    assert apportion([1 / 3] * 3, 10) == [3, 4, 3]
    assert text_of([rule(0.25, 10, "$accent")]) == "━━╸───────"


class Gallery(App[None]):
    """All of them at once."""

    CSS = "Panel { height: 1fr; }"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colours without our themes."""
        return theme.defaults()

    def compose(self) -> ComposeResult:
        """A title, a panel, a bar, a status."""
        yield TitleBar()
        yield Panel()
        yield MemoryBar()
        yield StatusLine()


@pytest.mark.anyio
async def test_only_what_changed_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the cost of a frame: a round that changes three figures must not draw thirty lines, nor lay out any."""
    app = Gallery()
    async with app.run_test(size=(80, 42)) as pilot:
        panel = app.query_one(Panel)
        live = story(finished=False)
        panel.show(live)
        await pilot.pause()
        drawn: list[int] = []
        render = Lines.render_line

        def counted(self: Lines, y: int) -> Strip:
            drawn.append(y)
            return render(self, y)

        monkeypatch.setattr(Lines, "render_line", counted)
        panel.show(live)
        await pilot.pause()
        assert not drawn
        panel.show(live.hear(a_round(live.stats.rounds, "ab", source="lookup"), 200.0))
        await wait_until(pilot, lambda: bool(drawn))
        assert len(drawn) < len(panel.lines)


@pytest.mark.anyio
async def test_it_follows_size_and_theme() -> None:
    """Guards resizing and theme changes while nothing arrives: figures are laid out anew, colours are the new ones."""
    app = Gallery()
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one(TitleBar).show(story())
        app.query_one(StatusLine).show(story())
        app.query_one(Panel).show(story())
        app.query_one(MemoryBar).show(*memory_bar.measured(CARD))
        await wait_until(pilot, lambda: "50 %" in screen_text(app) and "Drafting paid off" in screen_text(app))
        before = app.query_one(StatusLine).render_line(0)
        app.theme = "textual-light"
        await pilot.resize_terminal(40, 30)
        await wait_until(pilot, lambda: app.query_one(Panel).size.width < 40)
        await wait_until(pilot, lambda: "governor" in screen_text(app))
        assert [segment.style for segment in app.query_one(StatusLine).render_line(0)] != [
            segment.style for segment in before
        ]


@pytest.mark.anyio
async def test_a_hidden_panel_catches_up() -> None:
    """Guards hiding and showing the panel: while hidden it costs nothing, and then it shows what is true now."""
    app = Gallery()
    async with app.run_test(size=(80, 42)) as pilot:
        panel = app.query_one(Panel)
        panel.show(loaded())
        await wait_until(pilot, lambda: "Ready" in screen_text(app))
        panel.display = False
        await wait_until(pilot, lambda: "Ready" not in screen_text(app))
        lines = panel.lines
        panel.show(story())
        assert panel.lines == lines
        panel.display = True
        await wait_until(pilot, lambda: "Drafting paid off" in screen_text(app))


def test_many_sources_have_a_row_each() -> None:
    """Guards drafters that are not known here: their counts are shown under their own names."""
    live = story()
    live = replace(live, stats=replace(live.stats, by_source=(("eagle", SourceCount(9, 6, 3)), ("new", SourceCount()))))
    text = text_of(panel_lines(live, 31, 48))
    assert "eagle" in text
    assert "6 of 9" in text
    assert "new" in text


@pytest.mark.parametrize(
    ("draft", "kind", "names"),
    [
        ("mixed", "eagle", ("lookup", "eagle")),
        ("mixed", "", ("lookup", "model")),
        ("medusa", "medusa", ("medusa",)),
        ("lookup", "", ("lookup",)),
        ("off", "", ()),
    ],
)
def test_sources_that_may_come_have_a_row(draft: str, kind: str, names: tuple[str, ...]) -> None:
    """Guards the panel's height: a source has its row before its first draft, so nothing moves when it comes."""
    live = loaded()
    assert live.loaded is not None
    live = replace(live, loaded=replace(live.loaded, plan=replace(live.loaded.plan, draft=draft), draft_kind=kind))
    assert sources_of(live.loaded) == names
    rows = ["".join(text for text, _ in line) for line in sections.sources(live, 31)]
    assert [row.split()[1] for row in rows] == [*names, "target"]


def test_a_whole_reply_ends_as_it_was_written() -> None:
    """Guards against figures that change by themselves at the end: counts come out the same."""
    backend = Scripted(STORY)
    said = events(backend)
    rounds = [event for event in said if isinstance(event, Wrote)]
    during, after = heard(loaded(), rounds), heard(loaded(), said)
    assert isinstance(said[-1], Finished)
    assert (during.stats.tokens, during.stats.by_source) == (after.stats.tokens, after.stats.by_source)
