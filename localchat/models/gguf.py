"""GGUF files: checked, and unpacked once into an ordinary folder that is kept in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

from localchat.errors import LocalchatError, ModelError
from localchat.models.folders import REPAIR, Source
from localchat.models.quiet import Bar, Steps, explained, quiet


def check_gguf(path: Path) -> None:
    """Check the fixed start of a GGUF file.

    Raises:
        ModelError: it is no GGUF file, or of a version that cannot be read.
    """
    try:
        with path.open("rb") as file:
            start = file.read(24)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.", "Check the path and its permissions.") from error
    if len(start) < 24 or start[:4] != b"GGUF":
        raise ModelError(f"{path} is no GGUF file, or only the start of one.", REPAIR)
    version = struct.unpack("<I", start[4:8])[0]
    if version not in (2, 3):
        raise ModelError(f"{path} is a GGUF file of version {version}; versions 2 and 3 can be read.", REPAIR)


def gguf_folder(path: Path) -> Path:
    """Where a GGUF file's unpacked form lies once it has been made; another one for every change of the file.

    Raises:
        OSError: there is no such file.
    """
    from localchat.paths import cache_dir

    state = path.stat()
    key = hashlib.sha256(f"{path.resolve()} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()[:12]
    return cache_dir() / "gguf" / f"{path.stem}-{key}"


def unpack_gguf(source: Source, progress: Callable[[str, int, int], None]) -> Source:
    """An ordinary bf16 folder made from a GGUF file: written once into the cache folder, then found there.

    Raises:
        ModelError: the file is broken or of a kind that cannot be read, or the disk is full.
    """
    from localchat.paths import private_dir

    path = source.folder / source.gguf
    check_gguf(path)
    folder = gguf_folder(path)
    done = _unpacked(source, folder)
    if (folder / "config.json").is_file():
        return done
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    progress("unpacking the GGUF file", 0, 0)
    for left in folder.parent.glob(f".{folder.name}.*"):  # by a process that was killed
        if time.time() - left.stat().st_mtime > 3600:
            shutil.rmtree(left, ignore_errors=True)
    try:
        with explained(path.name):
            private_dir(partial)
            _convert(path, partial, lambda at, total: progress("unpacking the GGUF file", at, total))
            os.replace(partial, folder)
    except LocalchatError:
        if (folder / "config.json").is_file():  # another process was faster
            return done
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return done


def _unpacked(source: Source, folder: Path) -> Source:
    """The unpacked folder, still under the name of the file."""
    return Source(source.name.removesuffix(".gguf"), folder)


def _convert(path: Path, folder: Path, steps: Steps) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers import modeling_gguf_pytorch_utils as reader

    bar = reader.tqdm
    reader.tqdm = lambda items, **_: Bar(steps, items, len(items))  # the one bar that has no hook
    try:
        with quiet(lambda _done, _total: None):
            tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
            model = AutoModelForCausalLM.from_pretrained(
                path.parent,
                gguf_file=path.name,
                dtype=torch.bfloat16,
                quantization_config=GgufConfig(dequantize=True),
                local_files_only=True,
            )
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    finally:
        reader.tqdm = bar
    for file in folder.iterdir():
        file.chmod(0o600)
