"""Lines of styled text that change often: only those that differ are drawn again, nothing is laid out anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from localchat.tui.figures import Line


class Looks:
    """Styles in textual's words as they come out on a widget, under the theme of the moment."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._known: dict[str, RichStyle] = {}

    def forget(self) -> None:
        """The theme or the widget's colours have changed."""
        self._known.clear()

    def strip(self, line: Line, width: int) -> Strip:
        """A line, cut or filled up to a width."""
        segments = [Segment(text, self[style]) for text, style in line if text]
        return Strip(segments).adjust_cell_length(width, self[""])

    def __getitem__(self, style: str) -> RichStyle:
        known = self._known.get(style)
        if known is None:
            base = self._widget.visual_style
            known = self._known[style] = (base + Style.parse(style) if style else base).rich_style
        return known


class Lines(Widget):
    """Shows lines of (text, style) pieces, cut at its right edge. Pieces are never read as markup.

    A subclass says what to show in `draw`, and calls `redraw` when that may have changed; others use `show_by`.
    """

    ALLOW_SELECT = False

    lines: tuple[Line, ...] = ()
    """What is shown."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._looks = Looks(self)
        self._source: Callable[[int, int], Sequence[Line]] = lambda width, height: ()

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.redraw()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.redraw()

    def on_show(self) -> None:
        """Draw what came while it was hidden."""
        self.redraw()

    def show_by(self, source: Callable[[int, int], Sequence[Line]]) -> None:
        """Show what a function of width and height gives, now and at every other size."""
        self._source = source
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """The lines for a size in cells."""
        return self._source(width, height)

    def redraw(self) -> None:
        """Draw again; costs little where nothing has changed."""
        width, height = self.size
        if not self.is_mounted or not self.display or not width or not height:
            return
        old, self.lines = self.lines, tuple(self.draw(width, height))
        count = max(len(old), len(self.lines))
        changed = [y for y in range(count) if old[y : y + 1] != self.lines[y : y + 1]]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def notify_style_update(self) -> None:
        """Forget colours of another theme."""
        self._looks.forget()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        """One line, filled up to the full width."""
        line = self.lines[y] if y < len(self.lines) else ()
        return self._looks.strip(line, self.size.width)
