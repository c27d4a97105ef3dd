"""Writes a chat to a file the user names: Markdown for people, JSON for another localchat."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from textual.screen import Screen

from localchat import paths
from localchat.chat.export import export_json, export_markdown
from localchat.chat.store import Chat, Store


def file_name(title: str) -> str:
    """A chat's title as the name of a file."""
    return re.sub(r"[^\w.-]+", "-", title, flags=re.ASCII).strip("-.")[:50] or "chat"


async def export(screen: Screen[Any], store: Store, chat: Chat) -> str:
    """Ask for a path, write the file, and say what came of it."""
    from localchat.tui.screens.ask_name import AskName

    proposed = str(Path.cwd() / f"{file_name(chat.title)}.md")
    asked = await screen.app.push_screen_wait(AskName("Export to (.md or .json)", proposed))
    if not asked:
        return "Nothing was exported."
    path = Path(asked).expanduser()
    is_json = path.suffix.lower() == ".json"
    path = _free(path)
    text = export_json(store, chat) if is_json else export_markdown(store, chat, chat.leaf)
    try:
        paths.write_private(path, text)
    except OSError as error:
        return f"Not exported: {error.strerror or error}. Choose another folder."
    return f"Exported to {path}"


def _free(path: Path) -> Path:
    """The same name with a number, if there is such a file: nothing is written over."""
    if not path.exists():
        return path
    number = 2
    while (other := path.with_stem(f"{path.stem}-{number}")).exists():
        number += 1
    return other
