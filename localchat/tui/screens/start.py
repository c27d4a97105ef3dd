"""The start page: before the first load on a new machine, what there is, what fits and how fast it will be."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import Worker, WorkerState

from localchat.chat import setup
from localchat.chat.events import Failed
from localchat.errors import LocalchatError
from localchat.models.beginning import beginnings, suggested
from localchat.models.catalog import describe
from localchat.models.devices import Machine
from localchat.models.folders import find_model
from localchat.models.memory import gib
from localchat.models.offer import Item, tokens
from localchat.models.plan import STARTER, LoadPlan
from localchat.models.stock import Found, Left, find, find_guide, with_heads
from localchat.sanitize import clean
from localchat.tui import keeping
from localchat.tui.choices import about
from localchat.tui.desk import Desk
from localchat.tui.figures import MUTED, rate, short_name
from localchat.tui.keymap import worded

STARTED = "started"
"""The store's key that says the page was seen."""

_REST = 11
"""Lines of the page that are not the list."""

_ELSEWHERE = "or a folder, a .gguf file or a hub id that is on this machine"


class StartScreen(Screen[LoadPlan]):
    """Ends with the plan to load; leaving it takes the built-in guide."""

    HELP: ClassVar[str] = """# Start

Choose what answers. `✓` fits into the memory there is, `✗` does not. Speeds with `≈` are guesses from the size of the
model and this machine; once it is loaded, they are measured.

The **built-in guide** is a small pair of models that comes with localchat. It knows localchat and speculative decoding,
and little else; it always fits. Models are looked for in the hub cache, in this folder, in its `models` folder and in
the one of your home; below you can name any other folder, `.gguf` file or hub id.
"""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "The guide")]
    CSS = """
    StartScreen {
        align: center top;
        #page { max-width: 110; height: 1fr; padding: 1 2; }
        #welcome { height: auto; margin-bottom: 1; }
        #models { height: auto; border: none; padding: 0; background: transparent; }
        #models { text-wrap: nowrap; text-overflow: ellipsis; }
        #models > .option-list--option { padding: 0 1; }
        #path { height: 1; border: none; padding: 0 1; margin: 1 0 0 0; background: $panel; }
        #told { height: auto; max-height: 3; padding: 0 1; color: $warning; }
        #keys { dock: bottom; height: 1; padding: 0 1; background: $surface; color: $muted; text-wrap: nowrap; }
    }
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self._machine: Machine | None = None
        self._found: Found | None = None
        self._items: tuple[Item, ...] = ()
        self._tries: tuple[Left, ...] = ()

    def compose(self) -> ComposeResult:
        """A welcome, what there is, and a field for what is elsewhere."""
        with Vertical(id="page"):
            yield Static(self._welcome("Looking at this machine and its models…"), id="welcome", markup=False)
            yield OptionList(id="models", markup=False)
            yield Input(placeholder=_ELSEWHERE, id="path")
            yield Static("", id="told", markup=False)
        yield Static(_KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Look around; the page can be left at once."""
        self.query_one(OptionList).focus()
        self.desk.survey(self.desk.resolved.settings.device, self._surveyed, self._not_surveyed)
        self._look_around()

    def on_resize(self, event: Resize) -> None:
        """The list takes what the rest leaves it, and scrolls."""
        self.query_one(OptionList).styles.max_height = max(4, event.size.height - _REST)

    def _surveyed(self, machine: Machine) -> None:
        if self.is_running:
            self._machine = machine
            self._show()

    def _not_surveyed(self, failed: Failed) -> None:
        if self.is_running:
            self._tell(f"{failed.title} {failed.hint}")

    @work(thread=True, exit_on_error=False)
    def _look_around(self) -> None:
        found = with_heads(find(_folders()))
        self.app.call_from_thread(self._seen, found)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Looking around went wrong in a way nobody foresaw: a name can still be given, and the guide is there."""
        if event.state is WorkerState.ERROR and self.is_running:
            self._tell(f"Looking for models failed: {event.worker.error}")
            self._seen(find_guide())

    def _seen(self, found: Found) -> None:
        self._found = found
        if self.is_running:
            self._show()

    def _show(self) -> None:
        if self._machine is None or self._found is None:
            return
        self._items = beginnings(self._machine, self._found)
        best = suggested(self._items)
        self._tries = tuple(left for left in self._found.left if left.may_try)
        broken = [left for left in self._found.left if not left.may_try]
        options = [Option(_offered(item, best=place == best)) for place, item in enumerate(self._items)]
        options += [Option(_left("?", left)) for left in self._tries]
        options += [Option(_left("✗", left), disabled=True) for left in broken]
        models = self.query_one(OptionList)
        models.set_options(options)
        models.highlighted = best
        machine = self._machine
        words = f"{clean(machine.title or machine.device)}: {gib(machine.free)} of {gib(machine.total)} are free."
        if len(self._items) + len(self._tries) == 1:
            words += (
                "\nNo model of your own is here yet. Get one with `localchat models pull Qwen/Qwen3-0.6B`, or begin "
            )
            words += "with the guide."
        self.query_one("#welcome", Static).update(self._welcome(words))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        names = [item.plan.model for item in self._items] + [left.name for left in self._tries]
        if event.option_index < len(names):
            self._take(names[event.option_index])

    @on(Input.Submitted)
    def _named(self, event: Input.Submitted) -> None:
        name = event.value.strip()
        if not name:
            return
        try:
            problem = describe(find_model(name)).problem
        except LocalchatError as error:
            self._tell(f"{error.message} {error.hint}")
            return
        if problem:
            self._tell(problem)
        else:
            self._take(str(Path(name).expanduser()) if name.startswith("~") else name)

    def _take(self, model: str) -> None:
        """End with this model, and keep it for next time."""
        with contextlib.suppress(sqlite3.Error):  # the page is shown once more then
            self.desk.store.keep_value(STARTED, "1")
        settings, resolved = self.desk.resolved.settings, self.desk.resolved
        if model != settings.model:
            kept = keeping.keep(self.desk.file.path, resolved, settings, {"model": model}, resolved.profile)
            self.desk.resolved, self.desk.file = kept.resolved, keeping.again(self.desk.file)
            if kept.notice:
                self.notify(clean(kept.notice), severity="warning", markup=False)
        self.dismiss(setup.load_plan(self.desk.resolved.settings))

    def action_leave(self) -> None:
        """The guide will do."""
        self._take(STARTER)

    def _welcome(self, words: str) -> Content:
        title = Content.styled("Welcome to localchat", "bold $accent")
        question = worded(self.app, "Who shall answer? You can change it at any time ({settings}).")
        return Content("\n").join([title, Content.styled(words, MUTED), Content(""), Content.styled(question, "bold")])

    def _tell(self, words: str) -> None:
        self.query_one("#told", Static).update(clean(words))


_KEYS = Content.from_markup(
    "[$accent]↑↓[/] choose  [$accent]Enter[/] begin  [$accent]Tab[/] name another  "
    "[@click=screen.leave][$accent]Esc[/] begin with the guide[/]"
)


def _offered(item: Item, *, best: bool) -> Content:
    memory = item.estimate.memory
    guide = item.plan.model == STARTER
    sign = Content.styled("✓ ", "$success") if memory.fits else Content.styled("✗ ", "$error")
    name = "The built-in guide" if guide else clean(item.label).replace("\n", " ")
    tail = Content.styled("  suggested", "bold $accent") if best else Content("")
    if memory.fits:
        words = f"{about(item.estimate.plain)}, ≈ {rate(item.estimate.drafted)} with drafts · "
        words += f"{gib(memory.total - memory.reserve)} · "
        words += f"{item.plan.precision.value}, {tokens(item.plan.context)} context"
    else:
        words = f"needs {gib(memory.shortfall)} more than there is, even as small as it gets"
    if guide:
        words = f"small, knows localchat and little else; {about(item.estimate.plain)} plain"
    return Content.assemble(sign, Content.styled(name, "bold"), tail, "\n  ", Content.styled(clean(words), MUTED))


def _left(sign: str, left: Left) -> Content:
    """A model that was not weighed; its own path need not be said twice."""
    name = clean(left.name).replace("\n", " ")
    reason = clean(left.reason).replace(f"{name}/", "").replace(name, short_name(name))
    return Content.assemble(f"{sign} {name}\n  ", Content.styled(reason, MUTED))


def _folders() -> tuple[Path, ...]:
    """Where models may lie beside the hub cache."""
    try:
        here = Path.cwd()
    except OSError:  # it was deleted
        return (Path.home() / "models",)
    return tuple(dict.fromkeys((here, here / "models", Path.home() / "models")))
