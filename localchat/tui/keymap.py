"""The [keys] table of the config file: which keys do what, said as people say it. No textual at import time."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localchat.tui.keys import ACTIONS, Action

if TYPE_CHECKING:
    from textual.app import App
    from textual.dom import DOMNode

    from localchat.config import File

OFF = "none"
"""In place of keys: the action has no key and is reached by the command palette."""

_BY_ID = {action.id: action for action in ACTIONS}
_MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_SAME = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete", "ins": "insert"}
_NAMES = {
    "escape": "Esc", "enter": "Enter", "tab": "Tab", "space": "Space", "backspace": "Backspace", "delete": "Del",
    "insert": "Ins", "home": "Home", "end": "End", "pageup": "PgUp", "pagedown": "PgDn",
    "up": "↑", "down": "↓", "left": "←", "right": "→",
    "slash": "/", "backslash": "\\", "at": "@", "minus": "-", "plus": "+", "underscore": "_",
    **{f"f{number}": f"F{number}" for number in range(1, 25)},
}  # fmt: skip
_SIGNS = {sign: name for name, sign in _NAMES.items() if len(sign) == 1 and sign.isascii()}
_TWINS = {"ctrl+i": "Tab", "ctrl+m": "Enter", "ctrl+h": "Backspace", "ctrl+left_square_bracket": "Esc"}
"""Keys that most terminals cannot tell from another."""
_SCREEN = {"composer": "chat", "chat-list": "chat", "transcript": "chat"}
"""The screen that a widget's keys belong to; what is not here is a screen itself."""


@dataclass(frozen=True, slots=True)
class Command:
    """Something that a screen or widget can do now."""

    node: DOMNode
    """What does it."""
    name: str
    """The textual action."""
    id: str
    """Its name in the [keys] table; empty if it has none."""
    label: str
    meaning: str
    keys: tuple[str, ...]
    """In textual's spelling; none if it is switched off."""
    enabled: bool


def apply(app: App[Any], file: File) -> list[str]:
    """Give the app the keys of the config file, and return what the user is to be told about them."""
    app.set_keymap({name: ",".join(_tidy(keys)) for name, keys in file.keys if name in _BY_ID and _tidy(keys)})
    return warnings(file.keys)


def keys_of(app: App[Any], action: Action) -> tuple[str, ...]:
    """The keys that an action has in this app, in textual's spelling; none if it was switched off."""
    keys = _tidy(app._keymap.get(action.id, action.keys))  # textual has no public way to read it back
    return () if keys == (OFF,) else keys


def warnings(keys: Sequence[tuple[str, str]], actions: Sequence[Action] = ACTIONS) -> list[str]:
    """What is wrong with a [keys] table: unknown actions, keys that do not exist, and keys that would be shared."""
    known = {action.id: action for action in actions}
    found = []
    for name, text in keys:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            found.append(
                f"keys.{name}: there is no such action; " + (f"did you mean {near[0]}?" if near else "see F1.")
            )
            continue
        if not _tidy(text):
            found.append(f'keys.{name}: no key is given; write "{OFF}" to switch it off.')
        for key in _tidy(text):
            if key != OFF and not _exists(key):
                found.append(f"keys.{name}: there is no key {key!r}; a key looks like f7, ctrl+t or alt+up.")
            elif key in _TWINS:
                found.append(f"keys.{name}: most terminals cannot tell {spelled(key)} from {_TWINS[key]}.")
    return found + _clashes({name: _tidy(text) for name, text in keys if name in known and _tidy(text)}, actions)


def _clashes(changed: Mapping[str, tuple[str, ...]], actions: Sequence[Action]) -> list[str]:
    users: defaultdict[str, list[Action]] = defaultdict(list)
    for action in actions:
        for key in changed.get(action.id, _tidy(action.keys)):
            if key != OFF:
                users[key].append(action)
    found = []
    for key, sharing in users.items():
        for place, first in enumerate(sharing):
            for second in sharing[place + 1 :]:
                if _meet(first.where, second.where):
                    found.append(f"keys: {spelled(key)} is both {first.id} and {second.id}; give one another key.")
    return found


def _meet(first: str, second: str) -> bool:
    """Whether both can be on the screen at once."""
    screens = _SCREEN.get(first, first), _SCREEN.get(second, second)
    return screens[0] == screens[1] or "app" in screens


def commands(app: App[Any], node: DOMNode) -> Iterator[Command]:
    """What can be done where `node` has the focus: its own first, then what is around it, the app last."""
    seen = set()
    for place in (*(above for above in node.ancestors_with_self if above is not app), app):
        for owner in type(place).__mro__:
            if owner.__module__.startswith("textual."):
                continue
            for command in _bound(app, place, owner):
                if command.name not in seen:
                    seen.add(command.name)
                    yield command


def _bound(app: App[Any], node: DOMNode, owner: type) -> Iterator[Command]:
    """The bindings that one class declares."""
    from textual.binding import Binding

    for entry in vars(owner).get("BINDINGS", ()):
        binding = entry if isinstance(entry, Binding) else Binding(*entry)
        action = _BY_ID.get(binding.id or "")
        enabled = node.check_action(binding.action, ()) is True
        if action is not None:
            yield Command(node, binding.action, action.id, action.label, action.meaning, keys_of(app, action), enabled)
        elif binding.description:
            keys = _tidy(binding.key)
            yield Command(node, binding.action, "", binding.description, binding.tooltip, keys, enabled)


def worded(app: App[Any], text: str) -> str:
    """A sentence of ours with the user's own keys in it: `{settings}` becomes Alt+S."""

    def key(found: re.Match[str]) -> str:
        keys = keys_of(app, _BY_ID[found[1]])
        plain = [key for key in keys if not re.fullmatch(r"f\d+", key)]
        return spelled((plain or [*keys, ""])[0]) or "the command palette"

    return re.sub(r"\{([a-z-]+)\}", key, text)


def spelled(key: str) -> str:
    """A key as people write it: ctrl+j is Ctrl+J, question_mark is ?."""
    *modifiers, last = _split(key)
    if last in _NAMES:
        last = _NAMES[last]
    elif len(last) == 1:
        last = last.upper() if modifiers else last
    else:
        last = _character(last) or last.replace("_", " ").capitalize()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), last])


def _tidy(keys: str) -> tuple[str, ...]:
    """Keys as textual spells them, from what people write: "Ctrl+T, F7" is ctrl+t and f7."""
    found = []
    for key in keys.split(","):
        *modifiers, last = _split(key.strip())
        if len(last) == 1 and not last.isalnum():
            last = _SIGNS.get(last) or unicodedata.name(last, last).lower().replace(" ", "_").replace("-", "_")
        last = last if len(last) == 1 and not modifiers else last.lower()
        found.append("+".join([*(modifier.lower() for modifier in modifiers), _SAME.get(last, last)]))
    return tuple(key for key in found if key)


def _split(key: str) -> list[str]:
    """Modifiers and the key itself, which may be a + too."""
    return [*key[:-2].split("+"), "+"] if key.endswith("++") else key.split("+") if len(key) > 1 else [key]


def _exists(key: str) -> bool:
    *modifiers, last = _split(key)
    return all(modifier in _MODIFIERS for modifier in modifiers) and (
        len(last) == 1 or last in _NAMES or bool(_character(last))
    )


def _character(name: str) -> str:
    """The character that textual calls by its Unicode name, or nothing."""
    try:
        return unicodedata.lookup(name.replace("_", " "))
    except KeyError:
        return ""
