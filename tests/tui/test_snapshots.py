"""What localchat looks like, screen by screen, as text: read `__snapshots__/test_snapshots` beside the names here.

After a change that is meant: `pytest tests/tui/test_snapshots.py --snapshot-update`, and read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.tui import gallery
from tests.tui.gallery import SIZES, visiting

pytestmark = pytest.mark.anyio


class Text(SingleFileSnapshotExtension):
    """One readable file a picture."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def pictures(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """Compared with the files beside this one."""
    return snapshot.use_extension(Text)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine, a moment and a folder that are the same for everybody."""
    gallery.still(monkeypatch, tmp_path / "user")
    return tmp_path / "user"


@pytest.fixture(params=SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    """Narrow, usual and wide."""
    found: tuple[int, int] = request.param
    return found


async def look(name: str, size: tuple[int, int], place: Path) -> str:
    """The screen of that name as text."""
    async with visiting(name, size, place) as visit:
        return gallery.text_of(visit.app)


class TestStart:
    """The first start of all."""

    async def test_lists_what_is_here_and_suggests_one(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the page that a new user sees first."""
        assert await look("start", size, place) == pictures

    async def test_then_an_empty_chat_says_what_is_ready(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards against an empty screen without a way on."""
        assert await look("welcome", size, place) == pictures


class TestChat:
    """Talking."""

    async def test_a_reply_is_laid_out_with_its_speed_below(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards Markdown, code and the figures of a reply."""
        assert await look("chat", size, place) == pictures

    async def test_its_tokens_stand_below_the_transcript(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the token strip: accepted, own, corrected and rejected tokens."""
        assert await look("strip", size, place) == pictures

    async def test_a_list_of_chats_stands_beside_it_or_covers_it(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the list: always there on a wide screen, in place of the chat on a narrow one."""
        assert await look("chats", size, place) == pictures

    async def test_has_options_of_its_own(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the system message and sampling of one chat."""
        assert await look("options", size, place) == pictures

    async def test_takes_a_file_with_the_message(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the list of files."""
        assert await look("attach", size, place) == pictures


class TestPanel:
    """Seeing what the engine does."""

    async def test_shows_speed_rounds_sources_time_and_memory(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards every figure of the live panel; a narrow screen shows it in place of the chat."""
        assert await look("panel", size, place) == pictures

    async def test_a_reply_opens_token_by_token(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the explanation of the token under the cursor."""
        assert await look("tokens", size, place) == pictures


class TestSettings:
    """Choosing model, draft, precision and context."""

    async def test_every_choice_says_what_it_needs_and_how_fast_it_is(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the bar, the rows and their marks."""
        assert await look("settings", size, place) == pictures

    async def test_choices_can_be_kept_under_a_name(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the question for a profile's name."""
        assert await look("profile", size, place) == pictures

    async def test_what_does_not_fit_is_answered_with_what_would(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the way on after a load that ran out of memory."""
        assert await look("no room", size, place) == pictures


class TestCompare:
    """Racing plain against drafted."""

    async def test_one_prompt_is_shown_side_by_side_with_its_figures(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards both texts, the verdict and the table."""
        assert await look("compare", size, place) == pictures

    async def test_six_kinds_have_a_bar_each(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the bars against 1× plain."""
        assert await look("kinds", size, place) == pictures

    async def test_earlier_comparisons_can_be_opened(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the history."""
        assert await look("history", size, place) == pictures


class TestHelp:
    """Finding the way."""

    async def test_explains_what_has_the_focus_and_lists_its_keys(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the text and the table of keys."""
        assert await look("help", size, place) == pictures

    async def test_the_palette_has_every_command_with_its_meaning(
        self, pictures: SnapshotAssertion, size: tuple[int, int], place: Path
    ) -> None:
        """Guards the first page of the command palette."""
        assert await look("palette", size, place) == pictures
