"""What the settings screen keeps in the config file: keys of a load plan, and profiles. No textual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from localchat import config
from localchat.config import File, Resolved, Settings, Value
from localchat.errors import LocalchatError
from localchat.models.plan import LoadPlan


@dataclass(frozen=True, slots=True)
class Kept:
    """The settings after something was kept, and what the user is to be told about it."""

    resolved: Resolved
    notice: str = ""
    """Empty if all went well."""


def values_of(plan: LoadPlan) -> dict[str, Value]:
    """The keys of the config file that a plan stands for; the device is left as it is."""
    return {
        "model": plan.model,
        "precision": plan.precision.value,
        "draft": plan.draft,
        "draft_model": plan.draft_model,
        "draft_precision": plan.draft_precision.value,
        "context": plan.context,
        "mode": plan.mode.value,
    }


def changed(plan: LoadPlan, base: LoadPlan) -> dict[str, Value]:
    """The keys in which a plan differs from another: what nobody changed stays automatic."""
    before = values_of(base)
    found = {key: value for key, value in values_of(plan).items() if value != before[key]}
    return found if plan.draft_model else {key: value for key, value in found.items() if key != "draft_precision"}


def in_profile(file: File, resolved: Resolved, name: str) -> Settings:
    """The settings of this run with a profile in place of its own, or with none; what was typed still counts.

    Except for what is loaded: the profile is the newer wish there.
    """
    values = {**config.DEFAULTS, **dict(file.values), **dict(dict(file.profiles).get(name, ()))}
    newer = values_of(LoadPlan())
    for key, source in resolved.sources:
        if source.startswith(("typed", "environment")) and key not in newer:
            values[key] = getattr(resolved.settings, key)
    return Settings(**cast("dict[str, Any]", values))


def keep(path: Path, resolved: Resolved, settings: Settings, values: Mapping[str, Value], profile: str) -> Kept:
    """Write keys into the file, or into the profile that is in use; they count for this run either way.

    Args:
        path: the config file.
        resolved: the settings so far.
        settings: those of `profile`.
        values: what is to be changed in them.
        profile: empty for the file itself.
    """
    now = replace(resolved, settings=replace(settings, **cast("dict[str, Any]", dict(values))), profile=profile)
    try:
        if values:
            config.write(path, values, profile)
        if profile != resolved.profile:
            config.write(path, {"profile": profile})
    except (LocalchatError, OSError) as error:
        return Kept(now, f"It counts until you leave: {path.name} could not be written ({_reason(error)}).")
    return Kept(now, _overruled(resolved, values))


def save_profile(path: Path, plan: LoadPlan, name: str) -> str:
    """Keep a plan under a name; returns what went wrong, or nothing."""
    try:
        config.write(path, values_of(plan), name)
    except (LocalchatError, OSError) as error:
        return f"The profile could not be kept in {path.name} ({_reason(error)})."
    return ""


def again(file: File) -> File:
    """The config file after it was written; as it was if it cannot be read."""
    try:
        return config.read(file.path)
    except LocalchatError:
        return file


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return str(error).rstrip(".")


def _overruled(resolved: Resolved, values: Mapping[str, Value]) -> str:
    """Next time, the environment still says otherwise."""
    sources = dict(resolved.sources)
    names = [sources[key] for key in values if sources.get(key, "").startswith("environment")]
    return f"Saved, but {names[0].removeprefix('environment ')} in your environment counts more." if names else ""
