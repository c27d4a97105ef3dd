"""The state of a training on disk."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import safetensors.torch
import torch

from localchat.errors import GenerationError, UsageError
from localchat.train import checkpoint
from localchat.train.checkpoint import NotSavedError, alone

FULL = OSError(errno.ENOSPC, "No space left on device")


def save(path: Path, value: float) -> None:
    """A state of one number."""
    checkpoint.save(path, {"a": torch.full((3,), value)}, {"step": int(value)})


def stored(path: Path) -> tuple[float, object]:
    """The number, and the note about it."""
    found = checkpoint.load(path)
    assert found is not None
    return float(found[0]["a"][0]), found[1]["step"]


def test_what_is_saved_is_there_again(tmp_path: Path) -> None:
    """Guards against a state that is lost, or readable for others."""
    path = tmp_path / "new" / "state"
    save(path, 1.0)
    save(path, 2.0)
    assert stored(path) == (2.0, 2)
    assert path.stat().st_mode & 0o077 == 0
    assert [file.name for file in path.parent.iterdir()] == ["state"]


@pytest.mark.parametrize("error", [FULL, safetensors.SafetensorError("Error while serializing: I/O error: No space")])
def test_a_full_disk_leaves_the_last_good_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Guards against a full disk that takes the state before with it, or leaves half a file behind."""
    path = tmp_path / "state"
    save(path, 1.0)

    def half(_tensors: object, name: Path, _notes: object) -> None:
        Path(name).write_bytes(b"half")
        raise error

    monkeypatch.setattr(safetensors.torch, "save_file", half)
    with pytest.raises(NotSavedError):
        save(path, 2.0)
    assert stored(path) == (1.0, 1)
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_what_a_kill_leaves_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against half-written states that pile up, one for each kill."""
    path = tmp_path / "state"

    def killed(_tensors: object, name: Path, _notes: object) -> None:
        Path(name).write_bytes(b"half")
        raise FULL

    with monkeypatch.context() as patched:
        patched.setattr(safetensors.torch, "save_file", killed)
        patched.setattr(Path, "unlink", lambda _path, missing_ok: None)
        patched.setattr("os.getpid", lambda: 1)
        with pytest.raises(NotSavedError):
            save(path, 1.0)
    save(path, 2.0)
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_one_process_holds_a_state(tmp_path: Path) -> None:
    """Guards against two trainings that write over each other, a lock that stays when its holder is gone, and a
    traceback where nothing can be written."""
    first, second = tmp_path / "new" / "a", tmp_path / "new" / "b"
    taken = pytest.raises(UsageError, match="a is being trained by another process")
    with alone(first), alone(second), taken, alone(first):
        pass
    with alone(first):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(GenerationError, match="cannot be written"), alone(tmp_path / "file" / "a"):
        pass


@pytest.mark.parametrize("content", [b"", b"half", b"\x10\0\0\0\0\0\0\0{}"])
def test_a_damaged_state_counts_for_nothing(tmp_path: Path, content: bytes) -> None:
    """Guards against a crash that can never be got rid of."""
    path = tmp_path / "state"
    path.write_bytes(content)
    assert checkpoint.load(path) is None
    assert checkpoint.load(tmp_path / "missing") is None


def test_a_state_that_was_cut_short(tmp_path: Path) -> None:
    """Guards against half a state that is taken for a whole one."""
    path = tmp_path / "state"
    save(path, 1.0)
    path.write_bytes(path.read_bytes()[:-4])
    assert checkpoint.load(path) is None
