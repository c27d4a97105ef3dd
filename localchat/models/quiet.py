"""Keeping the libraries off the terminal while they read weights, and turning what they raise into one sentence."""

from __future__ import annotations

import errno
import logging as stdlib_logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from localchat.errors import FitError, LocalchatError, ModelError

Steps = Callable[[int, int], None]
"""Called with steps done and steps in all."""


class Bar:
    """Stands in for a progress bar: iterates, and tells the callback."""

    def __init__(self, steps: Steps, items: Any, total: int) -> None:
        self._steps, self._items, self._total = steps, items, total

    def __iter__(self) -> Iterator[Any]:
        for done, item in enumerate(self._items if self._items is not None else ()):
            self._steps(done, self._total)
            yield item
        self._steps(self._total, self._total)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_args, **_kwargs: None


@contextmanager
def quiet(steps: Steps) -> Iterator[None]:
    """Keep transformers from writing to the terminal; its weight loading reports to `steps`."""
    from transformers.utils import logging

    def hook(_: Any, args: Any, kwargs: Any) -> Bar:
        items = args[0] if args else kwargs.get("iterable")
        total = kwargs.get("total") or (len(items) if hasattr(items, "__len__") else 0)
        return Bar(steps if "weights" in str(kwargs.get("desc", "")) else lambda _done, _total: None, items, total)

    stdlib_logging.getLogger("bitsandbytes").setLevel(stdlib_logging.ERROR)
    verbosity = logging.get_verbosity()
    before = logging.set_tqdm_hook(hook)
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_tqdm_hook(before)
        logging.set_verbosity(verbosity)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn what the libraries raise into one sentence."""
    import torch
    from safetensors import SafetensorError

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise FitError(f"Memory ran out while loading {what}.", "Free some memory, or use --precision nf4.") from error
    except (OSError, SafetensorError) as error:
        if getattr(error, "errno", 0) == errno.ENOSPC or "No space left" in str(error):
            full = f"The disk is full: {what} could not be written."
            raise ModelError(full, "Free some space and try again.") from error
        raise ModelError(f"{what} could not be read: {_line(error)}", "The log has the details.") from error
    except LocalchatError:
        raise
    except Exception as error:  # the tokenizers library raises nothing more specific
        raise ModelError(f"{what} could not be loaded: {_line(error)}", "The log has the details.") from error


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]
