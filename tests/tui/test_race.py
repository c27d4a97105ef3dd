"""Replaying a race: rows of text, times, speeds."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from rich.cells import cell_len

from localchat.bench import runner
from localchat.bench.compare import Sameness, Verdict
from localchat.bench.comparison import Moment, Race, Side
from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.models.plan import LoadPlan
from localchat.tui import race
from localchat.tui.figures import width_of
from localchat.tui.widgets.bar_chart import bar
from localchat.tui.widgets.race_pane import breaks
from tests.support.backend import Scripted


def a_side(*moments: Moment) -> Side:
    """A side with these moments."""
    return Side("mixed", moments, sum(m.tokens for m in moments), 10.0, 0.1, 2.0, 4, 2, (0.5,), 100, 10)


def test_breaks_cover_the_text_and_fit_the_width() -> None:
    """Guards against text that is lost or cut at the edge of a pane: wide characters, tabs, long words, blank lines."""
    text = "Hello wide 漢字漢字漢字 world\n\n\tindented line that is long\nsupercalifragilisticexpialidocious x\n"
    for width in (3, 7, 12, 80):
        rows = breaks(text, width)
        assert rows[0] == 0
        assert rows == sorted(set(rows))
        parts = [text[a:b] for a, b in pairwise(rows)]
        assert "".join(parts) == text
        assert all(cell_len(part.rstrip().replace("\t", "    ")) <= max(width, 4) for part in parts)
    assert breaks("", 10) == [0, 0]


def test_a_huge_line_is_broken_quickly() -> None:
    """Guards against a screen that freezes over a line of a megabyte."""
    begun = time.perf_counter()
    assert len(breaks("x" * 1_000_000, 50)) == 20_001
    assert time.perf_counter() - begun < 5.0


def test_a_track_shows_what_was_there() -> None:
    """Guards against a replay that runs ahead of what was measured."""
    track = race.Track(a_side(Moment(0.1, "one ", 1), Moment(0.3, "two three", 2, 4), Moment(0.4, "", 0)))
    assert [track.characters(at) for at in (0.0, 0.1, 0.29, 0.3, 9.0)] == [0, 4, 4, 13, 13]
    assert [track.tokens(at) for at in (0.0, 0.2, 0.5)] == [0, 1, 3]
    assert track.own() == ((8, 13),)


@pytest.mark.parametrize(
    ("seconds", "speed", "said"),
    [
        (0.3, 0.05, "20× slower than it was"),
        (6.0, 1.0, "as fast as it was"),
        (60.0, 10.0, "10× faster than it was"),
    ],
)
def test_a_replay_can_be_watched(seconds: float, speed: float, said: str) -> None:
    """Guards against a race that is over before it is seen, or takes minutes; its pace is said."""
    side = a_side(Moment(seconds, "x", 1))
    shown = Race("story", "?", 1.0, Sameness(Verdict.SAME), side, side)
    assert race.replay_speed(shown) == speed
    assert race.speed_words(speed) == said


def test_chart_colours_come_from_the_theme() -> None:
    """Guards against a picture in colours that nobody can read: names of the terminal's own colours are not known."""
    variables = {"background": "#101010", "foreground": "#eeeeee", "primary": "#8080ff", "muted": "auto 50%"}
    assert race.colours(variables).background == "#101010"
    assert race.colours(variables).fast == "#8080ff"
    assert race.colours({"background": "ansi_default", "primary": "#8080ff"}) == race.colours({})


@pytest.mark.parametrize("runs", [1, 6])
@pytest.mark.parametrize("room", [6, 7, 23, 90])
@pytest.mark.parametrize(
    ("low", "middle", "high"), [(0.0, 0.0, 0.0), (0.4, 0.6, 4.9), (1.0, 1.0, 1.0), (2.9, 3.0, 5.0)]
)
def test_a_bar_fills_its_room_exactly(low: float, middle: float, high: float, room: int, runs: int) -> None:
    """Guards against figures that are pushed out of line, and a bar that hides that it is slower than plain."""
    pair = runner.summary(pairs_of(Scripted()), 1.0)
    result = replace(pair, speedup=runner.Spread(middle, low, high), runs=runs)
    line = bar(result, room, 5.0)
    assert width_of(line) == room
    assert any("$warning" in style for _, style in line) is (middle < 1)


def pairs_of(backend: Scripted) -> list[runner.Pair]:
    """A short measurement."""
    task = runner.Task("story", Conversation().user("?"))
    trial = runner.Trial((task,), ("mixed",), ReplyOptions())
    events = runner.measure(backend, trial, backend.loaded(LoadPlan()))
    return [event for event in events if isinstance(event, runner.Pair) and event.method == "mixed"]
