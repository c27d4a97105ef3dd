"""Which device, and how much memory it has. torch is imported only to ask a GPU."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from localchat.errors import FitError, UsageError


@dataclass(frozen=True, slots=True)
class Machine:
    """A device as far as a memory plan and a report need to know it."""

    device: str = "cpu"
    """"cpu" or "cuda:N"."""
    title: str = ""
    """For people, such as "cpu (Xeon ..., 2 threads)"."""
    free: int = 0
    """Bytes."""
    total: int = 0
    """Bytes."""
    bf16: bool = True
    """It has bf16 arithmetic of its own."""

    @property
    def cuda(self) -> bool:
        """True for a GPU."""
        return self.device.startswith("cuda")


def check_device(name: str) -> int:
    """The number of the GPU that a device's name means; 0 if it names none.

    Raises:
        UsageError: no such word.
    """
    match = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", name)
    if not match:
        raise UsageError(f"There is no device {name!r}.", "Use auto, cpu, cuda or cuda:N.")
    return int(match.group(1) or 0)


def resolve_device(name: str) -> str:
    """ "cpu" or "cuda:N" for "auto", "cpu", "cuda" or "cuda:N".

    Raises:
        UsageError: no such word.
        FitError: there is no such GPU.
    """
    index = check_device(name)
    if name == "cpu":
        return name
    import torch

    if not torch.cuda.is_available():
        if name == "auto":
            return "cpu"
        raise FitError("No usable NVIDIA GPU was found.", "Run localchat doctor, or use --device cpu.")
    if index >= torch.cuda.device_count():
        raise FitError(
            f"There is no GPU {index}; this machine has {torch.cuda.device_count()}.", "Use --device cuda:0."
        )
    return f"cuda:{index}"


def computes_bf16(device: str) -> bool:
    """True if the device has bf16 arithmetic of its own (GPUs from compute capability 8.0; every CPU can)."""
    if device == "cpu":
        return True
    import torch

    return torch.cuda.get_device_capability(device)[0] >= 8


def survey(name: str) -> Machine:
    """What "auto", "cpu", "cuda" or "cuda:N" is here, and what it has free now.

    Raises:
        UsageError: no such word.
        FitError: there is no such GPU.
    """
    device = resolve_device(name)
    free, total = available_memory(device)
    return Machine(device, device_title(device), free, total, computes_bf16(device))


def device_title(device: str) -> str:
    """A device's name and make, such as "cpu (Xeon ..., 2 threads)"."""
    import torch

    if device.startswith("cuda"):
        return f"{device} ({torch.cuda.get_device_name(device)})"
    threads = torch.get_num_threads()
    return f"{device} ({_processor()}, {threads} thread{'s' * (threads != 1)})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def available_memory(device: str) -> tuple[int, int]:
    """Free and total bytes of a device ("cpu" or "cuda:N"); limits of a container count."""
    if device.startswith("cuda"):
        import torch

        free, total = torch.cuda.mem_get_info(device)
        return int(free), int(total)
    free, total = _host_memory()
    limit, used = _container()
    return (min(free, max(0, limit - used)), min(total, limit)) if limit else (free, total)


def _host_memory() -> tuple[int, int]:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        return sizes["MemAvailable"], sizes["MemTotal"]
    except (OSError, KeyError, ValueError):
        pass
    if sys.platform == "darwin":
        return _mac_memory()
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30, 8 * 2**30  # nothing says how much there is: a small laptop is the safe guess


def _mac_memory() -> tuple[int, int]:
    def ask(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout

    try:
        total = int(ask("sysctl", "-n", "hw.memsize"))
        pages = dict(re.findall(r"Pages (free|inactive|speculative):\s+(\d+)", ask("vm_stat")))
        return sum(int(count) for count in pages.values()) * os.sysconf("SC_PAGE_SIZE"), total
    except (OSError, ValueError, subprocess.SubprocessError):
        return 4 * 2**30, 8 * 2**30


def _container() -> tuple[int, int]:
    """Limit and use of the control group in bytes, files that can be dropped left out; (0, 0) without a limit."""
    base = Path("/sys/fs/cgroup")
    try:
        limit = int((base / "memory.max").read_text())
        used = int((base / "memory.current").read_text())
        stat = dict(line.split() for line in (base / "memory.stat").read_text().splitlines())
        return limit, used - int(stat.get("inactive_file", 0))
    except (OSError, ValueError):
        return 0, 0
