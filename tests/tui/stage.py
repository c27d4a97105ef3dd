"""A stage for one screen: a scripted engine, and models of real size that hold nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from textual.app import App
from textual.screen import Screen
from textual.widgets import Static

from localchat import config
from localchat.chat.backend import Backend
from localchat.chat.events import Failed, Loaded, LoadEvent, Usage
from localchat.chat.store import open_store
from localchat.models import offer
from localchat.models.devices import Machine
from localchat.models.memory import GIB
from localchat.models.pace import guess
from localchat.models.plan import LoadPlan, Mode
from localchat.models.stock import find, partners
from localchat.tui import theme
from localchat.tui.desk import Desk
from localchat.tui.host import FRAME, Host
from localchat.tui.widgets.choice_row import ChoiceRow
from tests.support.backend import Scripted

BIG, SMALL = "Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B"
CARD = Machine("cuda:0", "cuda:0 (NVIDIA GeForce RTX 4090)", int(23.4 * GIB), 24 * GIB)
TINY = Machine("cuda:0", "cuda:0 (NVIDIA GeForce RTX 4060)", int(7.4 * GIB), 8 * GIB)


@dataclass
class Sized(Scripted):
    """Loads what the plan says, with the figures that it would have; `failures` are taken one by one."""

    failures: list[Failed | None] = field(default_factory=list)

    def _load(self, plan: LoadPlan) -> Iterator[LoadEvent]:
        self.load_failure = self.failures.pop(0) if self.failures else None
        return super()._load(plan)

    def loaded(self, plan: LoadPlan) -> Loaded:
        """As the loader settles it."""
        found = find((), (plan.model,))
        target = next(side for side in found.sides if side.source.name == plan.model)
        stock = offer.Stock(self.machine, found.sides, partners(target, found.sides).usable, guess(self.machine))
        settled = offer.concrete(stock, plan)
        memory = offer.estimate(stock, settled).memory
        usage = Usage(
            target=int(memory.target * 1.01),
            draft=memory.draft,
            target_cache=memory.target_cache,
            draft_cache=memory.draft_cache,
            process=memory.total - memory.reserve,
            device_free=self.machine.free - memory.total + memory.reserve,
            device_total=self.machine.total,
        )
        plan = replace(settled, mode=Mode.EXACT if plan.mode is Mode.AUTO else plan.mode, force=plan.force)
        title = target.source.title
        partner = offer.drafting(stock, plan)[1]
        kind, done = partner.kind if partner else "", super().loaded(plan)
        return replace(done, plan=plan, model_name=title, draft_kind=kind, memory=memory, usage=usage)


class Stage(App[None]):
    """One screen, and what it ended with."""

    def __init__(self, desk: Desk, screen: Screen[LoadPlan | None] | Screen[LoadPlan]) -> None:
        super().__init__()
        theme.register_all(self)
        self.desk, self.shown = desk, screen
        self.ended: list[LoadPlan | None] = []

    def on_mount(self) -> None:
        self.set_interval(FRAME, self.desk.host.drain)
        self.push_screen(self.shown, self.ended.append)

    def words(self, name: str) -> str:
        """What one of the screen's texts says."""
        return str(self.shown.query_one(f"#{name}", Static).content)

    def row(self, name: str) -> str:
        """The choice that stands in a row."""
        row = self.shown.query_one(f"#{name}", ChoiceRow)
        return row.cells[row.chosen].label if row.chosen >= 0 else ""


@contextmanager
def desk(home: Path, backend: Backend, *, plan: LoadPlan, text: str = "", loaded: bool = True) -> Iterator[Desk]:
    """A desk whose config file holds `text`, and on which the plan is loaded."""
    path = home / "config" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    file = config.read(path)
    store = open_store(home / "chats.db").store
    new = Desk(Host(backend), store, file, config.resolve(file, {}, {}), plan)
    if loaded and isinstance(backend, Scripted):
        new.loaded = backend.loaded(plan)
        new.plan = new.loaded.plan
        new.live = new.live.hear(new.loaded, 0.0)
    yield new
    new.host.close()
    store.close()
