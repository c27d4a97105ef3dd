"""Where files live, and how they are written: private (0600, folders 0700) and never half.

A leaf. `LOCALCHAT_HOME` moves everything under one folder.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

_APP = "localchat"


def _folder(kind: str, default: str) -> Path:
    home = os.environ.get("LOCALCHAT_HOME")
    return Path(home).expanduser() / kind if home else Path(default)


def config_dir() -> Path:
    """The folder of the config file and of the user's themes."""
    return _folder("config", platformdirs.user_config_dir(_APP, appauthor=False))


def config_file() -> Path:
    """The config file; it need not exist."""
    return config_dir() / "config.toml"


def data_dir() -> Path:
    """The folder of what must not be lost."""
    return _folder("data", platformdirs.user_data_dir(_APP, appauthor=False))


def store_file() -> Path:
    """The file of the chats."""
    return data_dir() / "chats.db"


def cache_dir() -> Path:
    """The folder of what can be made again: measured timings, converted weights."""
    return _folder("cache", platformdirs.user_cache_dir(_APP, appauthor=False))


def log_dir() -> Path:
    """The folder of the log."""
    return _folder("log", platformdirs.user_log_dir(_APP, appauthor=False))


def log_file() -> Path:
    """The log: the only place a traceback goes to."""
    return log_dir() / "localchat.log"


def private_dir(path: Path) -> Path:
    """Make `path` and its missing parents, readable by the user alone, and return it.

    Raises:
        OSError: it cannot be made.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def write_private(path: Path, content: str | bytes) -> None:
    """Write a whole file, or leave the old one as it was: the new bytes are complete before they take its place.

    Raises:
        OSError: the disk is full or the folder is not writable.
    """
    private_dir(path.parent)
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes files 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def append_private(path: Path, text: str) -> None:
    """Add text to a file, made private if it is new.

    Raises:
        OSError: the disk is full or the folder is not writable.
    """
    private_dir(path.parent)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
