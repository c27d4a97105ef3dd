"""What to train: a value with no torch in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from localchat.errors import UsageError
from localchat.models.folders import BUILT_IN
from localchat.models.plan import METHODS, STARTER, Precision
from localchat.paths import data_dir

KINDS = ("eagle", "medusa", "mtp", "draft")
"""Heads that read the target's states, and a small draft model cut out of the target."""

SELF, CHATS = "self", "chats"
"""Sources of text that are no files: what the target writes itself, and the user's chats."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,80}")


@dataclass(frozen=True, slots=True)
class TrainPlan:
    """A drafting network to train for a target."""

    kind: str
    model: str = STARTER
    data: tuple[str, ...] = (SELF,)
    """`SELF`, `CHATS`, files and folders. Chats are read only where they are named."""
    minutes: float = 30.0
    """In all, the target's own writing included; interruptions do not count."""
    precision: Precision = Precision.AUTO
    """Of the target while it teaches."""
    device: str = "auto"
    name: str = ""
    """Under which it is kept; empty: made from kind and target."""
    seed: int = 0
    trust_remote_code: bool = False

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: no such kind, no time, no data, or a name that is no file name or means something else.
        """
        if self.kind not in KINDS:
            raise UsageError(f"There is no kind {self.kind!r} to train.", f"Use one of {', '.join(KINDS)}.")
        if not 0 < self.minutes < 1e6:
            raise UsageError(f"{self.minutes:g} minutes is no time to train.", "Use --minutes 30.")
        if not self.data or not all(self.data):
            raise UsageError("There is no text to train on.", "Use --data self, chats, a file or a folder.")
        if self.name in BUILT_IN:
            raise UsageError(f"{self.name} is built in.", "Choose another --name.")
        if self.name in (*METHODS, "auto"):
            raise UsageError(f"{self.name} is a way of drafting, so it cannot be a name.", "Choose another --name.")
        if self.name and not _NAME.fullmatch(self.name):
            raise UsageError(f"{self.name!r} cannot be a name.", "Use letters, digits, dots, dashes and underscores.")

    def called(self, target: str) -> str:
        """The name it gets, given the target's title."""
        return self.name or re.sub(r"[^\w.]+", "-", f"{self.kind}-for-{target}").strip("-.").lower()


def run_folder(name: str) -> Path:
    """Where the state of an unfinished training is."""
    return data_dir() / "training" / name


def home(kind: str, name: str) -> Path:
    """Where what was trained is kept: heads and draft models have folders of their own."""
    return data_dir() / ("models" if kind == "draft" else "heads") / name


def check_free(name: str) -> None:
    """Refuse a name that something trained has already, of whatever kind.

    Raises:
        UsageError: it is taken.
    """
    if any(home(kind, name).exists() for kind in KINDS):
        hint = f"Choose another --name, or remove it with: localchat models rm {name}"
        raise UsageError(f"{name} is already trained.", hint)
