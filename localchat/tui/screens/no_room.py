"""It does not fit: what would, cheapest loss first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from localchat.models.offer import Item
from localchat.models.plan import LoadPlan
from localchat.sanitize import clean
from localchat.tui.choices import about, summary


class NoRoom(ModalScreen[LoadPlan | None]):
    """Ends with the plan to load, or None to go back and choose again."""

    HELP: ClassVar[str] = (
        "# No room\n\nEach line is a change that makes it fit, the one that costs least first. Loading it anyway may "
        "end in running out of memory; then what is loaded now comes back."
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back")]
    CSS = """
    NoRoom {
        align: center middle;
        & > Vertical {
            width: 76; max-width: 96%; height: auto; max-height: 90%; padding: 1 2;
            background: $surface; border: round $border;
        }
        Label { width: 1fr; margin-bottom: 1; }
        #why { text-style: bold; }
        #keys { color: $text-muted; margin: 1 0 0 0; }
        OptionList { height: auto; max-height: 50vh; border: none; padding: 0; background: transparent; }
    }
    """

    def __init__(self, why: str, items: Sequence[Item], forced: LoadPlan | None) -> None:
        """The question.

        Args:
            why: one sentence.
            items: changes that would make it fit.
            forced: the plan as it is, to be loaded all the same; None does not offer that.
        """
        super().__init__()
        self._why, self._items, self._forced = clean(why), tuple(items), forced

    def compose(self) -> ComposeResult:
        """The reason and the ways on."""
        options = [Option(_worded(item)) for item in self._items]
        if self._forced is not None:
            options.append(Option(Content.styled("Load it anyway: it may run out of memory", "$warning")))
        options.append(Option(Content("Back to the choices")))
        with Vertical():
            yield Label(self._why, id="why", markup=False)
            if not self._items:
                yield Label("No smaller setting of this model fits; choose a smaller model.", markup=False)
            yield OptionList(*options, markup=False)
            yield Label("↑ ↓ choose · Enter takes it · Esc goes back", id="keys", markup=False)

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        plans: list[LoadPlan | None] = [item.plan for item in self._items]
        if self._forced is not None:
            plans.append(self._forced)
        self.dismiss(plans[event.option_index] if event.option_index < len(plans) else None)

    def action_leave(self) -> None:
        """Back."""
        self.dismiss(None)


def _worded(item: Item) -> Content:
    title = clean(item.label[:1].upper() + item.label[1:])
    figures = f"{summary(item.plan)}, {about(item.estimate.drafted)}"
    return Content.assemble(title, "\n", Content.styled(f"  {clean(figures)}", "$text-muted"))
