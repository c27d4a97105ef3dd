"""What will be compared, and how: always in view, so that no figure stands without its conditions."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

from localchat.tui.figures import MUTED, Line, fit, plain, short_name, spread, width_of
from localchat.tui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class Setup:
    """The choices for the next comparison."""

    model: str = "no model"
    kinds: bool = False
    """Six kinds of work, not one prompt."""
    repeats: int = 3
    conditions: tuple[str, ...] = ()
    """Those of what is shown, or of the next comparison if nothing is."""
    keys: tuple[str, str] = ("", "")
    """That change `kinds` and `repeats`, as people write them."""


class RaceSetup(Lines):
    """The choices with their keys, and the conditions."""

    DEFAULT_CSS = "RaceSetup { height: 3; padding: 0 1; }"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._setup = Setup()

    def show(self, setup: Setup) -> None:
        """Show these."""
        self._setup = setup
        self._adapt()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._adapt()

    def _adapt(self) -> None:
        """Take as many rows as the conditions need, two at most."""
        self.styles.height = 1 + min(2, len(self._conditions(self.size.width)))
        self.redraw()

    def draw(self, width: int, height: int) -> list[Line]:
        """The choices first; the conditions take the rows that are left."""
        rows = self._conditions(width)[: height - 1]
        choices = self._choices()
        model = fit(short_name(self._setup.model), width - width_of(choices) - 2) if self._has_room(width) else ""
        return [spread(choices, ((model, MUTED),), width), *(((fit(row, width), MUTED),) for row in rows)]

    def _choices(self) -> Line:
        setup = self._setup
        return (
            ("Compare  ", "bold $primary"),
            (f" {setup.keys[0]} ", "$accent"),
            *_choice("this prompt", on=not setup.kinds),
            ("  ", ""),
            *_choice("six kinds of work", on=setup.kinds),
            ("  ", ""),
            (f" {setup.keys[1]} ", "$accent"),
            (f"n = {setup.repeats}", "bold"),
        )

    def _has_room(self, width: int) -> bool:
        """The model's name fits beside the choices."""
        return width - width_of(self._choices()) - 2 >= min(len(short_name(self._setup.model)), 24)

    def _conditions(self, width: int) -> list[str]:
        parts = self._setup.conditions if self._has_room(width) else (self._setup.model, *self._setup.conditions)
        return _rows([plain(part) for part in parts], width)


def _choice(text: str, *, on: bool) -> Line:
    return (("● " if on else "○ ", "$accent" if on else MUTED), (text, "bold" if on else MUTED))


def _rows(parts: list[str], width: int) -> list[str]:
    """Parts in rows, broken between parts."""
    rows = [""]
    for part in parts:
        longer = f"{rows[-1]} · {part}" if rows[-1] else part
        if rows[-1] and cell_len(longer) > width:
            rows.append(part)
        else:
            rows[-1] = longer
    return rows
