"""Bare `localchat`: the chat screen."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

import typer

from localchat import config, paths
from localchat.cli import options
from localchat.errors import UsageError

if TYPE_CHECKING:
    from localchat.chat.store import Store
    from localchat.config import File, Resolved


def chat(ctx: typer.Context, *, last: bool, resume: int | None, mouse: bool, trust_remote_code: bool) -> None:
    """Open the screen. The engine's process is started first: it warms up while the screen is painted.

    Raises:
        UsageError: this is no terminal, a typed setting is not allowed, or there is no such chat.
    """
    _check_terminal()
    gc.disable()  # until the first frame is painted
    file, resolved, notices = _settings(ctx)
    plan = options.load_plan(resolved.settings, trust_remote_code=trust_remote_code)
    from localchat.worker.client import Worker

    worker = Worker()
    worker.start()
    try:
        from localchat.chat.store import open_store
        from localchat.tui.app import LocalChat
        from localchat.tui.desk import Desk
        from localchat.tui.host import Host

        opened = open_store(paths.store_file())
        notices += filter(None, [opened.notice])
        first = _chat_to_open(opened.store, last=last, resume=resume)
        settings = resolved.settings
        desk = Desk(Host(worker), opened.store, file, resolved, plan, settings.system, settings.accelerate)
        first_start = not opened.store.value("started") and dict(resolved.sources)["model"] == "default"
        LocalChat(desk, chat=first, first_start=first_start, notices=tuple(notices)).run(mouse=mouse)
    finally:
        worker.close()


def _check_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError("The chat screen needs a terminal.", 'In scripts and pipes use: localchat ask "..."')
    if os.environ.get("TERM", "") in ("dumb", "unknown"):
        raise UsageError(
            f"The chat screen cannot be drawn on this terminal (TERM={os.environ['TERM']}).",
            'Use another terminal, or: localchat ask "..."',
        )


def _settings(ctx: typer.Context) -> tuple[File, Resolved, list[str]]:
    """A broken config file must not keep anybody from their chats: it is said, and the defaults are used."""
    try:
        file = config.read(paths.config_file())
    except UsageError as error:
        file = config.File(paths.config_file())
        return file, options.resolve_with(ctx, file), [f"{error.message} {error.hint} The defaults are used."]
    return file, options.resolve_with(ctx, file), []


def _chat_to_open(store: Store, *, last: bool, resume: int | None) -> int | None:
    if resume is not None:
        from localchat.chat.store import MissingError

        try:
            return store.chat(resume).id
        except MissingError:
            raise UsageError(f"There is no chat {resume}.", "localchat chats list shows what there is.") from None
    latest = store.latest()
    if latest is not None and (last or store.interrupted(latest.id)):
        return latest.id
    return None
