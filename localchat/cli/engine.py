"""The commands' way to an engine: open it, and close it whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localchat.bench.hear import Show
    from localchat.chat.backend import Backend
    from localchat.chat.events import Loaded
    from localchat.models.plan import LoadPlan


def new_backend() -> Backend:
    """An engine in this process."""
    from localchat.chat.session import Session

    return Session()


@contextmanager
def opened(plan: LoadPlan, show: Show) -> Iterator[tuple[Backend, Loaded]]:
    """A loaded engine, closed at the end; every event is passed to `show`.

    Raises:
        LocalchatError: loading failed.
    """
    from localchat.bench import hear

    backend = new_backend()
    try:
        yield backend, hear.load(backend, plan, show)
    finally:
        backend.close()
