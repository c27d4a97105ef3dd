"""The command palette: every action of what is on the screen, by its meaning, and the themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from textual.app import App
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.dom import DOMNode
from textual.markup import escape
from textual.screen import Screen

from localchat import paths
from localchat.tui import keymap, palette, theme


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the palette."""

    title: str
    help: str
    keys: str
    run: Callable[[], object]


class Everything(Provider):
    """Give it to the app as `COMMANDS = {Everything}`."""

    async def discover(self) -> Hits:
        """All commands: the screen's first, then the app's, then those of what has the focus, then the themes."""
        for entry in self._entries():
            title = _display(Content(entry.title), entry.keys)
            yield DiscoveryHit(title, entry.run, entry.title, escape(entry.help))

    async def search(self, query: str) -> Hits:
        """The commands whose name is like the query, or whose meaning has all its words."""
        matcher = self.matcher(query)
        words = query.casefold().split()
        for entry in self._entries():
            score = matcher.match(entry.title)
            if score <= 0 and all(word in entry.help.casefold() for word in words):
                score = 0.1
            if score > 0:
                title = _display(matcher.highlight(entry.title), entry.keys)
                yield Hit(score, title, entry.run, entry.title, escape(entry.help))

    def _entries(self) -> Iterator[Entry]:
        app = self.app
        commands = keymap.commands(app, self.focused or self.screen)
        for command in sorted(commands, key=lambda command: _rank(command.node)):
            if command.enabled and command.name != "commands":
                keys = " ".join(keymap.spelled(key) for key in command.keys)
                yield Entry(command.label, command.meaning, keys, partial(app.run_action, command.name, command.node))
        for colours in palette.every():
            if colours.name in app.available_themes:
                mark = "in use" if colours.name == app.theme else ""
                yield Entry(f"Theme: {colours.name}", colours.about, mark, partial(self._theme, colours.name))

    def _theme(self, name: str) -> None:
        problem = theme.keep(self.app, name, paths.config_file())
        if problem:
            self.app.notify(problem, severity="warning", markup=False)


def _rank(node: DOMNode) -> int:
    return 0 if isinstance(node, Screen) else 1 if isinstance(node, App) else 2


def _display(title: Content, keys: str) -> Content:
    return Content.assemble(title.stylize_before("bold"), "  ", (keys, "$muted"))
