"""`localchat doctor`: is everything here that localchat needs, and if not, what to do about it."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import typer

from localchat import config, paths
from localchat.cli import head_words, options, output
from localchat.errors import LocalchatError


class Status(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str
    fix: str = ""


def doctor(json: options.Json = False) -> None:
    """Check this machine. Exit code 1 if something that is needed is missing."""
    results = [_guarded(name, check) for name, check in CHECKS]
    if json:
        checks = [{"name": r.name, "status": r.status.value, "detail": r.detail, "fix": r.fix} for r in results]
        output.emit({"checks": checks})
    else:
        output.table(("", "check", "found"), [(r.status.value, r.name, r.detail) for r in results])
        for result in results:
            if result.fix:
                output.line(f"{result.name}: {result.fix}")
    if any(result.status is Status.FAIL for result in results):
        raise typer.Exit(1)


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except LocalchatError as error:
        return Check(name, Status.FAIL, error.message, error.hint)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        return Check(name, Status.FAIL, f"{type(error).__name__}: {error}", "Install localchat again: pip install .")


def python() -> Check:
    """The interpreter and the system."""
    return Check("python", Status.OK, f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def torch_build() -> Check:
    """torch, and what it was built for."""
    import torch

    return Check("torch", Status.OK, f"torch {torch.__version__}, {torch.get_num_threads()} threads")


def device() -> Check:
    """The GPU that would be used."""
    import torch

    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        detail = f"{properties.name}, {output.gib(properties.total_memory)}, CUDA {torch.version.cuda}"
        return Check("device", Status.OK, detail)
    if torch.version.cuda is None and _has_nvidia():
        fix = "Install a CUDA build of torch (see the README), then run this again."
        return Check("device", Status.WARN, "an NVIDIA GPU, but torch was built without CUDA", fix)
    if _has_nvidia():
        return Check("device", Status.WARN, "an NVIDIA GPU that torch cannot use", "Update the NVIDIA driver.")
    return Check("device", Status.OK, "no GPU; models run on the CPU")


def _has_nvidia() -> bool:
    return Path("/proc/driver/nvidia/version").exists()


def bitsandbytes() -> Check:
    """The library of 4-bit and 8-bit weights."""
    from localchat.bench.report import version

    found = version("bitsandbytes")
    if found == "missing":
        return Check("bitsandbytes", Status.WARN, "missing: no nf4, no int8", "pip install 'bitsandbytes>=0.50,<0.51'")
    if not found.startswith("0.50."):
        return Check("bitsandbytes", Status.WARN, f"{found} was never tried", "pip install 'bitsandbytes>=0.50,<0.51'")
    return Check("bitsandbytes", Status.OK, found)


def transformers() -> Check:
    """The library of model code; its interfaces change with every minor version."""
    from localchat.bench.report import version

    found = version("transformers")
    if found == "missing":
        return Check("transformers", Status.FAIL, "missing", "pip install 'transformers>=5.24,<5.25'")
    if not found.startswith("5.24."):
        return Check("transformers", Status.WARN, f"{found} was never tried", "pip install 'transformers>=5.24,<5.25'")
    return Check("transformers", Status.OK, found)


def memory() -> Check:
    """What there is to load models into."""
    from localchat.models.devices import available_memory, resolve_device

    where = resolve_device("auto")
    free, total = available_memory(where)
    detail = f"{output.gib(free)} of {output.gib(total)} free on {where}"
    if free < 2**30:
        return Check("memory", Status.WARN, detail, "Close other programs, or use the starter pair.")
    return Check("memory", Status.OK, detail)


def settings() -> Check:
    """The config file and the environment."""
    file = config.read(paths.config_file())
    config.resolve(file, os.environ, {})
    return Check("config", Status.OK, f"{file.path}" if file.text else f"{file.path} (none yet, so all defaults)")


def folders() -> Check:
    """The folders that files are written to."""
    for folder in (paths.config_dir(), paths.data_dir(), paths.cache_dir(), paths.log_dir()):
        try:
            with tempfile.TemporaryFile(dir=paths.private_dir(folder)):
                pass
        except OSError as error:
            fix = "Make it writable, or set LOCALCHAT_HOME to a folder that is."
            return Check("folders", Status.FAIL, f"{folder} cannot be written to: {error.strerror}", fix)
    return Check("folders", Status.OK, f"writable; the log is {paths.log_file()}")


def starter() -> Check:
    """The built-in pair."""
    from localchat.models.folders import STARTER_DRAFT, check_folder, find_model
    from localchat.models.plan import STARTER

    for name in (STARTER, STARTER_DRAFT):
        check_folder(find_model(name).folder)
    return Check("starter pair", Status.OK, "complete")


def hub_cache() -> Check:
    """Models that were downloaded."""
    from localchat.models.folders import cached_models
    from localchat.models.folders import hub_cache as folder

    return Check("hub cache", Status.OK, f"{len(cached_models())} models in {folder()}")


def heads() -> Check:
    """Drafting heads, built in, trained here and downloaded."""
    found = head_words.here(())
    broken = [head for head in found if head.side is None]
    if broken:
        fix = f"Remove it (localchat models rm {broken[0].source.name}), or get it again."
        return Check("heads", Status.WARN, f"{broken[0].source.name}: {broken[0].remark}", fix)
    names = ", ".join(head.source.name for head in found)
    return Check("heads", Status.OK, f"{len(found)} ({names})" if found else "none; localchat train makes one")


CHECKS: tuple[tuple[str, Callable[[], Check]], ...] = (
    ("python", python),
    ("torch", torch_build),
    ("device", device),
    ("bitsandbytes", bitsandbytes),
    ("transformers", transformers),
    ("memory", memory),
    ("config", settings),
    ("folders", folders),
    ("starter pair", starter),
    ("hub cache", hub_cache),
    ("heads", heads),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)
