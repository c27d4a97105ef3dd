"""Drafting heads on this machine: found, read and matched with a target before anything is loaded. No torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from localchat.errors import LocalchatError, ModelError
from localchat.models.ahead import ahead_file, ahead_name
from localchat.models.folders import (
    STARTER_HEADS,
    Source,
    TensorInfo,
    cached_models,
    find_model,
    fingerprint,
    own_folders,
    read_config,
    short_name,
    text_config,
)
from localchat.models.head_formats import HeadFile, TargetSizes, canonical, looks_like_head, read_head_file
from localchat.models.head_shape import HeadShape, head_shape

if TYPE_CHECKING:
    from pathlib import Path

    from localchat.models.choice import Side


_DTYPES = ("F64", "F32", "BF16", "F16")


@dataclass(frozen=True, slots=True)
class HeadSide:
    """A drafting head that passed every check that needs no weights; the counterpart of `choice.Side`."""

    source: Source
    shape: HeadShape
    infos: tuple[TensorInfo, ...]
    """The tensors that are loaded, by the names they have in its files."""
    file: HeadFile

    @property
    def kind(self) -> str:
        """The drafting method it serves: medusa, eagle or mtp."""
        return self.file.config.kind


def is_head(folder: Path) -> bool:
    """True if a folder holds a drafting head and no model; a damaged one is no head."""
    try:
        return looks_like_head(folder)
    except LocalchatError:
        return False


def read_head(source: Source, target: Side | None) -> HeadSide:
    """Run every check of a head that needs no weights.

    Args:
        source: its folder; the target's own folder stands for the layers in it that predict further tokens.
        target: the model it is to draft for. Without one some of what it reads of its target stays open.

    Raises:
        ModelError: damaged, pickled, or of a layout that cannot be read.
    """
    if target and source.folder == target.source.folder:
        return _own_layers(source, target)
    sizes = TargetSizes(len(target.shape.windows), target.shape.vocab, target.shape.hidden) if target else TargetSizes()
    file, infos = read_head_file(source.folder, sizes)
    infos = tuple(info for info in infos if canonical(file.layout, info.name))
    if packed := next((info for info in infos if info.dtype not in _DTYPES), None):
        raise ModelError(f"The weights of {source.title} are already quantized ({packed.dtype}).", "Use the original.")
    file = file if file.base else replace(file, base=_known_base(source))
    return HeadSide(source, head_shape(file.config, infos), infos, file)


def has_own_layers(target: Side) -> bool:
    """True if a model's own files hold layers that predict further tokens."""
    return ahead_file(target.infos, target.shape, 0.0) is not None


def _own_layers(source: Source, target: Side) -> HeadSide:
    config = text_config(read_config(source.folder))
    file = ahead_file(target.infos, target.shape, float(config.get("rms_norm_eps") or 1e-6))
    if file is None:
        raise ModelError(
            f"{source.title} brings no layers that predict further tokens.",
            "Train a head for it (localchat train), or name one.",
        )
    infos = tuple(info for info in target.infos if ahead_name(info.name, len(target.shape.windows)))
    shape = head_shape(file.config, infos, target.shape.expert_share)
    return HeadSide(source, shape, infos, replace(file, base=source.name))


def _known_base(source: Source) -> str:
    from localchat.models.catalog import catalog

    return next((head.target for head in catalog().heads if head.id == source.name), "")


def all_heads() -> tuple[Source, ...]:
    """Every head on this machine: trained here, shipped with localchat, and in the hub cache."""
    trained = [Source(folder.name, folder) for folder in own_folders("heads")]
    shipped = [source for name in STARTER_HEADS if is_head((source := find_model(name)).folder)]
    return (*trained, *shipped, *(source for source in cached_models() if is_head(source.folder)))


def registered(target: Side) -> tuple[HeadSide, ...]:
    """The heads that were made for a target, in the order they are worth trying; broken ones are left out."""
    found = []
    for source in all_heads():
        try:
            head = read_head(source, target)
        except LocalchatError:
            continue
        if _made_for(head, target):
            found.append(head)
    return (*found, *((read_head(target.source, target),) if has_own_layers(target) else ()))


def _made_for(head: HeadSide, target: Side) -> bool:
    """By the weights it was trained on, else by the name of its target, else by its own name."""
    file, name = head.file, short_name(target.source.name)
    if (file.config.hidden, file.config.vocab) != (target.shape.hidden, target.shape.vocab):
        return False
    if short_name(file.base) == name or (not file.base and name in head.source.name.lower()):
        return True
    return bool(file.fingerprint) and file.fingerprint == fingerprint(target.source.folder)
