"""A finished comparison: its clock, the race it shows, its record, and the files it is exported to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from localchat.bench import export, record, report, runner, words
from localchat.bench.categories import KINDS, Form, choose
from localchat.bench.chart import Colours, svg
from localchat.bench.compare import Sameness, Verdict
from localchat.bench.comparison import Comparison, comparison, race, telling, together
from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Loaded
from localchat.engine.types import Sampling
from localchat.models.plan import LoadPlan
from tests.support.backend import Scripted

HOSTILE = "\x1b]52;c;aGk=\x07 `````` <script> & | [red]bold[/red] \u202e\ufffe\x00"
OPTIONS = ReplyOptions(Sampling(temperature=0.0, seed=3), 64)


def measured(
    backend: Scripted, kinds: tuple[str, ...] = ("story",), repeats: int = 3
) -> tuple[Loaded, runner.Trial, list[runner.Result], list[runner.Pair]]:
    """Everything that a trial gave."""
    loaded = backend.loaded(LoadPlan())
    trial = runner.Trial(tuple(prompt.task for prompt in choose(Form.CHAT, kinds)), ("mixed",), OPTIONS, repeats)
    events = list(runner.measure(backend, trial, loaded))
    results = [event for event in events if isinstance(event, runner.Result)]
    return loaded, trial, results, [event for event in events if isinstance(event, runner.Pair)]


def a_comparison(backend: Scripted | None = None, kinds: tuple[str, ...] = ("story",)) -> Comparison:
    """One of the scripted engine."""
    loaded, trial, results, pairs = measured(backend or Scripted(), kinds)
    return comparison(loaded, trial, results, pairs, 1_700_000_000.0)


def test_moments_follow_the_engines_clock() -> None:
    """Guards the replay: the first text comes with the first token, and a round takes what the engine measured."""
    shown = a_comparison().races[0]
    plain, fast = shown.plain, shown.fast
    assert plain.moments[0].seconds == pytest.approx(plain.first_token_seconds)
    assert plain.seconds == pytest.approx(0.06 + 9 * 0.01)
    assert fast.seconds == pytest.approx(0.06 + 3 * 0.011)
    assert plain.text == fast.text == "Drafts are guesses."
    assert sum(moment.tokens for moment in fast.moments) == fast.tokens


def test_accepted_text_is_marked_only_where_it_is_certain() -> None:
    """Guards against colours that are a character off: where pieces and text differ nothing is marked."""
    _, _, _, pairs = measured(Scripted(text="abcdefgh"))
    drafted = next(pair for pair in pairs if pair.method == "mixed")
    assert [moment.accepted for moment in race(drafted, 1.0).fast.moments] == [4, 0]
    held = replace(drafted.run.wrote[0], text="abc")
    later = replace(drafted, run=replace(drafted.run, wrote=(held, *drafted.run.wrote[1:])))
    shown = race(later, 1.0).fast
    assert shown.moments[0].accepted == 0
    assert shown.text[:3] == "abc"


def test_the_race_shown_is_the_median_one_or_one_that_differs() -> None:
    """Guards against the best run on show, and against a difference that the race hides."""
    _, _, _, pairs = measured(Scripted())
    drafted = [pair for pair in pairs if pair.method == "mixed"][:3]
    paces = []
    for pair, seconds in zip(drafted, (1.0, 3.0, 2.0), strict=True):
        stats = replace(pair.run.reply.stats, verify_seconds=seconds)
        paces.append(replace(pair, run=replace(pair.run, reply=replace(pair.run.reply, stats=stats))))
    assert telling(paces).speedup == pytest.approx(sorted(pair.speedup for pair in paces)[1])
    assert telling(paces[:2]) is min(paces[:2], key=lambda pair: pair.speedup)
    worse = [replace(paces[0], sameness=Sameness(Verdict.DIFFERENT, 2, 1.0)), *paces[1:]]
    assert telling(worse).sameness.verdict is Verdict.DIFFERENT


@pytest.mark.parametrize("backend", [Scripted(), Scripted(accelerated_text="Drafts are gifts.", margin=float("inf"))])
def test_the_record_can_be_read_back(backend: Scripted) -> None:
    """Guards the history: what is shown later is what was measured."""
    whole = a_comparison(backend, ("story", "summary"))
    text = json.dumps(record.record(whole), allow_nan=False)
    again = record.read(text)
    assert record.record(again) == record.record(whole)
    assert again.races[0].fast == whole.races[0].fast


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"results": 3}', "null", '{"settings": {}}'])
def test_other_records_are_refused(text: str) -> None:
    """Guards against a crash in the history when another version wrote it."""
    with pytest.raises(ValueError, match=r".*"):
        record.read(text)


def test_export_writes_three_files_and_falls_back(tmp_path: Path) -> None:
    """Guards against an export that is lost where the current folder cannot be written."""
    whole = a_comparison(Scripted(text=f"Say {HOSTILE} now."), KINDS)
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    done = export.export(whole, (blocked, tmp_path / "out"), Colours())
    assert done.folder == tmp_path / "out"
    assert sorted(Path(name).suffix for name in done.files) == [".json", ".md", ".svg"]
    for name in done.files:
        content = (done.folder / name).read_text(encoding="utf-8")
        assert not set(content) & {"\x1b", "\x07", "\x00", "\u202e"}
    assert record.read((done.folder / done.files[0]).read_text(encoding="utf-8")).races == whole.races
    with pytest.raises(OSError, match=r".*"):
        export.export(whole, (blocked,), Colours())


def test_markdown_and_picture_hold_hostile_text() -> None:
    """Guards against model text that closes its fence or becomes markup in an export."""
    loaded, trial, results, pairs = measured(Scripted(text=f"Say {HOSTILE} now."))
    task = runner.Task(f"kind {HOSTILE}", Conversation().user(HOSTILE))
    pairs = [replace(pair, task=task) for pair in pairs]
    results = [replace(result, category=task.kind) for result in results]
    whole = comparison(loaded, trial, results, pairs, 0.0)
    page = export.markdown(whole)
    assert "```````text" in page
    assert "kind" in page
    assert "\n<script>" not in page
    root = ElementTree.fromstring(svg(whole, Colours()))
    assert root.tag.endswith("svg")


def test_the_picture_shows_every_kind() -> None:
    """Guards against a chart that leaves a kind out, or draws beyond its edge."""
    whole = a_comparison(kinds=KINDS)
    root = ElementTree.fromstring(svg(whole, Colours()))
    texts = {element.text for element in root.iter() if element.tag.endswith("text")}
    assert set(KINDS) <= texts
    assert "plain = 1×" in texts
    bars = [element for element in root.iter() if element.tag.endswith("rect")][1:]
    assert len(bars) == len(KINDS)
    assert all(0 < float(bar.attrib["width"]) <= 470 for bar in bars)


def test_words_name_the_conditions() -> None:
    """Guards against a figure without its n, seed, mode and device."""
    whole = a_comparison(kinds=("story", "summary"))
    text = " · ".join(words.conditions(whole))
    for part in ("n = 6 a kind", "each prompt 3 times", "median and range", "greedy, seed 3", "up to 64 tokens"):
        assert part in text
    assert "cpu (scripted, 2 threads)" in text
    exact = replace(whole, exact=True, exact_cost=0.04)
    assert "exact mode (makes plain 4% slower" in " ".join(words.conditions(exact))
    assert words.ratio(runner.Spread(2.0, 1.5, 2.5), 3) == "2.00× (1.50–2.50)"
    assert words.ratio(runner.Spread(2.0, 2.0, 2.0), 1) == "2.00×"


def test_comparisons_with_several_draft_models_stand_together() -> None:
    """Guards a bench of several loads: kind by kind, each drafter under its draft model's name, plain listed once."""
    kinds = ("story", "summary")
    loaded, trial, results, _ = measured(Scripted(), kinds)
    wholes = [
        comparison(replace(loaded, draft_name=name), trial, [replace(one, part=name) for one in results], (), 0.0)
        for name in ("small", "my-eagle")
    ]
    whole = together(wholes)
    assert whole.draft_model == "small, my-eagle"
    assert [result.category for result in whole.results] == ["story"] * 4 + ["summary"] * 4
    assert words.method(whole) == "mixed with small, mixed with my-eagle"
    table = [line[:2] for line in report.rows(whole.results)]
    assert table[:3] == [("story", "off"), ("story", "mixed · small"), ("story", "mixed · my-eagle")]
    assert [line[0] for line in table].count("story") == 3
    columns, lines = report.matrix(whole.results)
    assert columns == ("kind", ">mixed · small", ">mixed · my-eagle")
    assert [line[0] for line in lines] == ["story", "summary", "median"]
    again = record.read(json.dumps(record.record(whole)))
    assert [result.part for result in again.results] == [result.part for result in whole.results]
    assert [line[:2] for line in report.rows(wholes[0].results)][1] == ("story", "mixed")


def test_records_of_before_know_their_draft_model() -> None:
    """Guards the history of a version whose results did not name their draft model."""
    raw = record.record(a_comparison())
    for result in raw["results"]:
        del result["draft_model"]
    assert words.method(record.read(json.dumps(raw))) == "mixed with small"
