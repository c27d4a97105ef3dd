"""A comparison as files: JSON for scripts, Markdown to read, SVG to show."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from localchat.bench import words
from localchat.bench.chart import Colours, svg
from localchat.bench.compare import sentence
from localchat.bench.comparison import Comparison, Race
from localchat.bench.record import record
from localchat.paths import write_private
from localchat.sanitize import clean


@dataclass(frozen=True, slots=True)
class Exported:
    """Files that were written."""

    folder: Path
    files: tuple[str, ...]


def export(comparison: Comparison, folders: tuple[Path, ...], colours: Colours) -> Exported:
    """Write all three files into the first folder that takes them.

    Raises:
        OSError: none does.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(comparison.created))
    name = f"localchat-compare-{stamp}"
    contents = {
        f"{name}.json": json.dumps(record(comparison), indent=1, allow_nan=False) + "\n",
        f"{name}.md": markdown(comparison, f"{name}.svg"),
        f"{name}.svg": svg(comparison, colours),
    }
    problem: OSError | None = None
    for folder in folders:
        try:
            for file, content in contents.items():
                write_private(folder / file, content)
            return Exported(folder, tuple(contents))
        except OSError as error:
            problem = problem or error
    raise problem or FileNotFoundError("no folder to write to")


def markdown(comparison: Comparison, picture: str = "") -> str:
    """A page that can be read anywhere.

    Args:
        comparison: what to show.
        picture: the chart's file name; empty leaves it out.
    """
    parts = ["# localchat: plain against accelerated"]
    if comparison.speedup:
        over = f" (median over {len(comparison.drafted)} kinds)" if len(comparison.drafted) > 1 else ""
        parts.append(f"**{comparison.speedup.median:.2f}×** the speed of plain decoding{over}.")
    parts.append("\n".join(f"- {_inline(part)}" for part in words.conditions(comparison)))
    parts += [f"![Speed against plain decoding]({picture})"] if picture else []
    parts.append(_table(comparison))
    parts += [_race(race) for race in comparison.races]
    versions = ", ".join(f"{name} {number}" for name, number in comparison.versions)
    parts.append(f"Measured {time.strftime('%Y-%m-%d %H:%M', time.localtime(comparison.created))} with {versions}.")
    return "\n\n".join(parts) + "\n"


def _table(comparison: Comparison) -> str:
    rows = [
        "| kind | drafter | plain tok/s | tok/s | against plain | n | text | tok/round | accepted | first token |",
        "|---|---|--:|--:|--:|--:|---|--:|--:|--:|",
    ]
    for result in comparison.drafted:
        plain = comparison.result(result.category, plain=True)
        base = f"{plain.tokens_per_second.median:.1f}" if plain else ""
        first = f"{words.seconds(plain.ttft_seconds.median)} → " if plain else ""
        cells = (
            _inline(result.category),
            result.drafter,
            base,
            f"{result.tokens_per_second.median:.1f}",
            words.ratio(result.speedup, result.runs),
            str(result.runs),
            words.mark(result.sameness),
            f"{result.tokens_per_round:.2f}",
            f"{result.acceptance_rate:.0%}",
            first + words.seconds(result.ttft_seconds.median),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _race(race: Race) -> str:
    verdict = sentence(race.sameness, race.plain.text, race.fast.text, race.fast.tokens)
    took = f"Plain {words.seconds(race.plain.seconds)}, accelerated {words.seconds(race.fast.seconds)}."
    texts = [_fenced(race.plain.text)]
    if race.plain.text != race.fast.text:
        texts = [f"Plain:\n\n{texts[0]}", f"Accelerated:\n\n{_fenced(race.fast.text)}"]
    return "\n\n".join([f"## {_inline(race.kind)}", _fenced(race.prompt), *texts, f"{took} {_inline(verdict)}"])


def _fenced(text: str) -> str:
    """Text as it is, in a fence longer than any it has."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{clean(text).rstrip()}\n{fence}"


def _inline(text: str) -> str:
    """Text on one line in which nothing is markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|!~&])", r"\\\1", clean(text).replace("\n", " "))
