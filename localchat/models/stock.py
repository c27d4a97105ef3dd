"""What there is to choose from on this machine: models that can run, and who can draft for each. No torch.

Only headers, configs and tokenizers are read, and a broken model is left out with its reason: nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from localchat.errors import LocalchatError, ModelError
from localchat.models.catalog import LocalModel, describe, local_draft, local_models, pairs_for, spec_for
from localchat.models.choice import AnySide, Side, drafts_by_head, inspect
from localchat.models.folders import STARTER_DRAFT, Source, find_model, short_name
from localchat.models.gguf import gguf_folder
from localchat.models.heads import HeadSide, all_heads, is_head, read_head, registered
from localchat.models.pairing import (
    TYPICAL_ACCEPTANCE,
    Candidate,
    Finding,
    Level,
    check_head,
    check_pair,
    read_candidate,
)
from localchat.models.plan import STARTER, Precision

CHANGED = "target has changed"
"""Title of the finding about a head that was trained for other weights than its target has now."""

_REACH = 16
"""Places that a draft model is taken to guess ahead at most."""

_NEAR_VOCABULARY = 1024
"""Heads that differ by more rows than this belong to different tokenizers; those are not read to find out."""


@dataclass(frozen=True, slots=True)
class Left:
    """A model that cannot be chosen, and why."""

    name: str
    reason: str
    may_try: bool = False
    """It may run: only its size is not known before it is opened."""


@dataclass(frozen=True, slots=True)
class Found:
    """The models on this machine."""

    sides: tuple[Side, ...]
    left: tuple[Left, ...] = ()
    heads: tuple[tuple[str, Partner], ...] = ()
    """By model, the head it is loaded with if it has no known pair here; see `with_heads`."""


@dataclass(frozen=True, slots=True)
class Partner:
    """A model or head that can draft for a target, and what the checks of the pair say."""

    side: AnySide
    findings: tuple[Finding, ...] = ()
    shares: tuple[float, ...] = ()
    """By place in the draft, the share of first guesses that was accepted in training; empty if that is not known."""
    reach: int = _REACH
    """Places it can guess ahead."""
    inside: bool = False
    """It is part of the target's own files."""

    @property
    def kind(self) -> str:
        """Its drafting method: model, medusa, eagle or mtp."""
        return self.side.kind

    @property
    def title(self) -> str:
        """Its short name, with a mark if the target has changed since a head was trained."""
        name = f"own {self.kind}" if self.inside else self.side.source.title
        return f"! {name}" if any(found.title == CHANGED for found in self.findings) else name

    @property
    def at_once(self) -> bool:
        """One step guesses all places."""
        return self.kind == "medusa"

    @property
    def usual(self) -> tuple[float, ...]:
        """What to expect by place where nothing was measured."""
        return (TYPICAL_ACCEPTANCE,) * self.reach


@dataclass(frozen=True, slots=True)
class Partners:
    """Who can draft for a target."""

    usable: tuple[Partner, ...] = ()
    left: tuple[Left, ...] = ()
    hint: str = ""
    """What to get where none is here; empty if one is, or none is known."""


@dataclass(frozen=True, slots=True)
class Part:
    """A draft model or head by name, as a `LoadPlan` takes it, and the drafting method it serves."""

    name: str
    kind: str


def parts(model: str, names: Iterable[str] = (), *, trust: bool = False) -> tuple[Part, ...]:
    """What can draft for a model: the known pair, and every head that was made for it; or what is called by name.

    Raises:
        ModelError: one of them is not here, or cannot be used.
    """
    source = find_model(model)
    target = _side(describe(source), trust=trust)
    if isinstance(target, Left):
        raise ModelError(f"{target.name}: {target.reason}", "localchat models list shows what can be used.")
    opened = not target.source.gguf
    if names:
        return tuple(_part(find_model(name), name, target if opened else None) for name in names)
    pair = local_draft(model)
    heads = registered(target) if opened else ()
    return (*((Part(pair.name, "model"),) if pair else ()), *(Part(head.source.name, head.kind) for head in heads))


def _part(source: Source, name: str, target: Side | None) -> Part:
    by_head = target is not None and drafts_by_head(source, target)
    return Part(name, read_head(source, target).kind if by_head else "model")


def find(folders: tuple[Path, ...] = (), named: Iterable[str] = (), trusted: str = "") -> Found:
    """Every model on this machine: the built-in pair, the hub cache, `folders`, and those called by name.

    Args:
        folders: where to look for model folders and GGUF files.
        named: hub ids, folders or files that may lie elsewhere.
        trusted: a model whose own code the user lets run.
    """
    models = list(local_models(folders))
    known, left = {model.source.name for model in models}, []
    for name in named:
        if name not in known and not _head(name):
            try:
                models.append(describe(find_model(name)))
            except LocalchatError as error:
                left.append(Left(name, error.message))
    read = [_side(model, trust=model.source.name == trusted) for model in models]
    sides = tuple(side for side in read if isinstance(side, Side))
    return Found(sides, (*left, *(side for side in read if isinstance(side, Left))))


def with_heads(found: Found) -> Found:
    """The same with the first head of each model."""
    heads = ((side.source.name, _first_head(side)) for side in found.sides)
    return replace(found, heads=tuple((name, head) for name, head in heads if head))


def _first_head(side: Side) -> Partner | None:
    try:
        return next((_partner(side, head) for head in registered(side)), None) if not side.source.gguf else None
    except (LocalchatError, OSError):  # its files went away
        return None


def find_guide() -> Found:
    """The built-in pair alone."""
    read = [_side(describe(find_model(name)), trust=False) for name in (STARTER, STARTER_DRAFT)]
    return Found(tuple(side for side in read if isinstance(side, Side)))


def _side(model: LocalModel, *, trust: bool) -> Side | Left:
    """A model as the memory plan needs it; of a GGUF file that was never opened, the catalog's figures."""
    if model.problem and not trust:
        return Left(model.source.name, model.problem)
    source = model.source
    try:
        if source.gguf:
            folder = gguf_folder(source.folder / source.gguf)
            if not (folder / "config.json").is_file():
                return _unopened(source)
            source = Source(source.name, folder)
        return inspect(source, trust_remote_code=trust)
    except OSError as error:
        return Left(source.name, f"it cannot be read ({error.strerror})")
    except LocalchatError as error:
        return Left(source.name, error.message)


def _unopened(source: Source) -> Side | Left:
    spec = spec_for(source.name)
    if spec:
        return Side(source, spec.shape, ())
    return Left(source.name, "its size in memory is known once it has been loaded", may_try=True)


def partners(target: Side, others: Iterable[Side], named: Iterable[str] = ()) -> Partners:
    """Who can draft for `target`: the known pair, heads made for it, and smaller models of a like vocabulary.

    Args:
        target: the model that decides.
        others: models to try.
        named: heads that may be meant for it, whatever their files say, among other names.
    """
    near = [side for side in others if side.source.name != target.source.name and _likely(target, side)]
    pairs = [pair.draft for pair in pairs_for(target.source.name)]
    own = _candidate(target)
    tried = [_tried(own, side) for side in near] + _heads(own, target, named)
    usable = [partner for partner in tried if isinstance(partner, Partner)]
    left = [item for item in tried if isinstance(item, Left)]
    usable.sort(key=lambda partner: _order(partner, pairs))
    hint = "" if usable or not pairs else f"A draft model would make this faster: localchat models pull {pairs[0]}"
    return Partners(tuple(usable), tuple(left), hint)


def _tried(own: Candidate | Left, side: Side) -> Partner | Left:
    """A draft model if it suits, else why not."""
    other = _candidate(side)
    if isinstance(own, Left):
        return own
    if isinstance(other, Left):
        return other
    pairing = check_pair(own, other)
    return Left(side.source.name, pairing.problem.title) if pairing.problem else Partner(side, pairing.findings)


def _heads(own: Candidate | Left, target: Side, named: Iterable[str]) -> list[Partner | Left]:
    """The heads that were made for a target, and why those that seem to be cannot be used."""
    if isinstance(own, Left):
        return []
    made = registered(target)
    tried = [_suits(own, target, head) for head in made]
    called = [source for name in named if (source := _head(name))]
    for source in dict.fromkeys((*called, *all_heads())):
        if source in [head.source for head in made]:
            continue
        try:
            head = read_head(source, target)
            found, base = _suits(own, target, head), head.file.base
        except LocalchatError as error:
            found, base = Left(source.name, error.message), ""
        name = short_name(target.source.name)
        meant = short_name(base) == name if base else name in source.name.lower()
        if source in called or (meant and isinstance(found, Left)):
            tried.append(found)
    return tried


def _head(name: str) -> Source | None:
    try:
        source = find_model(name)
    except LocalchatError:
        return None
    return source if not source.gguf and is_head(source.folder) else None


def _suits(own: Candidate, target: Side, head: HeadSide) -> Partner | Left:
    """A head if it suits, else why not."""
    pairing = check_head(own, head)
    if pairing.problem:
        return Left(head.source.name, f"it was {pairing.problem.title}")
    return _partner(target, head, pairing.findings)


def _partner(target: Side, head: HeadSide, findings: tuple[Finding, ...] = ()) -> Partner:
    shares = tuple(ranks[0] for ranks in head.file.acceptance if ranks)
    reach = head.file.config.depth if head.kind == "medusa" else _REACH
    return Partner(head, findings, shares, reach, inside=head.source.folder == target.source.folder)


def _likely(target: Side, side: Side) -> bool:
    smaller = side.shape.step_bytes(Precision.BF16) < target.shape.step_bytes(Precision.BF16)
    return smaller and abs(side.shape.vocab - target.shape.vocab) <= _NEAR_VOCABULARY


def _order(partner: Partner, pairs: list[str]) -> tuple[float, ...]:
    """Known pairs first, then heads as they were found, then other models, small ones first."""
    name = partner.side.source.name
    if name in pairs:
        return (pairs.index(name),)
    return (len(pairs),) if partner.kind != "model" else (len(pairs) + 1, partner.side.shape.parameters)


def _candidate(side: Side) -> Candidate | Left:
    try:
        return read_candidate(side.source.name, side.source.folder, Precision.BF16)
    except LocalchatError as error:
        return Left(side.source.name, error.message)


def warnings(partner: Partner) -> tuple[Finding, ...]:
    """What the checks have to say against a pair, its cost left out (that depends on the precisions)."""
    quiet = ("drafting can pay", "drafting can hardly pay", "drafting cannot pay")
    return tuple(found for found in partner.findings if found.level is not Level.OK and found.title not in quiet)
