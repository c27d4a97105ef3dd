"""What the settings screen shows: the memory in one bar, a row for each choice, and what a choice means."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.markup import escape
from textual.screen import Screen
from textual.widgets import Static

from localchat.models.memory import MemoryPlan
from localchat.models.offer import Key
from localchat.models.plan import LoadPlan
from localchat.sanitize import clean
from localchat.tui.choices import comes_to, explained, legend, size
from localchat.tui.choosing import PROFILE, Choosing
from localchat.tui.desk import Desk
from localchat.tui.figures import MUTED, short_name
from localchat.tui.keymap import keys_of, spelled, worded
from localchat.tui.keys import ACTIONS
from localchat.tui.widgets.choice_row import Cell, ChoiceRow
from localchat.tui.widgets.load_line import LoadLine
from localchat.tui.widgets.memory_bar import MemoryBar, planned

_ROWS = (
    ("fit", "Fit for me"),
    ("model", "Model"),
    ("precision", "Precision"),
    ("draft", "Drafting"),
    ("draft_precision", "Draft in"),
    ("context", "Context"),
    ("mode", "Mode"),
    (PROFILE, "Profile"),
)
_PROFILES = "A profile is a set of choices with a name. {save-profile} keeps the ones you see under a name of yours."
_ROOMY, _AIRY = 34, 48
"""Lines of the screen from which each row has a second one, and an empty one after it."""


class SettingsView(Screen[LoadPlan | None]):
    """Shows a `Choosing`; what keys do is the subclass's."""

    HELP: ClassVar[str] = """# Settings

`↑` `↓` go from row to row, `←` `→` change what is chosen; the bar shows at once what it would take. Nothing is loaded
until you press `enter`. `✓` fits, `✗` does not, `•` differs from what is loaded, `≈` is reckoned and not measured. A
small reserve for other programs is never planned away.

- **Fit for me**: the fastest, the longest or the most precise that fits; sets all rows below.
- **Precision**: how the model's weights are stored. Fewer bits: less memory, more speed, a little less precise.
- **Drafting**: who guesses ahead. It never changes the text in exact mode, only the speed. `!` marks a head that was
  trained for other weights than the model has now.
- **Context**: how many tokens a conversation may hold; its caches are set aside in full.
- **Mode**: exact keeps the text the same with and without drafts; fast may differ where two tokens are nearly tied.
- **Profile**: choices kept under a name; `s` keeps the ones you see.

If a load fails, what worked before is loaded again.
"""
    CSS = """
    SettingsScreen {
        align: center top;
        #page { max-width: 130; height: 1fr; }
        #title { dock: top; height: 1; padding: 0 1; background: $surface; text-wrap: nowrap; }
        MemoryBar { margin: 1 1 0 1; }
        #legend { height: auto; max-height: 2; padding: 0 1; text-wrap: nowrap; }
        #sum { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        #rows { height: auto; max-height: 52%; padding: 0 1; margin-top: 1; scrollbar-size-vertical: 1; }
        #words { height: auto; min-height: 3; max-height: 5; padding: 0 1; margin-top: 1; }
        #told { height: auto; max-height: 5; padding: 0 1; }
        LoadLine { margin: 0 1; }
        #keys { dock: bottom; height: 1; padding: 0 1; background: $surface; color: $muted; text-wrap: nowrap; }
    }
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.choosing: Choosing | None = None
        """None until machine and models are known."""
        self.profile = desk.resolved.profile
        """The profile that is chosen; empty for none."""

    def compose(self) -> ComposeResult:
        """The memory, the choices, and what they mean."""
        yield Static("", id="title", markup=False)
        with Vertical(id="page"):
            yield MemoryBar()
            yield Static("", id="legend", markup=False)
            yield Static("", id="sum", markup=False)
            with VerticalScroll(id="rows", can_focus=False):
                for name, title in _ROWS:
                    yield ChoiceRow(title, id=name)
            yield Static("", id="words", markup=False)
            yield LoadLine()
            yield Static("", id="told", markup=False)
        yield Static(_foot(self.app), id="keys", markup=False)

    def on_resize(self, event: Resize) -> None:
        """Two lines a row where there is room."""
        for row in self.query(ChoiceRow):
            row.set_class(event.size.height >= _ROOMY, "-roomy")
            row.set_class(event.size.height >= _AIRY, "-airy")
        if self.choosing is not None:
            self.call_after_refresh(self.show_choices, self.choosing)

    def show_choices(self, choosing: Choosing) -> None:
        """Bring everything up to date."""
        for name, _ in _ROWS:
            self._show_row(name, choosing)
        self._show_sum(choosing)
        self.show_words()

    def _show_row(self, name: str, choosing: Choosing) -> None:
        widget = self.query_one(f"#{name}", ChoiceRow)
        if name == PROFILE:
            names = ["none", *(clean(profile) for profile, _ in self.desk.file.profiles)]
            known = [profile for profile, _ in self.desk.file.profiles]
            at = known.index(self.profile) + 1 if self.profile in known else 0
            widget.show([Cell(one) for one in names], at, changed=self.profile != self.desk.resolved.profile)
            return
        row = choosing.row(name)
        shown = row is not None and bool(row.items)
        if not shown and widget.has_focus:
            self.query_one("#draft" if name == "draft_precision" else "#model", ChoiceRow).focus()
        widget.display = shown
        if row is not None:
            widget.show(choosing.cells(row), row.chosen, changed=choosing.differs(row))

    def _show_sum(self, choosing: Choosing) -> None:
        machine, estimate = choosing.machine, choosing.estimate
        self.titled(f"{machine.title or machine.device} · {size(machine.free)} of {size(machine.total)} GiB for models")
        if estimate is None:
            self.query_one("#sum", Static).update(self._missing(choosing), layout=False)
            return
        memory = estimate.memory
        self.query_one(MemoryBar).show(*planned(memory, machine.total))
        self.query_one("#legend", Static).update(self._legend(memory, machine.total))
        words = worded(self.app, comes_to(estimate, self.desk.loaded, changed=choosing.changed))
        style = "bold" if memory.fits else "bold $error"
        self.query_one("#sum", Static).update(Content.styled(words, style), layout=False)

    def _legend(self, memory: MemoryPlan, total: int) -> Content:
        """The parts of the bar, in two lines where one is too short."""
        left = ("·", "$gauge-free", f"free {size(memory.free)}") if memory.fits else ("✗", "$error", "does not fit")
        width, lines = self.query_one("#page").size.width - 2, [Content("")]
        for sign, colour, words in (*legend(memory, total), left):
            part = Content.assemble((sign, colour), f" {words}")
            longer = lines[-1] + Content("  ") + part if lines[-1].cell_length else part
            lines = [*lines[:-1], longer] if longer.cell_length <= width else [*lines, part]
        return Content("\n").join(lines)

    def _missing(self, choosing: Choosing) -> Content:
        """Why there is nothing to show for the model that is chosen."""
        name, left = short_name(choosing.plan.model), choosing.left
        if left and left.may_try:
            return Content.styled(f"{name}: {clean(left.reason)}. {worded(self.app, '{apply}')} loads it.", "bold")
        why = left.reason if left else "it is not on this machine"
        return Content.styled(clean(f"{name} cannot be chosen: {why}"), "$warning")

    def show_words(self) -> None:
        """Say what the choice under the cursor means."""
        choosing, focused = self.choosing, self.focused
        if choosing is None or not isinstance(focused, ChoiceRow):
            return
        if focused.id == PROFILE:
            self.say(worded(self.app, _PROFILES))
            return
        row, item = choosing.row(focused.id or ""), choosing.item(focused.id or "")
        if row is None or item is None:
            self.say("Left or right chooses one of these; the rows below follow." if row else "")
        elif choosing.unknown and focused.id == Key.DRAFT:
            self.say("Looking for models that can draft for this one…")
        else:
            self.say(explained(row, item, choosing.stock, choosing.partners))

    def titled(self, words: str) -> None:
        """The line at the top."""
        title = Content.assemble(("Settings", "bold $accent"), Content.styled(f"  {clean(words)}", MUTED))
        self.query_one("#title", Static).update(title, layout=False)

    def say(self, words: str) -> None:
        """A text about the choice under the cursor."""
        self.query_one("#words", Static).update(clean(words))

    def tell(self, words: str, hint: str = "") -> None:
        """What has happened, and the way on."""
        self.query_one("#told", Static).update(clean(" ".join(filter(None, (words, hint)))))


def _foot(app: App[object]) -> Content:
    """The keys as they are set, each also to be clicked."""
    parts = ["[$accent]↑↓[/] row", "[$accent]←→[/] choose"]
    for action in ACTIONS:
        keys = keys_of(app, action)
        if action.where == "settings" and keys:
            name = escape(spelled(keys[0]))
            parts.append(f"[@click=screen.{action.name}][$accent]{name}[/] {action.label.lower()}[/]")
    return Content.from_markup("  ".join(parts))
