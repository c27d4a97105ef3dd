"""What there is to choose from on this machine: models that can run, and who can draft for each. No torch.

Only headers, configs and tokenizers are read, and a broken model is left out with its reason: nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from localchat.errors import LocalchatError
from localchat.models.catalog import LocalModel, describe, local_models, pairs_for, spec_for
from localchat.models.choice import Side, inspect
from localchat.models.folders import STARTER_DRAFT, Source, find_model, gguf_folder
from localchat.models.pairing import Candidate, Finding, Level, check_pair, read_candidate
from localchat.models.plan import STARTER, Precision

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


@dataclass(frozen=True, slots=True)
class Partner:
    """A model that can draft for a target, and what the checks of the pair say."""

    side: Side
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Partners:
    """Who can draft for a target."""

    usable: tuple[Partner, ...] = ()
    left: tuple[Left, ...] = ()
    hint: str = ""
    """What to get where none is here; empty if one is, or none is known."""


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
        if name not in known:
            try:
                models.append(describe(find_model(name)))
            except LocalchatError as error:
                left.append(Left(name, error.message))
    read = [_side(model, trust=model.source.name == trusted) for model in models]
    sides = tuple(side for side in read if isinstance(side, Side))
    return Found(sides, (*left, *(side for side in read if isinstance(side, Left))))


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


def partners(target: Side, others: Iterable[Side]) -> Partners:
    """Try every smaller model of a like vocabulary as a draft model for `target`, best known pair first."""
    near = [side for side in others if side.source.name != target.source.name and _likely(target, side)]
    pairs = [pair.draft for pair in pairs_for(target.source.name)]
    usable, left = [], []
    own = _candidate(target) if near else None
    for side in near:
        other = _candidate(side)
        if isinstance(own, Candidate) and isinstance(other, Candidate):
            pairing = check_pair(own, other)
            problem = pairing.problem
            if problem is None:
                usable.append(Partner(side, pairing.findings))
            else:
                left.append(Left(side.source.name, problem.title))
        else:
            left.append(next(item for item in (own, other) if isinstance(item, Left)))
    usable.sort(key=lambda partner: _order(partner, pairs))
    hint = "" if usable or not pairs else f"A draft model would make this faster: localchat models pull {pairs[0]}"
    return Partners(tuple(usable), tuple(left), hint)


def _likely(target: Side, side: Side) -> bool:
    smaller = side.shape.step_bytes(Precision.BF16) < target.shape.step_bytes(Precision.BF16)
    return smaller and abs(side.shape.vocab - target.shape.vocab) <= _NEAR_VOCABULARY


def _order(partner: Partner, pairs: list[str]) -> tuple[int, float]:
    name = partner.side.source.name
    return (pairs.index(name) if name in pairs else len(pairs), partner.side.shape.parameters)


def _candidate(side: Side) -> Candidate | Left:
    try:
        return read_candidate(side.source.name, side.source.folder, Precision.BF16)
    except LocalchatError as error:
        return Left(side.source.name, error.message)


def warnings(partner: Partner) -> tuple[Finding, ...]:
    """What the checks have to say against a pair, its cost left out (that depends on the precisions)."""
    quiet = ("drafting can pay", "drafting can hardly pay", "drafting cannot pay")
    return tuple(found for found in partner.findings if found.level is not Level.OK and found.title not in quiet)
