"""The figures that matter most on one line, for screens that have no room for the panel."""

from __future__ import annotations

from localchat.tui.figures import MUTED, Line, duration, joined, percent, plain, rate, ratio, rule, spread
from localchat.tui.live import Live, Phase, Standing
from localchat.tui.round_strip import strip_lines
from localchat.tui.sections import state
from localchat.tui.widgets.lines import Lines

_STRIP = 16
"""Rounds shown as columns."""


class StatusLine(Lines):
    """One line; what has no room is left out, from the end."""

    DEFAULT_CSS = "StatusLine { height: 1; padding: 0 1; background: $surface; }"

    _live: Live = Live()

    def show(self, live: Live) -> None:
        """Show this state of things."""
        self._live = live
        self.redraw()

    def draw(self, width: int, height: int) -> list[Line]:
        """The line."""
        live = self._live
        sign, colour, words = state(live)
        line: Line = ((f"{sign} {words}", colour),)
        if live.phase in (Phase.LOADING, Phase.PREFILLING):
            return [joined([line, *_progress(live)], width)]
        if live.phase in (Phase.EMPTY, Phase.DEAD):
            problem = plain(live.problem.title) if live.problem else ""
            return [spread((*line, (f"  {problem}", MUTED)), (), width)]
        return [joined([line, *_figures(live)], width)]


def _figures(live: Live) -> list[Line]:
    stats = live.stats
    if not stats.rounds:
        known = f"plain {rate(live.plain_speed)} tok/s" if live.plain_speed else ""
        return [((known, MUTED),)] if known else []
    found: list[Line] = [((f"{rate(live.speed)} tok/s", "bold"),)]
    if live.standing is not Standing.OFF:
        found.insert(0, ((f"{ratio(live.speedup)} plain", ""),))
    if stats.drafted:
        found.append(((f"{percent(stats.acceptance_rate)} accepted", ""),))
        found.append(((f"{stats.tokens_per_round:.1f} a round", ""),))
        found.append(strip_lines([wrote.round for wrote in live.rounds[-_STRIP:]], _STRIP, 1)[0])
    if live.saved >= 0.05:
        found.append(((f"saved {duration(live.saved)}", ""),))
    return found


def _progress(live: Live) -> list[Line]:
    if live.phase is Phase.LOADING:
        done, total = (live.loading.done, live.loading.total) if live.loading else (0, 0)
        words = plain(live.loading.stage) if live.loading else ""
    else:
        done, total = (live.prefill.done, live.prefill.total) if live.prefill else (0, 0)
        words = f"{total} tokens" if total else ""
    share = done / total if total else 0.0
    return [rule(share, _STRIP, "$accent", "$rule"), ((percent(share), ""),), ((words, MUTED),)]
