"""The live panel's figures as lines of text, one function a section. Pure: a fold and a size in, lines out.

Every section keeps its number of lines while a reply is written, so nothing on the panel ever jumps.
"""

from __future__ import annotations

from dataclasses import dataclass

from localchat.engine.types import GenerationStats, SourceCount
from localchat.models.memory import MIB, gib
from localchat.tui import figures
from localchat.tui.figures import MUTED, Line, cut, duration, fit, percent, rate, ratio, rule, spread, wrap
from localchat.tui.live import Live, Phase, Standing
from localchat.tui.round_strip import strip_lines
from localchat.tui.sources import source_colour, sources_of
from localchat.tui.widgets import memory_bar

LABEL = 9
"""Cells that the names at the left take."""
SHORT, MEDIUM, TALL = 0, 1, 2
"""How much a section may say."""
_VALUE = 10


@dataclass(frozen=True, slots=True)
class Word:
    """A state in a word, with a sign and a colour."""

    sign: str
    colour: str
    now: str
    past: str


_WORDS = {
    Standing.NONE: Word("●", "$accepted", "Ready", "Ready"),
    Standing.OFF: Word("○", MUTED, "Drafting is off", "Drafting was off"),
    Standing.MEASURING: Word("◌", MUTED, "Measuring", "Too short to tell"),
    Standing.PARKED: Word("◐", "$warning", "Parked: plain is faster", "Parked: plain was faster"),
    Standing.PAYS: Word("▲", "$accepted", "Drafting pays", "Drafting paid off"),
    Standing.EVEN: Word("≈", "$foreground", "No gain just now", "No gain"),
    Standing.COSTS: Word("▼", "$warning", "Drafting costs time", "Drafting cost time"),
}
_PHASES = {
    Phase.EMPTY: Word("○", MUTED, "No model is loaded", ""),
    Phase.LOADING: Word("◌", "$accent", "Loading", ""),
    Phase.PREFILLING: Word("◌", "$accent", "Reading the prompt", ""),
    Phase.STOPPING: Word("■", "$warning", "Stopping", ""),
    Phase.DEAD: Word("✕", "$error", "The engine has ended", ""),
}


def state(live: Live) -> tuple[str, str, str]:
    """Sign, colour and words of how things stand."""
    if word := _PHASES.get(live.phase):
        return word.sign, word.colour, word.now
    word = _WORDS[live.standing]
    if live.standing is Standing.OFF and not live.stats.rounds:
        return word.sign, word.colour, "Ready, drafting is off"
    return word.sign, word.colour, word.now if live.busy else word.past


def verdict(live: Live, width: int, level: int = SHORT) -> list[Line]:
    """Whether drafting pays: in words, as two bars, and in seconds. Four lines."""
    sign, colour, words = state(live)
    drafts = live.stats.rounds and live.standing is not Standing.OFF
    gain = ratio(live.speedup) if drafts else ""
    head = spread(((f"{sign} ", colour), (words, f"bold {colour}")), ((gain, f"bold {colour}"),), width)
    if live.phase is Phase.PREFILLING:
        return [head, *_reading(live, width), _saved(live, width)]
    best = max(live.speed, live.plain_speed) or 1.0
    speed = _speed_line("speed", live.speed, live.speed / best, colour, width)
    plain = _speed_line("plain", live.plain_speed, live.plain_speed / best, MUTED, width)
    return [head, speed, plain, _saved(live, width)]


def _speed_line(name: str, speed: float, share: float, colour: str, width: int) -> Line:
    bar = rule(share, width - LABEL - _VALUE, colour, "$rule")
    value = f"{rate(speed)} tok/s" if speed else "–"
    return (_label(name), *bar, (f"{value:>{_VALUE}}", "bold" if name == "speed" and speed else ""))


def _reading(live: Live, width: int) -> list[Line]:
    done, total = (live.prefill.done, live.prefill.total) if live.prefill else (0, 0)
    bar = rule(done / total if total else 0.0, width - LABEL - _VALUE, "$accent", "$rule")
    share = percent(done / total) if total else "–"
    count = f"{done} of {total} tokens" if total else "begins"
    return [(_label("prompt"), *bar, (f"{share:>{_VALUE}}", "")), _row("", count, width, MUTED)]


def _saved(live: Live, width: int) -> Line:
    saved = live.saved
    if abs(saved) < 0.05:
        return _row("saved", "nothing yet", width, MUTED)
    if saved < 0:
        return _row("lost", f"{duration(-saved)} in this chat", width, "$warning")
    return _row("saved", f"{duration(saved)} in this chat", width)


def rounds(live: Live, width: int, level: int) -> list[Line]:
    """Tokens per round, what a round must give to pay, and the last rounds as columns."""
    each = f"{live.stats.tokens_per_round:.1f} tokens" if live.stats.rounds else "–"
    pays = f"pays > {live.round_cost:.1f}" if live.round_cost and live.drafted else ""
    head = spread((_label("rounds"), (each, "bold")), ((pays, MUTED),), width)
    return [head, *strip_lines([wrote.round for wrote in live.rounds[-width:]], width, 2 + level)]


def accepted(live: Live, width: int, level: int) -> list[Line]:
    """Acceptance in all and by position in the draft."""
    stats = live.stats
    overall = percent(stats.acceptance_rate) if stats.drafted else "–"
    count = f"{stats.accepted} of {stats.drafted}" if stats.drafted else ""
    head = spread((_label("accepted"), (overall, "bold")), ((count, MUTED),), width)
    rows = (1, 2, 3)[level]
    shares = stats.acceptance_by_position[: width - LABEL]
    step = next((size for size in (3, 2) if len(shares) * size <= width - LABEL), 1)
    bars = figures.columns(shares, rows) if shares else [""] * (rows - 1) + ["–"]
    lines: list[Line] = [head]
    for row, column in enumerate(bars):
        name = "by place" if row == rows - 1 else ""
        wide = "".join((mark * max(1, step - 1)).ljust(step) for mark in column)
        lines.append((_label(name), (wide if shares else column, "$accepted" if shares else MUTED)))
    if level:
        lines.append((_label(""), (_axis(len(shares), step), MUTED)))
    return lines


def _axis(count: int, step: int) -> str:
    """Numbers of positions under their columns, each as often as there is room for it."""
    text = ""
    for position in range(1, count + 1):
        start = (position - 1) * step
        if start >= len(text) + (1 if text else 0):
            text = text.ljust(start) + str(position)
    return text


def sources(live: Live, width: int, level: int = SHORT) -> list[Line]:
    """Per source: accepted of drafted, and the rate; then what the target added by itself."""
    known = dict(live.stats.by_source)
    names = dict.fromkeys((*sources_of(live.loaded), *known))
    lines = [_source(name, known.get(name, SourceCount()), width) for name in names]
    own = live.stats.tokens - live.stats.accepted
    value = f"{own} own" if live.stats.rounds else "–"
    return [*lines, spread((("▇ ", MUTED), ("target", MUTED)), ((value, ""),), width)]


def _source(name: str, count: SourceCount, width: int) -> Line:
    share = percent(count.accepted / count.drafted) if count.drafted else "–"
    figures_ = f"{count.accepted} of {count.drafted}" if count.drafted else ""
    left = (("▇ ", source_colour(name)), (fit(figures.plain(name), 12), MUTED))
    return spread(left, ((figures_, MUTED), (f"{share:>6}", "")), width)


def governor(live: Live, width: int, level: int) -> list[Line]:
    """What it decided for the last round, why, and what it expects: tokens, and time in plain rounds."""
    last = live.last
    if not live.accelerate:
        text, colour = "switched off", MUTED
    elif last is None:
        text, colour = "–", MUTED
    else:
        decision = last.decision
        text, colour = figures.plain(decision.reason), "$warning" if decision.parked else ""
        if last.drafted:
            text += f": {decision.expected_tokens:.1f} tokens for {decision.expected_cost:.1f}"
    rows = wrap(text, width - LABEL, 2 + level)
    rows += [""] * (2 + level - len(rows))
    return [(_label("" if row else "governor"), (words, colour)) for row, words in enumerate(rows)]


def time(live: Live, width: int, level: int) -> list[Line]:
    """Where the time of the rounds went."""
    stats = live.stats
    seconds = (stats.draft_seconds, stats.verify_seconds, stats.host_seconds)
    total = sum(seconds)
    if not total:
        blank: list[Line] = [_row("time", "–", width, MUTED)]
        return [*blank, ()] if level else blank
    shares = [part / total for part in seconds]
    named = list(zip(("draft", "verify", "host"), shares, strict=True))
    if not level:
        words = " · ".join(f"{name} {share * 100:.0f}" for name, share in named) + " %"
        return [((fit(words, width), MUTED),)]
    marks = (("▒", "$gauge-draft"), ("█", "$gauge-target"), ("░", "$gauge-work"))
    cells = figures.apportion(shares, width - LABEL)
    bar = tuple((mark * count, colour) for (mark, colour), count in zip(marks, cells, strict=True))
    words_: list[tuple[str, str]] = []
    for (mark, colour), (name, share) in zip(marks, named, strict=True):
        words_ += [(f"{mark} ", colour), (f"{name} {share * 100:.0f}", MUTED), (" ", "")]
    return [(_label("time %"), *bar), cut(tuple(words_[:-1]), width)]


def memory(live: Live, width: int, level: int) -> list[Line]:
    """One bar of all memory, its parts, and how it grew."""
    if live.usage is None:
        return [_row("memory", "–", width, MUTED)]
    parts = memory_bar.measured(live.usage)
    share = percent(memory_bar.used_share(parts))
    head = (_label("memory"), *memory_bar.bar(parts, width - LABEL - 6), (f"{share:>6}", ""))
    if not level:
        return [head, *memory_bar.brief(parts, width)]
    return [head, *memory_bar.legend(parts, width), _growth(live, width)]


def _growth(live: Live, width: int) -> Line:
    grown = live.growth
    sign = "+" if grown > 0 else "−"
    text = f"{sign}{gib(abs(grown))}" if abs(grown) >= MIB else "no growth"
    return spread((("  in this chat", MUTED),), ((text, MUTED if text == "no growth" else ""),), width)


def reply(live: Live, width: int, level: int) -> list[Line]:
    """Time to the first token and in all, and how much was read and written."""
    stats = live.stats
    first = duration(live.first_seconds) if live.first_seconds is not None else "–"
    total = duration(live.total_seconds) if live.replies and live.total_seconds else "–"
    lines = [spread((("first token ", MUTED), (first, "")), (("total ", MUTED), (total, "")), width)]
    if level:
        count = f"{stats.tokens} tokens, {stats.rounds} rounds" if stats.rounds else "–"
        lines.append(_row("reply", count, width))
    if level >= TALL:
        lines.append(_row("prompt", _prompt(live, stats), width))
        lines.append(_row("chat", f"{live.tokens} tokens", width))
    if level >= TALL and live.loaded:
        lines.append(_row("mode", "exact, same text" if live.loaded.exact else "fast", width))
    return lines


def _prompt(live: Live, stats: GenerationStats) -> str:
    if stats.prompt_tokens:
        kept = stats.prompt_tokens - stats.prefilled
        return f"{stats.prompt_tokens} tokens" + (f", {kept} kept" if kept > 1 else "")
    verb = "to read" if live.phase is Phase.PREFILLING else "read"
    return f"{live.prefill.total} {verb}" if live.prefill else "–"


def waiting(live: Live, width: int) -> list[Line]:
    """What there is to say while no model is loaded."""
    sign, colour, words = state(live)
    lines: list[Line] = [((f"{sign} ", colour), (fit(words, width - 2), f"bold {colour}"))]
    if live.phase is Phase.LOADING and live.loading:
        share = live.loading.done / live.loading.total if live.loading.total else 0.0
        shown = percent(share) if live.loading.total else ""
        lines.append((*rule(share, width - 6, "$accent", "$rule"), (f"{shown:>6}", "")))
        return lines + [((text, MUTED),) for text in wrap(figures.plain(live.loading.stage), width, 2)]
    if live.problem:
        lines += [((text, ""),) for text in wrap(figures.plain(live.problem.title), width, 6)]
        lines += [((text, MUTED),) for text in wrap(figures.plain(live.problem.hint), width, 4)]
    return lines


def _label(name: str) -> tuple[str, str]:
    return name.ljust(LABEL), MUTED


def _row(name: str, value: str, width: int, style: str = "") -> Line:
    return (_label(name), (fit(value, width - LABEL), style))
