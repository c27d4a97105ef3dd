"""What to begin with on a new machine: every model that is here, whether it fits and how fast it will be. Pure."""

from __future__ import annotations

from dataclasses import replace

from localchat.models import offer
from localchat.models.catalog import pairs_for
from localchat.models.choice import GOOD_CONTEXT
from localchat.models.devices import Machine
from localchat.models.folders import STARTER_DRAFT
from localchat.models.offer import Item, Stock
from localchat.models.pace import guess
from localchat.models.plan import STARTER, LoadPlan
from localchat.models.stock import Found, Partner

_BRISK = 8.0
"""Plain tokens per second, as fast as people read: slower models are not suggested."""


def beginnings(machine: Machine, found: Found) -> tuple[Item, ...]:
    """The built-in guide, then every model, large to small; each as it would be loaded, its known pair included."""
    stock = Stock(machine, found.sides, (), guess(machine))
    items = []
    for side in found.sides:
        if side.source.name == STARTER_DRAFT:
            continue
        pairs = [Partner(known) for pair in pairs_for(side.source.name) if (known := stock.side(pair.draft))]
        head = [partner for name, partner in found.heads if name == side.source.name]
        own = replace(stock, partners=(*pairs, *head))
        plan = offer.concrete(own, LoadPlan(model=side.source.name))
        items.append(Item(side.source.title, plan, offer.estimate(own, plan)))
    size = {side.source.name: side.shape.parameters for side in found.sides}
    return tuple(sorted(items, key=lambda item: (item.plan.model != STARTER, -size[item.plan.model])))


def suggested(items: tuple[Item, ...]) -> int:
    """The place of the one to begin with: the largest that fits, with a good context, and is fast enough; else 0."""
    good = [
        place
        for place, item in enumerate(items)
        if place and item.fits and item.plan.context >= GOOD_CONTEXT and item.estimate.plain >= _BRISK
    ]
    return good[0] if good else 0
