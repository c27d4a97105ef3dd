"""The history of comparisons: open one again, or forget it."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from localchat.chat.store import Comparison, Store, StoreError
from localchat.tui.figures import plain
from localchat.tui.keys import bindings


class ComparisonsScreen(ModalScreen[Comparison | None]):
    """Dismisses with the comparison to show, or None."""

    HELP: ClassVar[str] = "# History\n\nEvery finished comparison is kept. **Enter** opens one, **D** forgets it."
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("comparisons"),
        Binding("escape", "dismiss", "Back", show=False),
    ]
    DEFAULT_CSS = """
    ComparisonsScreen {
        align: center middle; background: $background 60%;
        #box { width: 90%; max-width: 110; height: 80%; border: round $border; background: $surface; padding: 0 1; }
        OptionList, OptionList:focus { height: 1fr; background: transparent; border: none; padding: 0; }
        OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
        .foot { color: $muted; height: 1; }
    }
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._kept: list[Comparison] = []

    def compose(self) -> ComposeResult:
        """The list and what can be done."""
        with Vertical(id="box") as box:
            box.border_title = "Comparisons"
            yield OptionList(markup=False)
            yield Static("Enter opens · D forgets · Esc closes", classes="foot", markup=False)

    def on_mount(self) -> None:
        """Fill the list."""
        self._fill()

    def _fill(self) -> None:
        try:
            self._kept = self._store.comparisons()
        except StoreError as error:
            self._kept = []
            self.notify(f"{error.message} {error.hint}", severity="warning", markup=False)
        options = self.query_one(OptionList)
        options.clear_options()
        for kept in self._kept:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.created))
            options.add_option(Option(Content.assemble((f"{when}  ", "$muted"), plain(kept.title))))
        if self._kept:
            options.highlighted = 0
        else:
            options.add_option(Option("Nothing yet: a comparison is kept when it has finished.", disabled=True))

    @on(OptionList.OptionSelected)
    def _open(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._kept[event.option_index])

    def action_race_forget(self) -> None:
        """Forget the one under the cursor."""
        place = self.query_one(OptionList).highlighted
        if place is not None and place < len(self._kept):
            try:
                self._store.remove_comparison(self._kept[place].id)
            except StoreError as error:
                self.notify(f"{error.message} {error.hint}", severity="warning", markup=False)
            self._fill()
