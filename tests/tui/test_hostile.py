"""Two thousand hostile texts through everything on the screen that shows what a model or a file says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import ClassVar

import pyte
import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.actions import parse
from textual.app import App, ComposeResult
from textual.color import Color
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widget import Widget

import localchat.tui
from localchat.chat.conversation import Role
from localchat.chat.events import Failed, Finished, Loading
from localchat.chat.records import Node, State, Written
from localchat.chat.store import Store
from localchat.tui import clipboard, theme
from localchat.tui.app import LocalChat
from localchat.tui.explain import explanation, tokens
from localchat.tui.figures import Line, width_of
from localchat.tui.gate import Gate
from localchat.tui.live import Live
from localchat.tui.screens.tokens import TokensScreen
from localchat.tui.token_text import Flow, round_pieces, styled
from localchat.tui.widgets.banner import Banner
from localchat.tui.widgets.chat_list import ChatList
from localchat.tui.widgets.composer import Composer
from localchat.tui.widgets.lines import Lines
from localchat.tui.widgets.panel import Panel
from localchat.tui.widgets.race_pane import RacePane
from localchat.tui.widgets.reply_text import ReplyText
from localchat.tui.widgets.status_line import StatusLine
from localchat.tui.widgets.title_bar import TitleBar
from localchat.tui.widgets.token_strip import TokenStrip
from localchat.tui.widgets.transcript import Transcript
from localchat.tui.widgets.turn import Turn
from localchat.tui.widgets.welcome import Welcome
from tests.support import hostile
from tests.support.backend import Scripted
from tests.support.rounds import a_round, events, heard, loaded, renumbered
from tests.tui.program import command
from tests.tui.support import wait_until
from tests.tui.terminal import Terminal

ACTS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\u2028\u2029\ufffe\uffff]")
PATIENCE = 2.0
"""Seconds of processor time that the screen may stand still."""
TALL = (100, 120)
LOOKS: list[str | PurePath] = [Path(localchat.tui.__file__).parent / sheet for sheet in LocalChat.CSS_PATH]


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


class Shown(App[None]):
    """Some widgets in the program's own looks, and no gate before the terminal."""

    CSS_PATH: ClassVar[list[str | PurePath]] = LOOKS

    def __init__(self, *shown: Widget) -> None:
        super().__init__()
        self.shown = shown
        theme.register_all(self)

    def compose(self) -> ComposeResult:
        """The widgets."""
        yield from self.shown

    def check(self) -> None:
        """Nothing on the screen acts on a terminal, and nothing acts when it is clicked but our own way with links."""
        for row in self.screen._compositor.render_strips(self.size):
            for text, style, _ in row:
                assert not ACTS.search(text), repr(text)
                assert style is None or not style.link, repr(text)
                click = style.meta.get("@click") if style else None
                if click is not None:
                    space, name, arguments = parse(click)
                    assert (space, name, len(arguments)) == ("", "link", 1), click


async def settle(pilot: Pilot[None]) -> None:
    """Let the app lay out, and look at it."""
    await pilot.pause()
    assert isinstance(pilot.app, Shown)
    pilot.app.check()


@contextmanager
def soon(text: str) -> Iterator[None]:
    """Fails if the screen stands still for long."""
    begun = time.process_time()
    yield
    spent = time.process_time() - begun
    assert spent < PATIENCE, f"{spent:.1f} s for {text[:40]!r}"


def batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """So many at a time."""
    yield from (texts[at : at + size] for at in range(0, len(texts), size))


def a_reply(text: str, number: int = 1, role: Role = Role.ASSISTANT, state: State = State.COMPLETE) -> Node:
    """A message."""
    return Node(number, 1, None, role, text, state, 0.0, 0.0, None)


def a_transcript() -> Transcript:
    """An empty one."""
    return Transcript(lambda node: (1, 1), lambda node, count: [])


@pytest.mark.anyio
@pytest.mark.parametrize("role", [Role.ASSISTANT, Role.USER])
async def test_finished_messages(role: Role) -> None:
    """Guards what was said before: every text as a message of the model's and of the user's."""
    transcript = a_transcript()
    app = Shown(transcript)
    async with app.run_test(size=TALL) as pilot:
        for texts in batches(hostile.messages(), 12):
            await transcript.show([a_reply(text, number, role) for number, text in enumerate(texts)], 0)
            for turn in transcript.turns:
                turn.toggle_thought()
            await settle(pilot)


@pytest.mark.anyio
async def test_streamed_replies() -> None:
    """Guards replies on their way: texts in pieces, laid out again at the end (on a terminal: all of them)."""
    transcript = a_transcript()
    app = Shown(transcript)
    async with app.run_test(size=(100, 40)) as pilot:
        for number, text in enumerate(hostile.messages()[::4]):
            turn = await transcript.add(a_reply("", number, state=State.WRITING), live=True)
            turn.begin()
            for piece in hostile.pieces(text, number):
                await turn.write(piece)
            await settle(pilot)
            await turn.finish(a_reply(text, number), (1, 1))
            await settle(pilot)
            await transcript.cut(None)


@pytest.mark.anyio
async def test_markdown_character_by_character() -> None:
    """Guards against a block that becomes another one on its way: a list after a table ended the program."""
    reply = ReplyText()
    app = Shown(VerticalScroll(reply))
    async with app.run_test(size=(60, 30)) as pilot:
        for text in (*hostile.MARKDOWN, "|a|b|\n|-|-|\n|1|2|\n|3|4|\n1. list", "|a|\n|-|\n|b|\n|c|\n```\nx"):
            await reply.update("")
            for character in text:
                await reply.append(character)
        await settle(pilot)


@pytest.mark.anyio
@pytest.mark.parametrize("number", range(len(hostile.bombs())))
async def test_bombs(number: int) -> None:
    """Guards against a screen that freezes: no step of streaming or laying out may take long."""
    text = hostile.bombs()[number]
    transcript = a_transcript()
    app = Shown(transcript)
    async with app.run_test(size=(100, 30)) as pilot:
        turn = await transcript.add(a_reply("", state=State.WRITING), live=True)
        turn.begin()
        for piece in (text[: len(text) // 2], text[len(text) // 2 : -1], text[-1]):
            with soon(text):
                await turn.write(piece)
                await settle(pilot)
        with soon(text):
            await turn.finish(a_reply(text), (1, 1))
            await settle(pilot)
        with soon(text):
            await turn.show_node(a_reply(text), (1, 1))
            turn.toggle_thought()
            await settle(pilot)
        assert len(app.query("*")) < 700


@pytest.mark.anyio
async def test_nothing_is_hidden_and_links_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against HTML that vanishes, entities that smuggle, addresses unseen, and clicks that start a program."""
    opened: list[str] = []
    copied: list[str] = []

    def copy(app: App[None], text: str) -> str:
        copied.append(text)
        return "Copied."

    monkeypatch.setattr(App, "open_url", lambda app, url, **_: opened.append(url))
    monkeypatch.setattr(clipboard, "copy", copy)
    turn = Turn(a_reply("see [bank](http://evil.example/'\\\") <b>bold</b> &#8238;x &#8234;y List<int>"))
    app = Shown(turn)
    async with app.run_test(size=(100, 10)) as pilot:
        await settle(pilot)
        shown = "".join(text for row in app.screen._compositor.render_strips(app.size) for text, _, _ in row)
        assert "bank ‹http://evil.example/'%22›" in shown
        assert "<b>bold</b> �x �y List<int>" in shown
        await pilot.click(ReplyText, offset=(5, 0))
        await wait_until(pilot, lambda: bool(copied))
        assert copied == ["http://evil.example/'\""]
        assert not opened


@pytest.mark.anyio
async def test_a_table_has_no_tooltips() -> None:
    """Guards against the crash when the mouse rests on a cell: its text was read as markup."""
    reply = ReplyText()
    app = Shown(reply)
    async with app.run_test(size=(60, 10)):
        await reply.update("| [/] | b |\n|---|---|\n| [/bold] | [@click=app.quit]x[/] |")
        assert len(app.query("MarkdownTableCellContents")) == 4
        assert not any(cell.tooltip for cell in app.query("MarkdownTableCellContents"))


def a_name(live: Live, text: str) -> Live:
    """An engine whose models, source and reasons are called so."""
    assert live.loaded is not None
    live = replace(live, loaded=replace(live.loaded, model_name=text, draft_name=text, notes=(text,)))
    wrote = a_round(0, [text, "b"], text, [text], source=text[:40] or "x", reason=text)
    return heard(live, [wrote])


def checked(lines: Iterable[Line], width: int) -> None:
    """Lines that have no room for more, and nothing in them that acts."""
    for line in lines:
        assert width_of(line) <= width
        assert not ACTS.search("".join(text for text, _ in line)), line


@pytest.mark.anyio
async def test_names_and_failures() -> None:
    """Guards the fixed lines: names of models, stages, failures and reasons, in every width."""
    bar, status, panel, strip = TitleBar(), StatusLine(), Panel(), TokenStrip()
    drawn: tuple[Lines, ...] = (bar, status, panel, strip)
    ready = loaded()
    app = Shown(*drawn)
    async with app.run_test(size=(100, 60)) as pilot:
        for number, text in enumerate(hostile.short()):
            states = [a_name(ready, text)]
            if number % 4 == 0:
                failed = Failed("engine", text, text)
                states += [Live().hear(Loading(text, 1, 2), 0.0), ready.hear(failed, 0.0), Live().hear(failed, 0.0)]
            for live in states:
                bar.show(live, text)
                status.show(live)
                panel.show(live)
                strip.show(live)
                for widget in drawn:
                    for width in (31, 80):
                        checked(widget.draw(width, 24), width)
            if number % 50 == 0:
                await settle(pilot)


def test_tokens_flow() -> None:
    """Guards the token strip and the tokens screen: a text in tokens stays within the width, and all of it is there."""
    for number, text in enumerate(hostile.short()):
        pieces = hostile.pieces(text, number) or [""]
        for width in (2, 30):
            flow = Flow(width, breaks=True)
            wrote = a_round(0, pieces[:-1], pieces[-1], [text])
            for piece in round_pieces(wrote, 0):
                flow.add(piece)
            checked(map(styled, flow.lines), width)
        for token in tokens((wrote,))[:3]:
            checked(explanation(token, 1, 60), 60)


@pytest.mark.anyio
async def test_the_tokens_screen() -> None:
    """Guards the screen of tokens: hostile tokens are drawn, and the cursor walks over all of them."""
    rounds = renumbered([a_round(0, [text, text[:1]], text, [text]) for text in hostile.FRAGMENTS])
    said = events(Scripted("x"))[-1]
    assert isinstance(said, Finished)
    app = Shown()
    async with app.run_test(size=TALL) as pilot:
        screen = TokensScreen(Written(said.reply, tuple(rounds), 0))
        await app.push_screen(screen)
        await settle(pilot)
        await pilot.press("end", "up", "up", "pageup", *["right"] * 5, "home", *["down"] * 5)
        await settle(pilot)


@pytest.mark.anyio
async def test_titles_in_the_list_of_chats(store: Store) -> None:
    """Guards the list of chats: every text as a title and as something that is searched for."""
    for text in hostile.short():
        chat = store.create()
        store.save(replace(chat, title=text))
    for text in hostile.FRAGMENTS:
        store.add(chat.id, None, Role.USER, text)
    listed = ChatList(store)
    app = Shown(listed)
    async with app.run_test(size=(28, 300)) as pilot:
        for number in range(0, 2000, 200):
            listed._limit = 2000
            listed.refresh_chats(None)
            listed.rows.scroll_to(y=number, animate=False)
            await settle(pilot)
        for text in hostile.short()[::5]:
            listed._found(text, store.search(text))
            app.check()


@pytest.mark.anyio
async def test_words_on_the_chat_screen() -> None:
    """Guards the banner, the welcome, the composer and a race: every text in each of them."""
    banner, welcome, composer, pane = Banner(), Welcome(), Composer(), RacePane("plain")
    app = Shown(banner, welcome, composer, pane)
    plain = loaded().loaded
    assert plain is not None
    async with app.run_test(size=(80, 60)) as pilot:
        composer.set_history([text for text in hostile.short() if text.strip()])
        for number, text in enumerate(hostile.messages()):
            banner.tell(text, text, problem=True)
            welcome.told(replace(plain, model_name=text, notes=(text,)))
            pane.say(text, "note")
            if number % 3 == 0:
                composer.load_text(text)
            composer.box.action_cursor_up()
            assert not ACTS.search(f"{banner.content}{composer.box.text}".translate({9: None, 10: None}))
            if number % 8 == 0:
                await settle(pilot)


def test_the_gate_takes_out_what_a_widget_forgot() -> None:
    """Guards the last gate: nothing that acts gets through, the cells stay as many, and clean lines cost nothing."""
    gate, black = Gate(), Color(0, 0, 0)
    link = Style(bold=True, link="http://evil.example")
    for text in hostile.short():
        line = [Segment("our own", Style(bold=True)), Segment(text, link)]
        passed = gate.apply(line, black)
        assert not ACTS.search("".join(part.text for part in passed).translate({0xFFFE: None, 0xFFFF: None}))
        assert not any(part.style and part.style.link for part in passed)
    clean = [Segment("a line", Style(bold=True)), Segment(" 漢字", None)]
    assert gate.apply(clean, black) is clean
    assert cell_len(gate.apply([Segment("a\x1b[1mb\ud800", None)], black)[0].text) == cell_len("a\x1b[1mb\ud800")


class Deaf(pyte.ByteStream):
    """Draws nothing: hostile text breaks the terminal of the tests itself."""

    def feed(self, data: bytes) -> None:  # type: ignore[override]  # as pyte has it
        """Only the bytes count."""


def heard_of(terminal: Terminal, wanted: bytes) -> None:
    """Wait for the program to draw something, and to be done with it."""
    end, drawn = time.monotonic() + 30, -1
    while wanted not in OWN.sub(b"", terminal.raw[-200_000:]) or len(terminal.raw) > drawn:
        assert time.monotonic() < end, f"{wanted!r} was not drawn"
        drawn = len(terminal.raw)
        time.sleep(0.3)


OWN = re.compile(
    rb"\x1b\[[0-9;]*m"  # colours
    rb"|\x1b\[\d{1,3};\d{1,3}[Hf]"  # the cursor within the screen
    rb"|\x1b\[[<>=?][0-9;]*[a-zA-Z$]+"  # private modes
    rb"|\x1b\[\?[0-9;]*\$p|\x1b\[>1u|\x1b\[<u|\x1b\[\d*[ABCDGJK]|\x1b\[H"
    rb"|\x1b\]22;[a-z]+\x07"  # the shape of the pointer
    rb"|\r|\n"
)
"""What the program itself sends."""


def test_nothing_reaches_a_terminal_raw(tmp_path: Path) -> None:
    """Guards the real stream of bytes: the program on a terminal, hostile text as replies, tokens, titles and names."""
    texts = [text for text in hostile.short() if not text.lstrip().startswith("<think")]
    engine = Scripted(says=hostile.answer, rejected_text="\x1b]52;c;YQ==\x07\u202e", notes=hostile.SEQUENCES[:6])
    with Terminal(command(engine, model="other"), {"LOCALCHAT_HOME": str(tmp_path)}, (160, 60)) as terminal:
        terminal._stream = Deaf(terminal._screen)
        heard_of(terminal, b" fp32")
        terminal.send("\x1bOS")  # F4
        for number, _ in enumerate(batches(texts, hostile.AT_ONCE)):
            terminal.send(f"{number}\r")
            heard_of(terminal, b"theend%03d" % number)
        raw = bytes(terminal.raw)
    left = OWN.sub(b"", raw)
    assert b"\x1b" not in left, left[max(0, left.index(b"\x1b") - 50) :][:120]
    text = left.decode()
    assert not ACTS.search(text), repr(ACTS.search(text))
