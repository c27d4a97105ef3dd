"""Every screen at every size: nothing is clipped, overlaps or is cut, and every action can be reached by plain keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from textual.app import App
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from localchat.tui import keymap
from localchat.tui.commands import Everything
from localchat.tui.figures import width_of
from localchat.tui.widgets.lines import Lines
from tests.tui.gallery import SCREENS, SIZES, Visit, still, visiting

pytestmark = pytest.mark.anyio

THEMES = ("dark", "light", "terminal")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine, a moment and a folder that are the same for everybody."""
    still(monkeypatch, tmp_path / "user")
    return tmp_path / "user"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", [name for name in SCREENS if name != "palette"])
async def test_nothing_is_clipped_overlaps_or_is_cut(name: str, size: tuple[int, int], place: Path) -> None:
    """Guards against widgets that reach out of their container, lie on each other, or have no room for their text."""
    async with visiting(name, size, place) as visit:
        for theme in THEMES:
            visit.app.theme = theme
            await visit.settle()
            assert not list(faults(visit.app.screen)), theme


def faults(screen: Screen[object]) -> Iterator[str]:
    """What is wrong with the layout of a screen."""
    shown = {widget: place for widget, place in screen._compositor.full_map.items() if seen(widget, screen)}
    for widget, (region, _, clip, *_) in shown.items():
        if not scrolls(widget) and not clip.contains_region(region):
            yield f"{widget} at {region} reaches out of {clip}"
        yield from cut(widget)
    for first, second in combinations(shown, 2):
        if first.parent is second.parent and first.layer == second.layer and not floats(first, second):
            common = shown[first].region.intersection(shown[second].region)
            if common.area:
                yield f"{first} and {second} share {common}"


def seen(widget: Widget, screen: Screen[object]) -> bool:
    """A part of the screen that takes room: no notice, no tooltip."""
    return widget is not screen and bool(widget.region.area) and not widget.has_class("-textual-system")


def scrolls(widget: Widget) -> bool:
    """Whatever cannot be seen of it can be scrolled to."""
    return any(
        isinstance(above, Widget) and {above.styles.overflow_x, above.styles.overflow_y} & {"auto", "scroll"}
        for above in widget.ancestors
        if not isinstance(above, Screen)
    )


def floats(*widgets: Widget) -> bool:
    """Meant to lie on others."""
    return any(widget.styles.overlay == "screen" or widget.styles.position == "absolute" for widget in widgets)


def cut(widget: Widget) -> Iterator[str]:
    """Text that has not enough room."""
    width, height = widget.content_size
    if isinstance(widget, Static):
        visual, rules = widget.visual, widget.styles.get_rules()
        if widget.styles.text_wrap == "nowrap" and visual.get_optimal_width(rules, width) > width:
            yield f"{widget} is wider than {width}: {visual}"
        if visual.get_height(rules, width) > height:
            yield f"{widget} is higher than {height}: {visual}"
    elif isinstance(widget, Lines):
        lines = widget.draw(width, height)
        if len(lines) > height or any(width_of(line) > width for line in lines):
            yield f"{widget} has no room for {lines}"


@pytest.mark.parametrize("name", list(SCREENS))
async def test_every_action_has_a_plain_key_that_works(name: str, place: Path) -> None:
    """Guards those without a mouse and without function keys: each action of what has or can get the focus."""
    async with visiting(name, (120, 40), place) as visit:
        screen = visit.app.screen
        missing: set[str] = set()
        reached: set[str] = set()
        for node in (screen, *screen.focus_chain):
            active = await keys_at(visit, node)
            for command in keymap.commands(visit.app, node):
                if command.id and command.enabled and not isinstance(command.node, App):
                    plain = [key for key in command.keys if not re.fullmatch(r"f\d+", key)]
                    works = any(active.get(key) == command.id for key in plain)
                    (reached if works else missing).add(command.id)
        assert missing <= reached
        if not screen.is_modal:
            await in_palette(visit)


async def keys_at(visit: Visit, node: Widget) -> dict[str, str | None]:
    """Which action each key does where the node has the focus."""
    if node.focusable:
        node.focus()
        await visit.pilot.pause()
    return {key: active.binding.id for key, active in visit.app.screen.active_bindings.items()}


async def in_palette(visit: Visit) -> None:
    """The command palette lists all that can be done now."""
    expected = {
        command.label
        for command in keymap.commands(visit.app, visit.app.focused or visit.app.screen)
        if command.enabled and command.name != "commands"
    }
    listed = {entry.title for entry in Everything(visit.app.screen)._entries()}
    assert expected <= listed
