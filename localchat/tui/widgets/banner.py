"""One thing the user should know now, and the way on."""

from __future__ import annotations

from textual.widgets import Static

from localchat.sanitize import clean
from localchat.tui.keymap import worded


class Banner(Static):
    """Hidden until there is something to say; escape puts it away."""

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self.display = False

    def tell(self, title: str, hint: str = "", *, problem: bool = False) -> None:
        """Say it; the hint may name keys as `{settings}`."""
        self.set_class(problem, "-problem")
        lines = (f"{'!' if problem else '·'} {title}", worded(self.app, hint))
        self.update(clean("\n".join(filter(None, lines))))
        self.display = True

    @property
    def pressing(self) -> bool:
        """It shows a problem."""
        return bool(self.display) and self.has_class("-problem")

    def dismiss(self) -> bool:
        """Put it away; False if there was nothing."""
        shown = bool(self.display)
        self.display = False
        return shown
