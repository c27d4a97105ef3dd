"""What a comparison says in words: the screen, its Markdown and its picture all take them from here."""

from __future__ import annotations

from localchat.bench.compare import Sameness, Verdict, sentence
from localchat.bench.comparison import Comparison, Race
from localchat.bench.runner import Result, Spread

MARKS = {Verdict.SAME: "= same", Verdict.TIE: "≈ tie", Verdict.DIFFERENT: "≠ differs"}
"""The verdict on two texts, readable without colour."""


def ratio(spread: Spread, runs: int) -> str:
    """A ratio with its range; one run has none."""
    return f"{spread.median:.2f}×" + (f" ({spread.low:.2f}–{spread.high:.2f})" if runs > 1 else "")


def mark(same: Sameness) -> str:
    """The verdict on two texts in a word."""
    return MARKS[same.verdict]


def seconds(value: float) -> str:
    """A time as people say it."""
    if value < 1:
        return f"{1000 * value:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def count(comparison: Comparison) -> str:
    """How many replies a figure stands for."""
    runs = [result.runs for result in comparison.drafted] or [0]
    text = f"n = {min(runs)}" + (f" to {max(runs)}" if min(runs) < max(runs) else "")
    return text + (f" a kind ({each(comparison)})" if len(comparison.drafted) > 1 else "")


def each(comparison: Comparison) -> str:
    """How often a prompt was asked."""
    return "each prompt once" if comparison.repeats == 1 else f"each prompt {comparison.repeats} times"


def method(comparison: Comparison) -> str:
    """How was drafted, in words: "lookup, model and mixed with Qwen3-0.6B"."""
    found: dict[str, list[str]] = {}
    for result in comparison.drafted:
        found.setdefault(result.part if result.uses_part else "", []).append(result.drafter)
    groups = [(part, " and ".join(dict.fromkeys(names))) for part, names in found.items()]
    return ", ".join(names + (f" with {part}" if part else "") for part, names in groups) or "nothing"


def conditions(comparison: Comparison) -> tuple[str, ...]:
    """Everything that has to be known to read the figures, part by part."""
    sampling = comparison.sampling
    length = f"up to {comparison.max_tokens} tokens" if comparison.max_tokens else "replies of any length"
    mode = "fast mode"
    if comparison.exact:
        cost = f"{max(0.0, comparison.exact_cost):.0%}"
        mode = f"exact mode (makes plain {cost} slower; ratios are against plain without it)"
    return (
        f"{comparison.target} {comparison.precision}, drafts by {method(comparison)}",
        count(comparison) + ", median and range",
        f"{'greedy' if sampling.temperature == 0 else f'temperature {sampling.temperature:g}'}, seed {sampling.seed}",
        length,
        mode,
        "plain and accelerated in turn, caches emptied before each reply",
        comparison.device,
    )


def brief(comparison: Comparison) -> tuple[str, ...]:
    """The same in fewer words, for where the model stands elsewhere."""
    sampling = comparison.sampling
    choice = "greedy" if sampling.temperature == 0 else f"temperature {sampling.temperature:g}"
    runs = sorted({result.runs for result in comparison.drafted})
    many = "n " + "–".join(map(str, dict.fromkeys((runs[0], runs[-1])))) if runs else "n 0"
    parts = [method(comparison), many, f"{choice}, seed {sampling.seed}"]
    parts += [f"at most {comparison.max_tokens} tokens"] if comparison.max_tokens else []
    cost = f"{max(0.0, comparison.exact_cost):.0%}"
    parts += [f"exact (its {cost} cost to plain taken off)" if comparison.exact else "fast mode", comparison.device]
    return tuple(parts)


def verdict(result: Result, race: Race) -> str:
    """Whether drafting changed the text of a kind, in words."""
    if result.sameness.verdict is Verdict.SAME:
        times = f" in all {result.runs} pairs" if result.runs > 1 else ""
        return f"The text is the same{times}, token for token."
    return sentence(race.sameness, race.plain.text, race.fast.text, race.fast.tokens)
