"""Models and pairs known by name, and models that are on this machine. Data in catalog.toml; no torch."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from localchat.errors import LocalchatError
from localchat.models.folders import (
    STARTER_DRAFT,
    Source,
    cached_models,
    find_model,
    own_folders,
    read_config,
    refusal,
    short_name,
    weight_files,
)
from localchat.models.heads import is_head
from localchat.models.memory import Shape
from localchat.models.plan import STARTER


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model known by its hub id."""

    id: str
    family: str
    billions: float
    """Parameters in billions, for people."""
    gated: bool
    """The hub asks for an account and consent before it can be downloaded."""
    shape: Shape
    """From the fields of its config.json as the catalog lists them."""


@dataclass(frozen=True, slots=True)
class PairSpec:
    """A draft model that suits a target."""

    target: str
    draft: str


@dataclass(frozen=True, slots=True)
class HeadSpec:
    """A published head whose files do not say what it was made for."""

    id: str
    target: str


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model found on this machine."""

    source: Source
    shape: Shape | None
    """None if the folder cannot be read."""
    disk_bytes: int
    problem: str = ""
    """Why it cannot run here; empty if it can."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything catalog.toml says."""

    models: tuple[ModelSpec, ...]
    pairs: tuple[PairSpec, ...]
    heads: tuple[HeadSpec, ...]


@cache
def catalog() -> Catalog:
    """The built-in catalog."""
    with (Path(__file__).parent / "catalog.toml").open("rb") as file:
        data = tomllib.load(file)
    models = tuple(_model(entry) for entry in data["model"])
    pairs = tuple(
        PairSpec(target, draft) for entry in data["pair"] for target in entry["targets"] for draft in entry["drafts"]
    )
    heads = tuple(HeadSpec(head, entry["target"]) for entry in data["head"] for head in entry["heads"])
    return Catalog(models, pairs, heads)


def _model(entry: Mapping[str, Any]) -> ModelSpec:
    return ModelSpec(
        id=str(entry["id"]),
        family=str(entry["family"]),
        billions=float(entry["billions"]),
        gated=bool(entry["gated"]),
        shape=Shape.from_config(entry["config"]),
    )


def spec_for(model: str) -> ModelSpec | None:
    """The catalog's entry for a hub id, or for a folder or file that carries the model's name."""
    wanted = short_name(model)
    return next((spec for spec in catalog().models if spec.id == model or short_name(spec.id) == wanted), None)


def pairs_for(model: str) -> tuple[PairSpec, ...]:
    """Pairs known for a target (hub id, or a folder of that name), in the order they are worth trying."""
    wanted = short_name(model)
    return tuple(pair for pair in catalog().pairs if pair.target == model or short_name(pair.target) == wanted)


def local_draft(model: str) -> Source | None:
    """The first draft model the catalog knows for `model` that is on this machine.

    A draft model may lie in the hub cache, or in a folder beside the target's.
    """
    beside = Path(model).expanduser().parent
    for pair in pairs_for(model):
        for name in (pair.draft, str(beside / pair.draft.rsplit("/", 1)[-1])):
            try:
                source = find_model(name)
                weight_files(source.folder)
            except LocalchatError:
                continue
            return source
    return None


def describe(source: Source) -> LocalModel:
    """What can be said about a model on this machine without loading it; never raises for a broken one."""
    if source.gguf:
        try:
            return LocalModel(source, None, (source.folder / source.gguf).stat().st_size)
        except OSError as error:
            return LocalModel(source, None, 0, f"{source.gguf} cannot be read: {error.strerror}.")
    try:
        reason = refusal(read_config(source.folder))
        size = sum(path.stat().st_size for path in weight_files(source.folder))
        return LocalModel(source, Shape.from_folder(source.folder), size, reason[0] if reason else "")
    except LocalchatError as error:
        size = sum(path.stat().st_size for path in source.folder.glob("*") if path.is_file())
        return LocalModel(source, None, size, error.message)


def local_models(folders: tuple[Path, ...] = ()) -> tuple[LocalModel, ...]:
    """The built-in pair, models trained here, the hub cache, and model folders or GGUF files directly inside `folders`.

    Drafting heads are left out (`heads.all_heads`).
    """
    sources = [find_model(STARTER), find_model(STARTER_DRAFT), *cached_models()]
    sources += [Source(folder.name, folder) for folder in own_folders("models")]
    for folder in folders:
        sources += [Source(str(path.parent), path.parent) for path in sorted(folder.glob("*/config.json"))]
        sources += [Source(str(path), path.parent, path.name) for path in sorted(folder.glob("*.gguf"))]
    return tuple(describe(source) for source in sources if source.gguf or not is_head(source.folder))
