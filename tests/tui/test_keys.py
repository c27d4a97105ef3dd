"""Keys: each does something, none twice, and the config file's are used."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.widgets import Input
from typer.testing import CliRunner

import localchat.tui
from localchat import config, paths
from localchat.cli import app as cli
from localchat.tui import keymap
from localchat.tui.keys import ACTIONS, Action

ACTIONS_OF_TEST = {action.id: action for action in ACTIONS}


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


def classes() -> Iterator[type[DOMNode]]:
    """Every screen, widget and app of the screen's package."""
    for module in pkgutil.walk_packages(localchat.tui.__path__, "localchat.tui."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, DOMNode) and value.__module__ == module.name:
                yield value


def owners(action: Action) -> list[type[DOMNode]]:
    """The classes that bind an action."""
    return [
        owner
        for owner in classes()
        if any(isinstance(entry, Binding) and entry.id == action.id for entry in vars(owner).get("BINDINGS", ()))
    ]


def test_ids_are_unique_and_well_formed() -> None:
    """Guards the names of the config file: two actions of one name would both be changed by it."""
    names = [action.id for action in ACTIONS]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*(\.[a-z]+(-[a-z]+)*)?", name) for name in names)
    assert all(action.label and action.meaning.endswith(".") for action in ACTIONS)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_every_action_is_done_by_who_binds_it(action: Action) -> None:
    """Guards against a key in the footer and in help that does nothing."""
    found = owners(action)
    assert found, f"nobody binds {action.id}"
    assert all(callable(getattr(owner, f"action_{action.name}", None)) for owner in found)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_every_action_has_a_key_that_every_terminal_sends(action: Action) -> None:
    """Guards against actions that only a function key reaches: editors and multiplexers swallow those."""
    assert any(not re.fullmatch(r"(.*\+)?f\d+", key) for key in action.keys.split(","))


def test_the_keys_we_ship_do_not_clash() -> None:
    """Guards against two actions of one screen on one key, and against keys that terminals cannot send."""
    assert keymap.warnings([(action.id, action.keys) for action in ACTIONS]) == []


@pytest.mark.parametrize(
    ("name", "keys", "said"),
    [
        ("compre", "f7", "did you mean compare"),
        ("compare", "ctrl+foo", "no key 'ctrl+foo'"),
        ("compare", "hyperdrive+a", "no key"),
        ("compare", " , ", 'write "none"'),
        ("compare", "f5", "F5 is both accelerate and compare"),
        ("compare", "Ctrl+I", "cannot tell Ctrl+I from Tab"),
        ("newline", "f2", "F2 is both settings and newline"),
    ],
)
def test_mistakes_in_the_keys_table_are_said(name: str, keys: str, said: str) -> None:
    """Guards against a key that silently does nothing, or something else."""
    assert any(said in warning for warning in keymap.warnings([(name, keys)]))


@pytest.mark.parametrize(
    ("keys", "tidy"),
    [("Ctrl+T, F7", ("ctrl+t", "f7")), ("ctrl+/", ("ctrl+slash",)), ("?", ("question_mark",)), ("Esc", ("escape",))],
)
def test_keys_may_be_written_as_people_write_them(keys: str, tidy: tuple[str, ...]) -> None:
    """Guards against refusing Ctrl+T because textual calls it ctrl+t."""
    assert keymap._tidy(keys) == tidy
    assert not any("no key" in warning for warning in keymap.warnings([("compare", keys)]))


@pytest.mark.parametrize(
    ("key", "shown"),
    [("ctrl+j", "Ctrl+J"), ("f5", "F5"), ("alt+up", "Alt+↑"), ("question_mark", "?"), ("slash", "/"), ("a", "a")],
)
def test_keys_are_shown_as_people_know_them(key: str, shown: str) -> None:
    """Guards help and palette against the names that textual uses inside."""
    assert keymap.spelled(key) == shown


class Sample(App[None]):
    """Two actions and somewhere to type."""

    BINDINGS: ClassVar[list[BindingType]] = [ACTIONS_OF_TEST[name].binding() for name in ("accelerate", "compare")]

    def __init__(self, keys: str) -> None:
        super().__init__()
        self.done: list[str] = []
        self.warned = keymap.apply(self, config.parse(Path("config.toml"), keys))

    def compose(self) -> ComposeResult:
        """A line."""
        yield Input()

    def action_accelerate(self) -> None:
        """Note it."""
        self.done.append("accelerate")

    def action_compare(self) -> None:
        """Note it."""
        self.done.append("compare")


@pytest.mark.anyio
async def test_keys_of_the_file_replace_ours() -> None:
    """Guards the keymap in the running app: new keys work, old ones are free, swapped ones are swapped."""
    app = Sample('[keys]\naccelerate = "F3, Ctrl+F12"\ncompare = "f5"\n')
    async with app.run_test() as pilot:
        await pilot.press("f3", "ctrl+f12", "f5", "alt+a", "alt+c")
    assert app.done == ["accelerate", "accelerate", "compare"]
    assert app.warned == []
    assert keymap.keys_of(app, ACTIONS_OF_TEST["accelerate"]) == ("f3", "ctrl+f12")
    assert keymap.keys_of(app, ACTIONS_OF_TEST["help"]) == ("f1", "alt+h")


@pytest.mark.anyio
async def test_none_switches_a_key_off() -> None:
    """Guards those whose terminal needs the key for itself."""
    app = Sample('[keys]\ncompare = "none"\nunheard = "f9"\n')
    async with app.run_test() as pilot:
        await pilot.press("f3", "alt+c", "f5")
    assert app.done == ["accelerate"]
    assert keymap.keys_of(app, ACTIONS_OF_TEST["compare"]) == ()
    assert len(app.warned) == 1


def test_the_config_file_is_checked_before_the_screen_opens() -> None:
    """Guards `localchat config validate`: it knows the actions, and says what to write instead."""
    file = paths.config_file()
    file.parent.mkdir(parents=True)
    file.write_text('[keys]\ncompre = "f7"\n', encoding="utf-8")
    result = CliRunner().invoke(cli, ["config", "validate"])
    assert result.exit_code == 2
    assert "did you mean compare" in result.output
    file.write_text('[keys]\ncompare = "f7"\n', encoding="utf-8")
    assert CliRunner().invoke(cli, ["config", "validate"]).exit_code == 0
