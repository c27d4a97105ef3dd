"""What the settings and the start page say about a choice: figures of `models.offer` in words. No textual.

Speeds that were not measured carry a ≈.
"""

from __future__ import annotations

from localchat.chat.events import Loaded
from localchat.models.choice import GOOD_CONTEXT
from localchat.models.memory import GIB, MIB, MemoryPlan, gib
from localchat.models.offer import QUALITY, Estimate, Item, Key, Row, Stock, drafting, tokens
from localchat.models.pairing import TYPICAL_ACCEPTANCE, Level
from localchat.models.plan import LoadPlan, Mode
from localchat.models.stock import Partner, Partners, warnings
from localchat.sanitize import clean
from localchat.tui.figures import percent, rate, ratio, short_name

MARKED = (Key.MODEL, Key.PRECISION, Key.DRAFT, Key.DRAFT_PRECISION, Key.CONTEXT)
"""Rows whose choices differ in what they take."""


def about(speed: float) -> str:
    """A predicted speed."""
    return f"≈ {rate(speed)} tok/s"


def size(nbytes: float) -> str:
    """Bytes as short as can be: "5.7" GiB, or "18 MiB"."""
    return f"{nbytes / GIB:.1f}" if nbytes >= GIB / 10 else f"{nbytes / MIB:.0f} MiB"


def detail(key: Key, item: Item) -> str:
    """A few characters that go with a choice in its row."""
    comes_to, memory = item.estimate, item.estimate.memory
    fast = f"≈{rate(comes_to.drafted)}"
    if key is Key.FIT:
        return f"{item.plan.precision.value} {tokens(item.plan.context)} {fast}"
    if key is Key.MODE:
        return ""
    if key is Key.DRAFT and not memory.draft:
        return fast
    taken = {
        Key.MODEL: memory.total - memory.reserve,
        Key.PRECISION: memory.target,
        Key.DRAFT: memory.draft + memory.draft_cache,
        Key.DRAFT_PRECISION: memory.draft,
        Key.CONTEXT: memory.target_cache + memory.draft_cache,
    }[key]
    return gib(taken) if key is Key.CONTEXT else f"{gib(taken)} {fast}"


def explained(row: Row, item: Item, stock: Stock, partners: Partners) -> str:
    """One to three sentences about a choice: what it means, what it takes, what it earns."""
    plan, comes_to = item.plan, item.estimate
    memory = comes_to.memory
    if row.key is Key.FIT:
        return f"{_AIMS[item.label]} {summary(plan)}."
    if row.key is Key.MODEL:
        return _model(item, stock)
    if row.key is Key.PRECISION:
        return (
            f"{_sentence(QUALITY[plan.precision])}: the target takes {gib(memory.target)} and writes "
            f"{about(comes_to.plain)} without drafts."
        )
    if row.key is Key.DRAFT:
        return _draft(item, stock, partners)
    if row.key is Key.DRAFT_PRECISION:
        return (
            f"The text stays the same at any precision of the draft model. In {plan.draft_precision.value} it takes "
            f"{gib(memory.draft)}, and a step costs {percent(comes_to.cost_ratio)} of a target step."
        )
    if row.key is Key.CONTEXT:
        side = stock.side(plan.model)
        limit = side.shape.max_context if side else 0
        made = f"; the model was made for {tokens(limit)}" if limit else ""
        most = memory.longest_context // 256 * 256
        reach = f"the longest that fits is {tokens(most)}" if most else "none fits"
        return (
            f"A conversation may hold {plan.context} tokens. The caches take "
            f"{gib(memory.target_cache + memory.draft_cache)}; {reach}{made}."
        )
    return _MODES[plan.mode]


_AIMS = {
    "fastest": f"The most tokens per second, with a context of {tokens(GOOD_CONTEXT)} or more:",
    "longest": "The longest conversation that fits, then the best precision for it:",
    "most precise": f"The best precision that fits, with a context of {tokens(GOOD_CONTEXT)} or more:",
}
_MODES = {
    Mode.AUTO: "Exact where that costs less than a tenth of plain speed, else fast.",
    Mode.EXACT: "The text is the same with and without drafts, token for token.",
    Mode.FAST: "Any width: fastest, but where two tokens are nearly tied, drafts may tip the balance.",
}


def summary(plan: LoadPlan) -> str:
    """A plan in a few words: "nf4, Qwen3-0.6B + lookup in bf16, 8k context"; equal precisions are said once."""
    drafts = {"off": "no drafts", "lookup": "lookup", "auto": "drafts by the best there is"}.get(plan.draft)
    if drafts is None:
        more = " + lookup" if plan.draft == "mixed" else ""
        own = f" in {plan.draft_precision.value}" if plan.draft_precision is not plan.precision else ""
        name = "own mtp" if plan.draft_model == plan.model else short_name(plan.draft_model)
        drafts = f"{name}{more}{own}"
    return f"{plan.precision.value}, {drafts}, {tokens(plan.context)} context"


def _model(item: Item, stock: Stock) -> str:
    side = stock.side(item.plan.model)
    if side is None:
        return ""
    count = side.shape.parameters
    millions = f"{count / 1e9:.1f} billion" if count >= 1e9 else f"{count / 1e6:.0f} million"
    name = clean(side.source.name).replace("\n", " ")
    return f"{name}: {millions} parameters. Here: {summary(item.plan)}, {about(item.estimate.plain)} without drafts."


def _draft(item: Item, stock: Stock, partners: Partners) -> str:
    plan, comes_to = item.plan, item.estimate
    if plan.draft == "off":
        return f"Plain decoding: one token a step, {about(comes_to.plain)}."
    partner = drafting(stock, plan)[1]
    if partner is None:
        words = "Drafts are copied from the chat wherever it repeats itself. Costs no memory; pays in code and quotes."
        return " ".join(filter(None, (words, partners.hint, _left(partners))))
    words = f"{_KINDS[partner.kind]} step costs {percent(comes_to.cost_ratio)} of a target step, so it"
    if comes_to.break_even >= 1.0:
        words += " cannot pay and will stay parked."
    else:
        words += f" pays if more than {percent(comes_to.break_even)} of its guesses are accepted. "
        words += f"{_accepted(partner)}: {ratio(comes_to.drafted / comes_to.plain)} plain speed."
    against = [f"{_sentence(found.title)}: {found.detail}" for found in warnings(partner)]
    return clean(" ".join([words, *against]))


_KINDS = {
    "model": "A draft",
    "medusa": "Medusa heads guess several tokens at once. A",
    "eagle": "An EAGLE head guesses from the target's own state. A",
    "mtp": "Layers that were trained to look further ahead. A",
}


def _accepted(partner: Partner) -> str:
    """The acceptance that a speed is reckoned with."""
    if not partner.shares:
        return f"At {percent(TYPICAL_ACCEPTANCE)}"
    shown = " ".join(f"{100 * share:.0f}" for share in partner.shares[:4])
    return f"In training {shown} % were, place by place"


def _left(partners: Partners) -> str:
    if not partners.left:
        return ""
    first = partners.left[0]
    more = f" and {len(partners.left) - 1} more" if len(partners.left) > 1 else ""
    return clean(f"{short_name(first.name)}{more} cannot draft here: {first.reason}.")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def comes_to(estimate: Estimate, loaded: Loaded | None, *, changed: bool) -> str:
    """What a plan comes to, against what is loaded now; keys are named as `keymap.worded` takes them."""
    memory = estimate.memory
    if not memory.fits:
        return f"{gib(memory.shortfall)} too much. {{apply}} shows what would fit."
    if loaded is None or changed:
        now = f" (now {rate(loaded.plain_tokens_per_second)})" if loaded else ""
        drafted = f"≈ {rate(estimate.drafted)} with drafts"
        return f"{about(estimate.plain)} plain{now}, {drafted}; {gib(memory.free)} stay free."
    return f"Loaded: {rate(loaded.plain_tokens_per_second)} tok/s plain, measured; {gib(memory.free)} stay free."


def beside(loaded: Loaded) -> str:
    """Estimated and measured memory, part by part."""
    memory, usage = loaded.memory, loaded.usage
    pairs = (
        ("target", memory.target, usage.target),
        ("its cache", memory.target_cache, usage.target_cache),
        ("draft", memory.draft, usage.draft),
        ("its cache", memory.draft_cache, usage.draft_cache),
    )
    shown = [f"{name} {gib(plan)} → {gib(real)}" for name, plan, real in pairs if plan or real]
    return f"Planned → measured: {', '.join(shown)}."


def legend(memory: MemoryPlan, total: int) -> tuple[tuple[str, str, str], ...]:
    """Sign, colour and words of every part of the bar, on a device of so many bytes."""
    parts = (
        ("█", "$gauge-target", "target", memory.target),
        ("▓", "$gauge-target-cache", "cache", memory.target_cache),
        ("▒", "$gauge-draft", "draft", memory.draft),
        ("░", "$gauge-draft-cache", "cache", memory.draft_cache),
        ("▚", "$gauge-work", "work", memory.activations),
        ("╱", "$gauge-other", "others", max(0, total - memory.available)),
    )
    return tuple((sign, colour, f"{name} {size(nbytes)}") for sign, colour, name, nbytes in parts if nbytes)


def notes(loaded: Loaded) -> str:
    """What the engine had to say about a load."""
    wary = [found.title for found in loaded.findings if found.level is Level.WARN]
    return clean(" ".join([*loaded.notes, *(f"{_sentence(title)}." for title in wary)]))
