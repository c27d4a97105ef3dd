"""Compare (F3): the same reply plain and drafted, measured one after the other and replayed side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import ClassVar

from platformdirs import user_documents_path
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import Screen

from localchat.bench import words
from localchat.bench.comparison import Comparison, comparison
from localchat.bench.export import export
from localchat.bench.record import read, record
from localchat.bench.runner import OFF, Measured, measure
from localchat.chat.backend import Backend
from localchat.chat.events import Loaded
from localchat.chat.store import StoreError
from localchat.errors import LocalchatError
from localchat.tui import keymap, race
from localchat.tui.desk import Desk
from localchat.tui.figures import duration
from localchat.tui.host import FRAME, Job
from localchat.tui.keys import ACTIONS, bindings
from localchat.tui.race import Heard
from localchat.tui.screens.comparisons import ComparisonsScreen
from localchat.tui.widgets.bar_chart import BarChart
from localchat.tui.widgets.composer import Composer
from localchat.tui.widgets.key_line import KeyLine
from localchat.tui.widgets.race_figures import RaceFigures
from localchat.tui.widgets.race_panes import RacePanes
from localchat.tui.widgets.race_setup import RaceSetup, Setup
from localchat.tui.widgets.race_status import RaceStatus

_LIVE = 1.0
"""Seconds that a reply must take before its text is shown as it comes: shorter ones would only flicker."""


class CompareScreen(Screen[None]):
    """Asks for a prompt or six kinds of work, measures, replays, keeps and exports."""

    HELP: ClassVar[str] = """# Compare

Writes the same replies **plain** and **with drafts**, in turn, and shows what drafts gain and that the text stays the
same. One prompt, or six kinds of work: from edits, where much can be copied, to short answers, which are over before
drafting can pay.

**Enter** in the prompt or **Ctrl+R** starts. Every prompt is asked **n** times; medians count, and ranges are shown.
While it runs, **Esc** stops it. A finished comparison is kept in the history, and can be exported.
"""
    BINDINGS: ClassVar[list[BindingType]] = bindings("compare")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (150, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]  # noqa: RUF012
    DEFAULT_CSS = """
    CompareScreen {
        Composer { max-height: 5; margin: 0; }
        &.-kinds Composer { display: none; }
        &.-low Composer { border: none; max-height: 2; }
        #below { height: auto; layout: vertical; }
        &.-wide #below { layout: horizontal; }
        #below > * { width: 1fr; }
        &.-high #below RaceFigures { margin: 0 0 1 0; }
        &.-narrow.-low #below RaceFigures { display: none; }
        &.-narrow.-low.-figures #below RaceFigures { display: block; }
        &.-narrow.-low.-figures #below BarChart { display: none; }
    }
    """

    def __init__(self, desk: Desk, prompt: str = "") -> None:
        super().__init__()
        self.desk = desk
        self._first_prompt = prompt or race.suggestion(desk.loaded)
        self._setup = Setup()
        self._job: Job[Measured] | None = None
        self._heard: Heard | None = None
        self._loaded: Loaded | None = None
        self._model: Loaded | None = None
        self._began = self._reply_began = 0.0
        self.shown: Comparison | None = None
        """What is shown; None before anything was measured."""
        self._kind = ""
        self._replay_began: float | None = None
        self._speed = 1.0

    def compose(self) -> ComposeResult:
        """Setup, prompt, the two sides, the verdict, figures and bars."""
        yield RaceSetup()
        yield Composer()
        yield RacePanes()
        yield RaceStatus()
        with Horizontal(id="below"):
            yield RaceFigures()
            yield BarChart()
        yield KeyLine()

    def on_mount(self) -> None:
        """Nothing is measured yet."""
        self._panes = self.query_one(RacePanes)
        self._status = self.query_one(RaceStatus)
        composer = self.query_one(Composer)
        composer.load_text(self._first_prompt)
        composer.focus()
        self._panes.explain()
        self.set_class(True, "-figures")
        self._invite()
        self._show_setup()
        self._show_results()
        self.set_interval(FRAME, self._tick)

    # -- what will be measured

    def action_race_kinds(self) -> None:
        """This prompt, or six kinds."""
        self._setup = replace(self._setup, kinds=not self._setup.kinds)
        self.set_class(self._setup.kinds, "-kinds")
        self.query_one(BarChart if self._setup.kinds else Composer).focus()
        if self._job is None and self.shown is None:
            self._invite()
        self._show_setup()

    def _invite(self) -> None:
        key = _key(self, "race-run") if self._setup.kinds else "Enter"
        self._status.say(f"{key} starts. Nothing is measured yet.", "$muted")

    def action_race_repeats(self) -> None:
        """The next number of repeats."""
        place = race.REPEATS.index(self._setup.repeats)
        self._setup = replace(self._setup, repeats=race.REPEATS[(place + 1) % len(race.REPEATS)])
        self._show_setup()

    def _show_setup(self) -> None:
        keys = tuple(_key(self, name) for name in ("race-kinds", "race-repeats"))
        loaded, settings = self.desk.loaded, self.desk.resolved.settings
        self._model = loaded
        if self.shown:
            conditions = words.brief(self.shown)
        elif self._setup.kinds:
            conditions = ("greedy, seed 0", f"at most {race.KIND_TOKENS} tokens")
        else:
            length, seed = settings.max_tokens or race.PROMPT_TOKENS, max(settings.seed, 0)
            conditions = (f"temperature {settings.temperature:g}, seed {seed}", f"at most {length} tokens")
        model = f"{loaded.model_name} {loaded.plan.precision.value}" if loaded else "no model is loaded"
        self._setup = replace(self._setup, model=model, conditions=conditions, keys=(keys[0], keys[1]))
        self.query_one(RaceSetup).show(self._setup)

    # -- measuring

    @on(Composer.Submitted)
    def _submitted(self, event: Composer.Submitted) -> None:
        event.stop()
        self.query_one(Composer).load_text(event.text)
        self.action_race_run()

    def action_race_run(self) -> None:
        """Measure."""
        if self._job is not None:
            self._status.say("It is running; escape stops it.", "$warning")
            return
        prompt = "" if self._setup.kinds else self.query_one(Composer).value
        loaded = self.desk.loaded
        if loaded is None:
            loading = "The model is still being loaded; try again in a moment."
            missing = "No model is loaded. Escape goes back; load one there."
            self._status.say(loading if self.desk.host.busy else missing, "$warning")
            return
        if not prompt and not self._setup.kinds:
            self._status.say("Write a prompt first, or compare by six kinds of work.", "$warning")
            return
        try:
            trial = race.trial(loaded, self.desk.resolved.settings, self.desk.system, prompt, self._setup.repeats)
        except LocalchatError as error:
            self._status.say(f"{error.message} {error.hint}", "$error")
            return
        self._heard, self._loaded, self.shown, self._kind = Heard(trial), loaded, None, ""
        self._replay_began, self._began = None, monotonic()
        self._panes.clear()
        self.set_class(len(trial.kinds) == 1, "-figures")
        self._show_setup()
        self._show_results()

        def source(backend: Backend) -> Iterator[Measured]:
            return measure(backend, trial, loaded)

        self._job = self.desk.host.run(source, self._hear, self._ended)
        self._show_progress()

    def _hear(self, events: tuple[Measured, ...]) -> None:
        heard = self._heard
        if heard is None or not self.is_mounted:
            return
        step = heard.step
        finished = heard.hear(events)
        if heard.step is not step:
            self._reply_began = monotonic()
            self._panes.clear()
        if finished:
            self._show_results()

    def _ended(self, error: Exception | None) -> None:
        job, heard, loaded = self._job, self._heard, self._loaded
        self._job = None
        if not self.is_mounted or heard is None or loaded is None or job is None:
            return
        self._panes.clear()
        done = [result for result in heard.results if result.drafter != OFF]
        if job.dropped:
            kept = f"{len(done)} of {len(heard.trial.kinds)} kinds were finished" if done else "nothing was finished"
            self._status.say(f"Stopped; {kept}. It is not kept in the history.", "$warning")
        elif error is not None:
            hint = getattr(error, "hint", "The log has the details.")
            self._status.say(f"{getattr(error, 'message', 'The comparison failed.')} {hint}", "$error")
        if done:
            kinds = {result.category for result in done}
            pairs = [pair for pair in heard.pairs if pair.task.kind in kinds]
            whole = comparison(loaded, heard.trial, heard.results, pairs, time.time())
            if error is None and not job.dropped:
                self._keep(whole)
                self.show(whole)
            else:
                self.show(whole, replay=False)

    def _keep(self, whole: Comparison) -> None:
        try:
            self.desk.store.add_comparison(whole.title, json.dumps(record(whole), allow_nan=False))
        except StoreError as error:
            self.notify(f"{error.message} {error.hint}", severity="warning", markup=False)

    def action_race_leave(self) -> None:
        """Stop, or go back."""
        if self._job is None:
            self.dismiss(None)
            return
        self.desk.host.drop(self._job)
        self._status.say("Stopping …", "$muted")

    # -- showing

    def show(self, whole: Comparison, *, replay: bool = True) -> None:
        """Show a comparison, its first kind first."""
        self.shown = whole
        self.set_class(len(whole.races) == 1, "-figures")
        self._show_setup()
        if whole.races:
            self._choose(whole.races[0].kind, replay=replay)

    @on(BarChart.Chosen)
    def _chosen(self, event: BarChart.Chosen) -> None:
        event.stop()
        self._choose(event.kind)

    def action_race_next(self) -> None:
        """The next kind."""
        self.query_one(BarChart).action_step(1)

    def action_race_previous(self) -> None:
        """The kind before."""
        self.query_one(BarChart).action_step(-1)

    def action_race_figures(self) -> None:
        """Figures or bars."""
        self.toggle_class("-figures")

    def _choose(self, kind: str, *, replay: bool = True) -> None:
        found = next((one for one in (self.shown.races if self.shown else ()) if one.kind == kind), None)
        if found is None:
            return
        self._kind, self._speed = kind, race.replay_speed(found)
        self._panes.load(found)
        self._show_results()
        if replay:
            self.action_race_replay()
        else:
            self._panes.at(self._panes.seconds)

    def action_race_replay(self) -> None:
        """From the start."""
        if self.shown and self.shown.races and self._job is None:
            self._replay_began = monotonic()

    def _show_results(self) -> None:
        """Figures and bars, as far as they are there."""
        heard, whole = self._heard, self.shown
        results = tuple(whole.results if whole else heard.results if heard else ())
        drafted = tuple(result for result in results if result.drafter != OFF)
        kinds = tuple(result.category for result in drafted) if whole else heard.trial.kinds if heard else ()
        summary = ""
        if whole and whole.speedup and len(kinds) > 1:
            summary = f"{whole.speedup.median:.2f}× plain, the median of {len(kinds)} kinds · {words.each(whole)}"
        elif drafted:
            summary = "speed against plain" + (" · median (slowest–fastest)" if drafted[0].runs > 1 else " · one run")
        self.query_one(BarChart).show(drafted, kinds, self._kind, summary)
        shown = next((one for one in (whole.races if whole else ()) if one.kind == self._kind), None)
        if whole and shown:
            self.query_one(RaceFigures).show(whole.result(self._kind, plain=True), whole.result(self._kind), shown)
        else:
            self.query_one(RaceFigures).show(None, None, None)

    def _tick(self) -> None:
        if self.desk.loaded is not self._model:
            self._show_setup()
        if self._job is not None:
            self._show_progress()
        elif self._replay_began is not None:
            self._show_replay(monotonic() - self._replay_began)

    def _show_progress(self) -> None:
        heard, job = self._heard, self._job
        if heard is None or job is None or job.dropped:
            return
        spent, share = monotonic() - self._began, heard.share
        left = f"about {duration(spent / share - spent)} left" if share > 0.05 else ""
        self._status.progress(heard.title, share, left)
        if heard.step and heard.step.kind:
            slow = monotonic() - self._reply_began > _LIVE
            self._panes.live(heard.step.method, heard.text if slow else "", f"being measured · {heard.tokens} tok")

    def _show_replay(self, elapsed: float) -> None:
        whole = self.shown
        found = next((one for one in (whole.races if whole else ()) if one.kind == self._kind), None)
        if whole is None or found is None:
            return
        seconds = elapsed * self._speed
        longest = self._panes.seconds
        self._panes.at(seconds)
        if seconds < longest:
            now = f"{words.seconds(seconds)} of {words.seconds(longest)}"
            self._status.progress(f"Replay, {race.speed_words(self._speed)}", seconds / longest, now)
            return
        self._replay_began = None
        result = whole.result(self._kind)
        if result is None:
            return
        verdict = words.verdict(result, found)
        if found.sameness.position is not None:
            self._status.say(f"≠ {verdict}", "$warning")
            return
        spread = f", {result.speedup.low:.2f}–{result.speedup.high:.2f}" if result.runs > 1 else ""
        gain = f"{result.speedup.median:.2f}× the speed of plain decoding (n {result.runs}{spread})."
        self._status.say(f"✓ {gain} {verdict}", "$success")

    # -- history and files

    @work
    async def action_race_history(self) -> None:
        """Open an earlier comparison."""
        if self._job is not None:
            self._status.say("It is running; escape stops it.", "$warning")
            return
        kept = await self.app.push_screen_wait(ComparisonsScreen(self.desk.store))
        if kept is not None:
            try:
                self._open(read(kept.record))
            except ValueError:
                self._status.say("This comparison was kept by another version and cannot be shown.", "$warning")

    def _open(self, whole: Comparison) -> None:
        """Show an earlier comparison, and ask what it asked when it is run again."""
        if self._setup.kinds is (len(whole.races) == 1):
            self.action_race_kinds()
        if len(whole.races) == 1:
            self.query_one(Composer).load_text(whole.races[0].prompt)
        self.show(whole)

    def action_race_export(self) -> None:
        """Write JSON, Markdown and SVG into the current folder, or the documents folder if that cannot be."""
        if self.shown is None:
            self.notify("There is nothing to export yet.", markup=False)
            return
        try:
            written = export(self.shown, (Path.cwd(), user_documents_path()), race.colours(self.app.theme_variables))
        except OSError as error:
            self.notify(f"Not exported: {error.strerror or error}.", severity="error", markup=False)
            return
        names = ", ".join(written.files)
        self.notify(f"{names}\nin {written.folder}", title="Exported", timeout=12, markup=False)


def _key(screen: CompareScreen, name: str) -> str:
    """The first key of an action, as people write it."""
    action = next(action for action in ACTIONS if action.id == name)
    keys = keymap.keys_of(screen.app, action)
    return keymap.spelled(keys[0]) if keys else ""
