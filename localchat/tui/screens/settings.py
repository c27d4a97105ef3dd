"""Settings (F2): what is loaded and with what, one Apply, and the way back if it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.worker import Worker, WorkerState

from localchat.chat import setup
from localchat.chat.events import Failed
from localchat.models.choice import Side
from localchat.models.devices import Machine
from localchat.models.offer import Key
from localchat.models.plan import HEADS, LoadPlan, Mode
from localchat.models.stock import Found, Partners, find, partners
from localchat.tui import keeping
from localchat.tui.choices import beside, notes, size
from localchat.tui.choosing import PROFILE, Choosing, what_is_loaded
from localchat.tui.desk import Desk
from localchat.tui.keymap import worded
from localchat.tui.keys import bindings
from localchat.tui.reload import Outcome, Reload
from localchat.tui.screens.settings_view import SettingsView
from localchat.tui.widgets.choice_row import ChoiceRow
from localchat.tui.widgets.load_line import LoadLine

_LOOKING = "Looking at this machine and its models…"
_BUSY = "Something is being loaded; the choices follow when it is done. {apply} stops it."


class SettingsScreen(SettingsView):
    """Ends with the plan that was loaded here, or None if nothing was."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("settings")

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._reload = Reload(desk, self._heard, self._ended)
        self._machine: Machine | None = None
        self._found: Found | None = None
        self._reference = desk.plan
        self._applied: LoadPlan | None = None
        self._looking = ""

    def on_mount(self) -> None:
        """Ask what there is; the rows follow when it is known."""
        self.titled("")
        waits = self.desk.loaded is None and self.desk.host.busy
        self.say(worded(self.app, _BUSY) if waits else _LOOKING)
        self._machine = what_is_loaded(self.desk)
        if self._machine is None:
            self.desk.survey(self.desk.resolved.settings.device, self._surveyed, self._not_surveyed)
        plan = self.desk.plan
        self._look_around(
            (plan.model, *filter(None, (plan.draft_model,))), plan.model if plan.trust_remote_code else ""
        )
        self.query_one("#precision", ChoiceRow).focus()

    @property
    def looking(self) -> str:
        """The model whose draft models are being looked for; empty if none are."""
        return self._looking

    # -- what there is

    def _surveyed(self, machine: Machine) -> None:
        if self.is_running:
            self._machine = what_is_loaded(self.desk) or machine  # a load may have ended meanwhile
            self._begin()

    def _not_surveyed(self, failed: Failed) -> None:
        if self.is_running:
            self.tell(failed.title, failed.hint)

    @work(thread=True, exit_on_error=False, group="look")
    def _look_around(self, names: tuple[str, ...], trusted: str) -> None:
        found = find((), names, trusted)
        self.app.call_from_thread(self._seen, found)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Looking around went wrong in a way nobody foresaw: say so, the rest of the screen still works."""
        if event.state is WorkerState.ERROR and self.is_running:
            self._looking = ""
            self.tell(f"Looking at the models failed: {event.worker.error}", "The log has the details.")

    def _seen(self, found: Found) -> None:
        self._found = found
        if self.is_running and self.choosing is not None:
            self.choosing.found = found
            self.choosing.take(self.choosing.plan)
            self._show()
        elif self.is_running:
            self._begin()

    def _begin(self) -> None:
        """Both the machine and its models are known: work out what stands."""
        if self._machine is None or self._found is None or self.choosing is not None:
            return
        mode = Mode(self.desk.resolved.settings.mode)
        plan = replace(self.desk.plan, mode=mode, force=False)
        self.choosing = Choosing(self.desk, self._machine, self._found, plan, plan)
        self.choosing.take(plan)
        self._reference = plan
        if self.desk.loaded is not None:
            self.tell(beside(self.desk.loaded))
        self._show()

    @work(thread=True, exit_on_error=False, group="look")
    def _look_for_partners(self, target: Side, sides: tuple[Side, ...]) -> None:
        plan = self.desk.plan
        named = (plan.draft, plan.draft_model) if plan.model == target.source.name else ()
        found = partners(target, sides, named)
        self.app.call_from_thread(self._met, target.source.name, found)

    def _met(self, model: str, found: Partners) -> None:
        self._looking = ""
        if (choosing := self.choosing) and self.is_running:
            first = choosing.base.model == model and choosing.plan == choosing.base
            choosing.meet(model, found)
            if first:
                choosing.base = self._reference = choosing.plan
            self._show()

    def _show(self) -> None:
        choosing = self.choosing
        if choosing is None:
            return
        if choosing.unknown and not self._looking:
            self._looking = choosing.unknown
            side = choosing.stock.side(choosing.unknown)
            assert side is not None
            self._look_for_partners(side, choosing.found.sides)
        self.show_choices(choosing)

    # -- choosing

    @on(ChoiceRow.Entered)
    def _entered(self, _: ChoiceRow.Entered) -> None:
        self.show_words()

    @on(ChoiceRow.Wanted)
    def _wanted(self, event: ChoiceRow.Wanted) -> None:
        choosing = self.choosing
        if choosing is None or self._reload.busy:
            return
        if event.row.id == PROFILE:
            self._switch(choosing, ["", *(name for name, _ in self.desk.file.profiles)][event.place])
        elif row := choosing.row(event.row.id or ""):
            plan = row.items[event.place].plan
            back = row.key is Key.MODEL and plan.model == choosing.base.model
            choosing.take(choosing.base if back else plan)
        self._show()

    def _switch(self, choosing: Choosing, name: str) -> None:
        """Another profile, or none."""
        settings = keeping.in_profile(self.desk.file, self.desk.resolved, name)
        self.profile = name
        choosing.take(setup.load_plan(settings))
        self._reference = choosing.plan
        if choosing.estimate is None:
            self.tell(f"{choosing.plan.model} is not on this machine, so this profile cannot be loaded.")

    @work
    async def action_save_profile(self) -> None:
        """Keep what is chosen under a name."""
        from localchat.tui.screens.ask_name import AskName

        if self.choosing is None or self._reload.busy:
            return
        name = await self.app.push_screen_wait(AskName("Keep these choices as the profile", self.profile))
        if not name:
            return
        problem = keeping.save_profile(self.desk.file.path, self.choosing.plan, name)
        if not problem:
            self.desk.file = keeping.again(self.desk.file)
            self.profile, self._reference = name, self.choosing.plan
        self.tell(
            problem
            or f"Kept as the profile {name}; {worded(self.app, '{apply}')} loads it, and it is used from then on."
        )
        self._show()

    # -- applying

    def action_apply(self) -> None:
        """Load what is chosen, or leave if it is what is loaded."""
        choosing = self.choosing
        if choosing is None and self.desk.loaded is None:
            self.say(_LOOKING)
            self.desk.host.cancel()
        if choosing is None or self._reload.busy:
            return
        estimate = choosing.estimate
        if estimate is None and choosing.left and choosing.left.may_try:
            self._load(choosing.plan)
        elif estimate is None:
            self.tell(f"{choosing.plan.model} is not on this machine; choose another model.")
        elif not choosing.changed and self.profile == self.desk.resolved.profile:
            self.dismiss(self._applied)
        elif estimate.memory.fits:
            self._load(choosing.plan)
        else:
            self._ask(f"{size(estimate.memory.shortfall)} GiB more is needed than there is.", choosing.plan, force=True)

    @work
    async def _ask(self, why: str, plan: LoadPlan, *, force: bool) -> None:
        from localchat.tui.screens.no_room import NoRoom

        choosing = self.choosing
        assert choosing is not None
        forced = replace(plan, force=True) if force else None
        chosen = await self.app.push_screen_wait(NoRoom(why, choosing.smaller(plan), forced))
        if chosen is not None:
            choosing.take(chosen)
            self._show()
            self._load(chosen)

    def _load(self, plan: LoadPlan) -> None:
        self.tell("")
        self._reload.start(plan)
        self._heard()

    def action_leave_settings(self) -> None:
        """Stop loading, or leave."""
        if self._reload.busy:
            self._reload.cancel()
        else:
            self.dismiss(self._applied)

    def _heard(self) -> None:
        if not self.is_running:
            return
        stops = worded(self.app, "{leave-settings} stops")
        words = f"what worked before · {stops}" if self._reload.returning else stops
        self.query_one(LoadLine).show(self._reload.step, words)

    def _ended(self, outcome: Outcome) -> None:
        choosing = self.choosing
        if choosing is None or not self.is_running:
            return
        self.query_one(LoadLine).show(None)
        said = [outcome.sentence]
        if outcome.loaded is not None:
            self._applied = self.desk.plan
            choosing.machine = what_is_loaded(self.desk) or choosing.machine
        if outcome.failed is None and outcome.loaded is not None:
            if choosing.left:  # it can be weighed, now that it has been opened
                self._look_around((outcome.loaded.plan.model,), "")
            said += [beside(outcome.loaded), notes(outcome.loaded), self._keep(choosing, outcome.wanted)]
        self.tell(" ".join(filter(None, said)))
        self._show()
        if outcome.failed is not None and outcome.failed.kind == "fit":
            self._ask(outcome.failed.title, outcome.wanted, force=False)

    def _keep(self, choosing: Choosing, wanted: LoadPlan) -> str:
        """Write what was changed into the config file; returns what went wrong, or nothing."""
        plan = replace(self.desk.plan, mode=wanted.mode)
        settings = keeping.in_profile(self.desk.file, self.desk.resolved, self.profile)
        same = self.profile == self.desk.resolved.profile
        values = keeping.changed(plan, self._reference)
        if self.desk.loaded is not None and self.desk.loaded.draft_kind in HEADS:
            values.pop("draft_precision", None)  # it follows the target's
        kept = keeping.keep(
            self.desk.file.path,
            self.desk.resolved,
            self.desk.resolved.settings if same else settings,
            values,
            self.profile,
        )
        self.desk.resolved, self.desk.file = kept.resolved, keeping.again(self.desk.file)
        if not same:
            self.desk.system, self.desk.accelerate = settings.system, settings.accelerate
        choosing.base = self._reference = plan
        choosing.take(plan)
        return kept.notice
