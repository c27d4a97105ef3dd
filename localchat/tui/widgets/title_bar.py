"""The top line: what is loaded, and how acceleration stands."""

from __future__ import annotations

from localchat.chat.events import Loaded
from localchat.tui.figures import MUTED, Line, fit, joined, plain, rate, ratio, short_name, spread, thousands, width_of
from localchat.tui.live import Live, Phase, Standing
from localchat.tui.sections import state
from localchat.tui.widgets.lines import Lines


class TitleBar(Lines):
    """One line."""

    DEFAULT_CSS = "TitleBar { height: 1; padding: 0 1; background: $surface; }"

    _live: Live = Live()
    _title: str = ""

    def show(self, live: Live, title: str = "") -> None:
        """Show this state of things, and the title of the chat if there is room."""
        self._live, self._title = live, title
        self.redraw()

    def draw(self, width: int, height: int) -> list[Line]:
        """The line."""
        right = _right(self._live)
        parts = [(("localchat", "bold $accent"),), *_models(self._live)]
        if self._title:
            parts.append(((plain(self._title), MUTED),))
        return [spread(joined(parts, width - width_of(right) - 2), right, width)]


def _models(live: Live) -> list[Line]:
    loaded = live.loaded
    if loaded is None:
        stage = plain(live.loading.stage) if live.phase is Phase.LOADING and live.loading else ""
        return [((stage, MUTED),)] if stage else []
    words = (_drafting(loaded), thousands(loaded.plan.context), "exact" if loaded.exact else "fast")
    return [((_target(loaded), "bold"),), *(((word, MUTED),) for word in words)]


def _target(loaded: Loaded) -> str:
    return fit(f"{short_name(loaded.model_name)} {loaded.plan.precision.value}", 40)


def _drafting(loaded: Loaded) -> str:
    method = loaded.plan.draft
    if loaded.draft_name and method != "lookup":
        inside = loaded.draft_name == loaded.model_name
        return f"draft {loaded.draft_kind if inside else short_name(loaded.draft_name)}"
    return "no draft" if method == "off" else fit(method, 12)


def _right(live: Live) -> Line:
    sign, colour, words = state(live)
    if live.phase in (Phase.EMPTY, Phase.LOADING, Phase.DEAD, Phase.PREFILLING, Phase.STOPPING):
        return ((f"{sign} {words}", colour),)
    switch = "on" if live.accelerate else "off"
    if live.accelerate and live.standing is Standing.PARKED:
        switch = "parked"
    pieces = [(f"{sign} {switch}", colour)]
    if live.stats.rounds:
        gain = f" · {ratio(live.speedup)}" if live.standing is not Standing.OFF and live.speedup else ""
        pieces += [(gain, f"bold {colour}"), (f" · {rate(live.speed)} tok/s", "")]
    return tuple(pieces)
