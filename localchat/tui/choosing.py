"""The state of the settings screen: what there is, what is chosen, and what it comes to. No textual.

Every choice goes through `take`, which works the rows out anew; the screen only shows them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from localchat.models import offer, pace
from localchat.models.choice import Side
from localchat.models.devices import Machine
from localchat.models.offer import Estimate, Item, Key, Row, Stock
from localchat.models.plan import LoadPlan
from localchat.models.stock import Found, Left, Partner, Partners
from localchat.tui.choices import MARKED, detail
from localchat.tui.desk import Desk
from localchat.tui.figures import short_name
from localchat.tui.widgets.choice_row import Cell

PROFILE = "profile"
"""The row of profiles, the one that is not about a plan's fields."""


@dataclass(slots=True)
class Choosing:
    """Works on plans in which nothing is "auto"; who can draft for a model is told by `meet` when it is known."""

    desk: Desk
    machine: Machine
    found: Found
    plan: LoadPlan
    base: LoadPlan
    """What is loaded, or would be: a row that differs from it is marked."""
    rows: tuple[Row, ...] = ()
    _partners: dict[str, Partners] = field(default_factory=dict)

    def meet(self, model: str, partners: Partners) -> None:
        """Who can draft for a model is known now."""
        fresh = self.plan.model == model and model not in self._partners
        self._partners[model] = partners
        if self.base.model == model:
            self.base = offer.concrete(self._stock(model), self.base)
        if fresh:
            self.take(self.plan)

    def take(self, plan: LoadPlan) -> None:
        """This is what is chosen now; what is still open in it is settled as soon as it can be."""
        stock = self._stock(plan.model)
        settled = offer.concrete(stock, plan)
        if plan.model not in self._partners:
            asked = (plan.draft, plan.draft_model, plan.draft_precision)
            settled = replace(settled, draft=asked[0], draft_model=asked[1], draft_precision=asked[2])
        self.plan = settled
        self.rows = offer.rows(self.stock, self.plan) if stock.side(plan.model) else offer.models_only(stock, plan)

    @property
    def unknown(self) -> str:
        """A model whose draft models have not been looked for; empty if there is none."""
        return "" if self.plan.model in self._partners or self.stock.side(self.plan.model) is None else self.plan.model

    @property
    def partners(self) -> Partners:
        """Who can draft for the model that is chosen."""
        return self._partners.get(self.plan.model, Partners())

    @property
    def stock(self) -> Stock:
        """What the model that is chosen can be loaded with."""
        return self._stock(self.plan.model)

    def _stock(self, model: str) -> Stock:
        partners = self._partners.get(model, Partners()).usable
        loaded = self.desk.loaded
        if loaded and loaded.plan.model == model and model in self._partners:
            name = loaded.plan.draft_model
            partners = self._with(partners, name) if name not in ("", model) else partners
        return Stock(self.machine, self.found.sides, partners, self._pace())

    def _with(self, partners: tuple[Partner, ...], name: str) -> tuple[Partner, ...]:
        """A draft model that is in use does suit, whatever the files say."""
        side = next((side for side in self.found.sides if side.source.name == name), None)
        known = any(partner.side.source.name == name for partner in partners)
        return partners if side is None or known else (*partners, Partner(side))

    def _pace(self) -> pace.Pace:
        guess, loaded = pace.guess(self.machine), self.desk.loaded
        side = self._side(loaded.plan.model) if loaded else None
        if loaded is None or side is None:
            return guess
        return guess.corrected(side.shape, loaded.plan.precision, loaded.plain_tokens_per_second)

    def _side(self, name: str) -> Side | None:
        return next((side for side in self.found.sides if side.source.name == name), None)

    @property
    def estimate(self) -> Estimate | None:
        """What the choice comes to; None if its model is not here."""
        return offer.estimate(self.stock, self.plan) if self.stock.side(self.plan.model) else None

    @property
    def changed(self) -> bool:
        """It is not what is loaded."""
        return self.desk.loaded is None or not offer.same(self.plan, self.base)

    @property
    def left(self) -> Left | None:
        """Why the model that is chosen is not in stock; None if it is, or if nothing is known of it."""
        return next((left for left in self.found.left if left.name == self.plan.model), None)

    def row(self, key: str) -> Row | None:
        """The row of that name, if there is one now."""
        return next((row for row in self.rows if row.key == key), None)

    def item(self, key: str) -> Item | None:
        """What stands in a row."""
        row = self.row(key)
        return row.items[row.chosen] if row and row.chosen >= 0 else None

    def cells(self, row: Row) -> tuple[Cell, ...]:
        """A row's choices as they are shown."""
        marked = row.key in MARKED
        return tuple(
            Cell(short_name(item.label), detail(row.key, item), item.fits if marked else None) for item in row.items
        )

    def differs(self, row: Row) -> bool:
        """The row's own field differs from what is loaded."""
        if row.key is Key.FIT or self.desk.loaded is None:
            return False
        if row.key is Key.DRAFT:
            return (self.plan.draft, self.plan.draft_model) != (self.base.draft, self.base.draft_model)
        return bool(getattr(self.plan, row.key.value) != getattr(self.base, row.key.value))

    def smaller(self, plan: LoadPlan) -> tuple[Item, ...]:
        """What would fit in place of a plan that did not, whatever was reckoned before."""
        stock = self._stock(plan.model)
        if stock.side(plan.model) is None:
            return ()
        memory = offer.estimate(stock, plan).memory
        free = min(stock.machine.free, memory.total - 1)
        return offer.smaller(replace(stock, machine=replace(stock.machine, free=free)), plan)


def what_is_loaded(desk: Desk) -> Machine | None:
    """The machine as a new load will find it, from the last measurement; None while nothing is loaded."""
    loaded = desk.loaded
    if loaded is None:
        return None
    usage = desk.live.usage or loaded.usage
    held = usage.target + usage.draft + usage.target_cache + usage.draft_cache
    if loaded.machine.cuda:
        held = max(held, usage.process)
    machine = loaded.machine if loaded.machine.total else replace(loaded.machine, total=usage.device_total)
    return offer.budget(machine, held, usage.device_free)
