"""What the commands say about drafting heads: rows of a listing, records for scripts, one head in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localchat.cli import output
from localchat.errors import LocalchatError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localchat.models.catalog import LocalModel
    from localchat.models.folders import Source
    from localchat.models.heads import HeadSide

COLUMNS = (">parameters", ">on disk", "head", "kind", "target", "accepted in training", "remark")


@dataclass(frozen=True, slots=True)
class Head:
    """A head on this machine, as far as its files can be read."""

    source: Source
    side: HeadSide | None
    disk_bytes: int
    remark: str = ""
    """What is wrong with it, or with its target; empty if nothing is."""


def here(models: Iterable[LocalModel]) -> list[Head]:
    """Every head on this machine; those inside the files of `models` under the name of their model."""
    from localchat.models.heads import all_heads

    inside = (_inside(model.source) for model in models if not (model.problem or model.source.gguf))
    return [*(read(source) for source in all_heads()), *(head for head in inside if head)]


def _inside(source: Source) -> Head | None:
    from localchat.models.choice import inspect
    from localchat.models.heads import has_own_layers, read_head

    try:
        target = inspect(source)
        return (
            Head(source, read_head(source, target), 0, "in the files of its target") if has_own_layers(target) else None
        )
    except LocalchatError:
        return None


def read(source: Source) -> Head:
    """One head; a broken one has its problem as the remark."""
    from localchat.models.heads import read_head

    disk = sum(path.stat().st_size for path in source.folder.glob("*") if path.is_file())
    try:
        side = read_head(source, None)
        return Head(source, side, disk, _of_target(side))
    except LocalchatError as error:
        return Head(source, None, disk, error.message)


def _of_target(side: HeadSide) -> str:
    """What there is to say about the target that a head was made for."""
    from localchat.models.folders import find_model, fingerprint

    if not side.file.base:
        return "it does not say which model it was made for"
    try:
        target = find_model(side.file.base)
        changed = side.file.fingerprint not in ("", fingerprint(target.folder))
    except LocalchatError:
        return "its target is not on this machine"
    return "its target has changed since" if changed else ""


def row(head: Head) -> tuple[str, ...]:
    """One line of the listing."""
    if head.side is None:
        return "?", output.gib(head.disk_bytes), head.source.name, "?", "?", "", head.remark
    file = head.side.file
    accepted = _percent([ranks[0] for ranks in file.acceptance if ranks])
    parameters = output.count(head.side.shape.parameters)
    return parameters, output.gib(head.disk_bytes), head.source.name, head.side.kind, file.base, accepted, head.remark


def record(head: Head) -> dict[str, object]:
    """The same for scripts; its names are those of models where they mean the same."""
    side = head.side
    return {
        "kind": side.kind if side else "head",
        "name": head.source.name,
        "folder": str(head.source.folder),
        "gguf": "",
        "disk_bytes": head.disk_bytes,
        "parameters": side.shape.parameters if side else None,
        "model_type": None,
        "max_context": None,
        "target": side.file.base if side else None,
        "acceptance": [list(ranks) for ranks in side.file.acceptance] if side else [],
        "problem": "" if side else head.remark,
        "remark": head.remark,
    }


def show(head: Head, *, as_json: bool) -> None:
    """One head in full."""
    from localchat.models.folders import read_config

    trained = read_config(head.source.folder).get("trained") or {}
    if as_json:
        output.emit({**record(head), "trained": trained})
        return
    rows = [("folder", str(head.source.folder)), ("on disk", output.gib(head.disk_bytes))]
    rows += _rows(head.side) if head.side else []
    if isinstance(trained, dict):
        rows += [(f"trained, {name.replace('_', ' ')}", _listed(value)) for name, value in trained.items()]
    rows += [("remark", head.remark)] if head.remark else []
    output.table(("", head.source.name), rows)


def _rows(side: HeadSide) -> list[tuple[str, str]]:
    config = side.file.config
    reads = ", ".join("the last state" if tap < 0 else f"layer {tap}" for tap in config.taps)
    scores = f"{config.draft_vocab} of {config.vocab} tokens" if config.draft_vocab else f"all {config.vocab} tokens"
    places = [("accepted at place", _percent(ranks)) for ranks in side.file.acceptance]
    return [
        ("kind", side.kind),
        ("target", side.file.base or "it does not say"),
        ("parameters", output.count(side.shape.parameters)),
        ("reads", reads),
        ("scores", scores),
        *((f"{name} {place}", f"{shares} (best guess, second, …)") for place, (name, shares) in enumerate(places, 1)),
    ]


def _percent(shares: list[float] | tuple[float, ...]) -> str:
    return " ".join(f"{100 * share:.0f}" for share in shares) + (" %" if shares else "")


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def made_for(source: Source) -> list[str]:
    """Names of the heads that were made for a model."""
    from localchat.models.choice import inspect
    from localchat.models.heads import registered

    try:
        return [head.source.name for head in registered(inspect(source))]
    except LocalchatError:  # it cannot run here, or is a GGUF file that was never opened
        return []
