"""What one chat has of its own: the system message and how tokens are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal, VerticalScroll
from textual.markup import escape
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Select, Static, TextArea

from localchat.config import Resolved, read
from localchat.engine.types import Sampling
from localchat.errors import UsageError
from localchat.paths import config_file
from localchat.sanitize import clean
from localchat.tui.attach import plain
from localchat.tui.keys import bindings

if TYPE_CHECKING:
    from localchat.chat.records import Chat

SETTINGS = "as in the settings"
OWN = "own values"


@dataclass(frozen=True, slots=True)
class Preset:
    """A named way to choose tokens."""

    name: str
    sampling: Sampling


BUILTIN = (
    Preset("precise", Sampling(temperature=0.2, top_p=0.9)),
    Preset("balanced", Sampling(temperature=0.7, top_p=0.95)),
    Preset("creative", Sampling(temperature=1.1, min_p=0.05)),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A number that can be set."""

    key: str
    label: str
    hint: str


ROWS = (
    Row("temperature", "Temperature", "0: always the likeliest"),
    Row("top_p", "Top-p", "1: off"),
    Row("top_k", "Top-k", "0: off"),
    Row("min_p", "Min-p", "0: off"),
    Row("repetition_penalty", "Repetition penalty", "1: off"),
    Row("presence_penalty", "Presence penalty", "0: off"),
    Row("frequency_penalty", "Frequency penalty", "0: off"),
    Row("seed", "Seed", "new each time"),
)
_WHOLE = ("top_k", "seed")


def presets(resolved: Resolved) -> tuple[Preset, ...]:
    """The settings' own, the built-in ones, and each profile of the config file that says how to choose tokens."""
    keys = [key.name for key in fields(Sampling) if key.name != "seed"]
    base = Sampling(**{key: getattr(resolved.settings, key) for key in keys})
    try:
        profiles = read(config_file()).profiles
    except UsageError:  # said at the start
        profiles = ()
    named = []
    for name, values in profiles:
        own = {key: value for key, value in values if key in keys}
        if own:
            named.append(Preset(clean(name), replace(base, **own)))  # type: ignore[arg-type]  # checked when read
    return Preset(SETTINGS, base), *BUILTIN, *named


class ChatOptionsScreen(ModalScreen["Chat | None"]):
    """Ends with the changed chat, or None if the user leaves."""

    HELP: ClassVar[str] = """\
# Chat options

They belong to this chat alone. **Ctrl+S** keeps them, **Esc** leaves everything as it was; **Tab** moves on.

The same **seed** gives the same reply to the same messages; empty, each reply gets a new one.
"""
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("chat-options"),
        Binding("escape", "leave", "Cancel"),
    ]
    DEFAULT_CSS = """
    ChatOptionsScreen {
        align: center middle;
        & > VerticalScroll {
            width: 78; max-width: 100%; height: auto; max-height: 100%; padding: 0 2;
            background: $surface; border: round $border; border-title-style: bold;
        }
        TextArea { height: 5; border: none; padding: 0 1; background: $panel; }
        Grid { grid-size: 2; grid-columns: 1fr 1fr; grid-rows: 1; grid-gutter: 0 2; height: 4; margin: 1 0 0 0; }
        .row { height: 1; }
        .row Label { width: 19; }
        .row.-here > Label { color: $primary; text-style: bold underline; }
        .row Input { width: 1fr; padding: 0 1; background: $panel; }
        Select { width: 1fr; & > SelectCurrent { background: $panel; padding: 0 1 !important; } }
        #preset-row { height: 1; margin: 1 0 0 0; }
        #problem { height: 1; color: $error; text-style: bold; margin: 1 0 0 0; }
        .hint { color: $text-muted; }
        #buttons { height: 1; }
        #buttons Button { margin: 0 2 0 0; }
        #buttons .hint { width: 1fr; text-align: right; }
    }
    """

    def __init__(self, chat: Chat, presets: Sequence[Preset]) -> None:
        super().__init__()
        self._chat = chat
        self._presets = {preset.name: preset.sampling for preset in presets}

    @property
    def _named(self) -> str:
        """The preset that the chat has now."""
        if self._chat.sampling is None:
            return SETTINGS
        same = self._presets.get(self._chat.preset)
        return self._chat.preset if same == replace(self._chat.sampling, seed=0) else OWN

    def compose(self) -> ComposeResult:
        """System message, preset, numbers."""
        sampling = self._chat.sampling or self._presets[SETTINGS]
        with VerticalScroll(can_focus=False) as box:
            box.border_title = "Options of this chat"
            yield Label("System message", classes="hint")
            yield TextArea(plain(self._chat.system), compact=True, highlight_cursor_line=False, id="system")
            with Horizontal(id="preset-row", classes="row"):
                yield Label("Sampling")
                names = [SETTINGS, *(name for name in self._presets if name != SETTINGS), OWN]
                shown = [(escape(name), name) for name in names]
                yield Select(shown, value=self._named, allow_blank=False, compact=True)
            with Grid():
                for row in ROWS:
                    with Horizontal(classes="row"):
                        yield Label(row.label)
                        yield Input(self._text(row.key, sampling), placeholder=row.hint, id=row.key, compact=True)
            yield Static("", id="problem", markup=False)
            with Horizontal(id="buttons"):
                yield Button("Keep", id="keep", variant="primary", compact=True)
                yield Button("Cancel", id="leave", compact=True)
                yield Label("Ctrl+S keeps, Esc leaves.", classes="hint")

    def _text(self, key: str, sampling: Sampling) -> str:
        if key == "seed":
            return "" if self._chat.seed is None else str(self._chat.seed)
        return f"{getattr(sampling, key):g}"

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Mark the row that has the keys."""
        for row in self.query(".row"):
            row.set_class(row in event.widget.ancestors, "-here")

    @on(Select.Changed)
    def _preset_chosen(self, event: Select.Changed) -> None:
        sampling = self._presets.get(str(event.value))
        if sampling is None:
            return
        with self.prevent(Input.Changed):
            for row in ROWS:
                if row.key != "seed":
                    self.query_one(f"#{row.key}", Input).value = self._text(row.key, sampling)
        self._check()

    @on(Input.Changed)
    def _number_typed(self, event: Input.Changed) -> None:
        changed = self._check()
        select = self.query_one(Select)
        preset = self._presets.get(str(select.value))
        if event.input.id != "seed" and (changed is None or self._sampling() != preset):
            with self.prevent(Select.Changed):
                select.value = OWN

    def _check(self) -> Chat | None:
        """The chat as it is set here; None, and the reason on screen, if something is wrong."""
        problem, changed = "", None
        try:
            changed = self._changed()
        except ValueError as error:
            problem = f"! {str(error)[0].upper()}{str(error)[1:]}."
        self.query_one("#problem", Static).update(problem)
        return changed

    def _changed(self) -> Chat:
        """The chat as it is set here.

        Raises:
            ValueError: what is wrong, in words.
        """
        sampling = self._sampling()
        seed_text = self.query_one("#seed", Input).value.strip()
        seed = int(self._number(ROWS[-1])) if seed_text else None
        replace(sampling, seed=seed or 0)  # refuses a seed out of range
        name = str(self.query_one(Select).value)
        system = plain(self.query_one("#system", TextArea).text).strip()
        if name == SETTINGS:
            return replace(self._chat, system=system, sampling=None, preset="", seed=seed)
        return replace(self._chat, system=system, sampling=sampling, preset="" if name == OWN else name, seed=seed)

    def _sampling(self) -> Sampling:
        return Sampling(**{row.key: self._number(row) for row in ROWS if row.key != "seed"})  # type: ignore[arg-type]

    def _number(self, row: Row) -> int | float:
        text = self.query_one(f"#{row.key}", Input).value.strip()
        try:
            return int(text) if row.key in _WHOLE else float(text.replace(",", "."))
        except ValueError:
            kind = "a whole number" if row.key in _WHOLE else "a number"
            raise ValueError(f"{row.label.lower()} must be {kind}") from None

    @on(Input.Submitted)
    @on(Button.Pressed, "#keep")
    def action_keep_options(self) -> None:
        """Keep what is set, if it can be."""
        changed = self._check()
        if changed is not None:
            self.dismiss(changed)

    @on(Button.Pressed, "#leave")
    def action_leave(self) -> None:
        """Leave everything as it was."""
        self.dismiss(None)
