"""Bare `localchat`: the chat screen."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

import typer

from localchat import config, paths
from localchat.cli import options
from localchat.errors import LocalchatError, UsageError

if TYPE_CHECKING:
    from localchat.chat.store import Store
    from localchat.config import File, Resolved


def chat(ctx: typer.Context, *, last: bool, resume: int | None, trust_remote_code: bool) -> None:
    """Open the screen: first the frame, then the engine's process, then the rest.

    Raises:
        UsageError: this is no terminal, a typed setting is not allowed, or there is no such chat.
    """
    _check_terminal()
    gc.disable()  # until the chat is there
    file, resolved, notices = _settings(ctx)
    plan = options.load_plan(resolved.settings, trust_remote_code=trust_remote_code)
    from localchat.tui.app import LocalChat, Start

    def prepare() -> Start:
        from localchat.worker.client import Worker

        worker = Worker()
        worker.start()  # before all else, so that it warms up meanwhile
        from localchat.chat.store import open_store
        from localchat.tui.desk import Desk
        from localchat.tui.host import Host

        try:
            opened = open_store(paths.store_file())
            first = _chat_to_open(opened.store, last=last, resume=resume)
        except LocalchatError:
            worker.close()
            raise
        settings = resolved.settings
        desk = Desk(Host(worker), opened.store, file, resolved, plan, settings.system, settings.accelerate)
        is_new = not opened.store.value("started") and dict(resolved.sources)["model"] == "default"
        return Start(desk, first, is_new, tuple(filter(None, (*notices, opened.notice))))

    problem = LocalChat(prepare, resolved.settings.theme).run(mouse=resolved.settings.mouse)
    if problem is not None:
        raise problem


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
