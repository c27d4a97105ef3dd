"""The token strip and the screen that opens a reply as tokens."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App

from localchat.chat.events import Finished, Wrote
from localchat.chat.records import Written
from localchat.engine.types import Origin
from localchat.tui import explain, theme
from localchat.tui.figures import MUTED
from localchat.tui.screens.tokens import TokensScreen
from localchat.tui.token_text import CORRECTION, REJECTED, Flow, Piece, round_pieces, styled, visible
from localchat.tui.widgets.token_strip import TokenStrip
from localchat.tui.widgets.token_view import TokenView
from tests.support.backend import Scripted
from tests.support.rounds import STORY, a_round, events, heard, loaded, renumbered
from tests.tui.support import screen_text, wait_until

ESCAPES = ["\x1b[31m", "\x1b]52;c;AAAA\x07", "\x00", "\x9b"]
HOSTILE = [*ESCAPES, "[bold]", "[/]", "\u202e", "\u200b", "", "\ud800", "é" * 999]


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


def written(text: str = STORY, rounds: tuple[Wrote, ...] = ()) -> Written:
    """A reply as the store keeps it, with these rounds or the script's."""
    said = events(Scripted(text))
    last = said[-1]
    assert isinstance(last, Finished)
    return Written(last.reply, rounds or tuple(event for event in said if isinstance(event, Wrote)), 0)


class Reader(App[None]):
    """Shows a reply as tokens."""

    def __init__(self, reply: Written) -> None:
        super().__init__()
        self.reply = reply

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colours without our themes."""
        return theme.defaults()

    def on_mount(self) -> None:
        """Open it."""
        self.push_screen(TokensScreen(self.reply))

    @property
    def view(self) -> TokenView:
        """The tokens."""
        return self.screen.query_one(TokenView)


def branching() -> Wrote:
    """A round of a tree: two accepted to the end of their branch, one beside them rejected."""
    wrote = a_round(4, "ab", "c", "d")
    return replace(wrote, round=replace(wrote.round, origins=("model", "model", Origin.BONUS)))


def test_a_round_reads_as_it_happened() -> None:
    """Guards the story: accepted tokens underlined, then what was rejected struck through, then the correction."""
    wrote = a_round(0, [" an", " old"], " map", [" hat", " on"], source="lookup")
    shown = [(piece.text, piece.style) for piece in round_pieces(wrote, 7)]
    copied = "underline italic $source-lookup"
    assert shown == [
        (" an", copied), (" old", copied), (" hat", REJECTED), (" on", REJECTED), (" map", CORRECTION),
    ]  # fmt: skip
    assert [piece.token for piece in round_pieces(wrote, 7)] == [7, 8, -1, -1, 9]


def test_a_tree_keeps_the_text_readable() -> None:
    """Guards the strip against trees: of many rejected tokens eight are shown, and how many more there were."""
    shown = list(round_pieces(a_round(0, ["a"], "b", [f" {number}" for number in range(20)], source="eagle"), 0))
    assert [piece.text for piece in shown] == ["a", *(f" {number}" for number in range(8)), " +12", "b"]
    assert shown[0].style == "underline $source-head"
    assert shown[-2].style == MUTED


def test_kinds_of_token_differ_without_colour() -> None:
    """Guards screens without colour: accepted, copied, rejected and the target's own each have their own look."""
    looks = {
        frozenset(word for word in style.split() if not word.startswith("$"))
        for wrote in (a_round(0, "a", "x", "r"), a_round(1, "a", source="lookup"))
        for _, style in ((piece.text, piece.style) for piece in round_pieces(wrote, 0))
    }
    assert looks == {frozenset({"underline"}), frozenset({"strike"}), frozenset(), frozenset({"underline", "italic"})}


def test_a_round_without_pieces_still_shows_its_text() -> None:
    """Guards backends that do not say the text of each token."""
    wrote = replace(a_round(0, ["a"], "b"), pieces=())
    assert [piece.text for piece in round_pieces(wrote, 0)] == ["ab"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_tokens_are_visible_and_harmless(text: str) -> None:
    """Guards the terminal: nothing reaches it raw, nothing is invisible, nothing is endless."""
    shown = visible(text)
    assert 0 < cell_len(shown) <= 121
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or char == "\u202e" for char in shown)
    assert not any(0xD800 <= ord(char) < 0xE000 for char in shown)


@given(st.lists(st.text(st.sampled_from("a b漢é\n👍🏽[]"), min_size=1, max_size=9), max_size=60), st.integers(2, 30))
def test_tokens_flow_into_a_width(texts: list[str], width: int) -> None:
    """Guards the right edge: no line is wider than the widget, and nothing but spaces at a line's start is lost."""
    flow = Flow(width)
    for number, text in enumerate(texts):
        flow.add(Piece(visible(text), "", number))
    lines = ["".join(piece.text for piece in line) for line in flow.lines]
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(map(visible, texts)).replace(" ", "")


def test_the_strip_never_moves_what_it_showed() -> None:
    """Guards a readable stream: laid step by step or at once, the lines are the same, and old ones only scroll away."""
    strip, tall, live = TokenStrip(), TokenStrip(), loaded().begin(accelerate=True, now=0.0)
    seen: list[list[str]] = []
    for event in events(Scripted(STORY)):
        live = live.hear(event, 0.0)
        strip.show(live)
        tall.show(live)
        seen.append(["".join(text for text, _ in line) for line in strip.draw(40, 5)[1:]])
        lines = tall.draw(40, 99)
    for before, after in pairwise(seen):
        assert any(line.startswith(before[-1]) for line in after), "the last line only grows"
        assert len(after) <= 4
    at_once = TokenStrip()
    at_once.show(live)
    assert at_once.draw(40, 99) == lines


def test_the_strip_begins_anew_with_each_reply() -> None:
    """Guards against tokens of another reply, or of another chat, before those of this one."""
    strip = TokenStrip()
    live = heard(loaded(), [a_round(0, "ab", "c")])
    strip.show(live)
    strip.draw(40, 5)
    live = heard(live, [a_round(0, "xy", "z")])
    strip.show(live)
    assert "".join(text for text, _ in strip.draw(40, 5)[1]) == "xyz"
    strip.show(live.chat(saved_seconds=0.0, tokens=0))
    assert strip.draw(40, 5)[1:] == [()]


@pytest.mark.parametrize(
    ("wrote", "index", "words"),
    [
        (a_round(4, "ab", "c", "d"), 1, "Drafted by the draft model and accepted: place 2 of the 3 drafted in"),
        (a_round(4, "ab", "c", "d"), 2, "in round 5 it wanted another token than the draft at place 3."),
        (a_round(4, "ab", "c"), 2, "one more: all 2 drafted in round 5 were accepted."),
        (branching(), 2, "one more: a branch of the draft of round 5 was right to its end."),
        (a_round(4, "a", source="eagle"), 0, "Drafted by the EAGLE head and accepted: place 1 of the 1 drafted"),
        (a_round(4, "a", source="lookup"), 0, "Copied by lookup and accepted: place 1 of the 1 drafted in round 5."),
        (a_round(4), 0, "The target's own: round 5 had no draft."),
    ],
)
def test_each_kind_of_token_is_explained(wrote: Wrote, index: int, words: str) -> None:
    """Guards the explanation under the cursor: where a token comes from, in one sentence that is true."""
    lines = explain.explanation(explain.Token(9, wrote, index), 20, 100)
    text = "\n".join("".join(text for text, _ in line) for line in lines)
    assert words in text
    assert "token 10 of 20" in text
    assert "governor: model, 3 deep" in text
    assert "margin 0.5" in text
    assert "10.0 ms (draft 2.0, verify 7.0, host 1.0)" in text


@pytest.mark.anyio
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_cursor_walks_and_explains(size: tuple[int, int]) -> None:
    """Guards the token screen: arrows move by tokens and lines, n and p by rejections, and each is explained."""
    app = Reader(written())
    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, lambda: "token 1 of" in screen_text(app))
        await pilot.press("right", "right")
        await wait_until(pilot, lambda: "token 3 of" in screen_text(app))
        assert "rejected in this round: no" in screen_text(app)
        await pilot.press("n")
        await wait_until(pilot, lambda: "token 6 of" in screen_text(app))
        await pilot.press("p", "home", "p")
        await wait_until(pilot, lambda: app.view.cursor == 0)
        await pilot.press("down")
        await wait_until(pilot, lambda: app.view.cursor > 10)
        await pilot.press("up")
        await wait_until(pilot, lambda: app.view.cursor == 0)
        await pilot.press("end")
        total = len(app.reply.reply.token_ids)
        await wait_until(pilot, lambda: f"token {total} of {total}" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: not isinstance(app.screen, TokensScreen))


@pytest.mark.anyio
async def test_a_click_and_a_resize_keep_the_token() -> None:
    """Guards the mouse, and resizing: the token under the cursor stays the same and in sight."""
    app = Reader(written(STORY * 4))
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "token 1 of" in screen_text(app))
        await pilot.click(TokenView, offset=(20, 3))
        await wait_until(pilot, lambda: app.view.cursor > 20)
        await pilot.press("end")
        cursor = app.view.cursor
        await pilot.resize_terminal(60, 24)
        await wait_until(pilot, lambda: app.view.size.width < 60)
        await pilot.pause()
        assert app.view.cursor == cursor
        assert app.view.max_scroll_y - app.view.scroll_offset.y <= 1


@pytest.mark.anyio
async def test_thousands_of_tokens_stay_quick() -> None:
    """Guards long replies: 10,000 tokens open within two seconds of work, and a key takes less than 100 ms."""
    rounds = tuple(renumbered([a_round(0, [" one", " two", " three"], " four", [" no"])] * 2500))
    app = Reader(written(rounds=rounds))
    began = time.process_time()
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: "token 1 of 10000" in screen_text(app))
        assert time.process_time() - began < 2.0
        began = time.process_time()
        await pilot.press("end")
        await wait_until(pilot, lambda: "token 10000 of 10000" in screen_text(app))
        for _ in range(20):
            await pilot.press("left")
        assert (time.process_time() - began) / 21 < 0.1
        assert app.view.cursor == 9979


@pytest.mark.anyio
async def test_hostile_and_empty_replies_open() -> None:
    """Guards against a reply that cannot be opened: hostile tokens are shown as signs, none at all is said."""
    rounds = tuple(a_round(number, [text], "\n", [text]) for number, text in enumerate(HOSTILE))
    app = Reader(written(rounds=rounds))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "token 1 of" in screen_text(app))
        for _ in range(len(HOSTILE) * 2):
            await pilot.press("right")
        text = screen_text(app)
        assert not {"\x1b", "\x9b", "\x00", "\u202e", "\x07"} & set(text)
        assert "[bold]" in text
    empty = Written(written().reply, (), 0)
    app = Reader(empty)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "has no tokens" in screen_text(app))
        await pilot.press("right", "down", "end", "n", "p", "pagedown")


def test_the_cursor_reverses_one_token() -> None:
    """Guards the cursor: it must stand out without colour, on every piece of its token and on no other."""
    line = styled([Piece(" a", "underline", 1), Piece("b", "", 2), Piece("c", "", 2)], 2)
    assert [text for text, style in line if "reverse" in style] == ["b", "c"]
