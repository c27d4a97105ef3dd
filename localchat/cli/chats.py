"""`localchat chats`: what was said, to be listed, found, read and taken elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localchat import paths
from localchat.cli import options, output
from localchat.errors import UsageError

if TYPE_CHECKING:
    from localchat.chat.store import Chat, Store

app = typer.Typer(help="What was said: list, find, read, export.", no_args_is_help=True)
_LARGEST = 2**63 - 1
Id = Annotated[int, typer.Argument(metavar="ID", max=_LARGEST, help="A chat, as `localchat chats list` numbers them.")]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, max=_LARGEST, help="Show at most so many.")]
Target = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write to this file, not to the screen.", show_default=False)
]


@contextmanager
def _opened() -> Iterator[Store]:
    from localchat.chat.store import open_store

    opened = open_store(paths.store_file())
    if opened.notice:
        output.say(opened.notice)
    try:
        yield opened.store
    finally:
        opened.store.close()


@app.command("list")
def list_(limit: Limit = 50, json: options.Json = False) -> None:
    """List the chats, the last used first."""
    from localchat.chat.export import day

    with _opened() as store:
        chats = [(chat, store.totals(chat.id).messages) for chat in store.chats(limit)]
    if json:
        output.emit([_record(chat, messages) for chat, messages in chats])
        return
    rows = [(str(chat.id), day(chat.updated), str(messages), _name(chat.title)) for chat, messages in chats]
    output.table((">id", "last used", ">messages", "title"), rows)


def _name(title: str) -> str:
    return " ".join(title.split()) or "(no title)"


def _record(chat: Chat, messages: int) -> dict[str, object]:
    return {
        "id": chat.id,
        "title": chat.title,
        "created": chat.created,
        "updated": chat.updated,
        "messages": messages,
    }


@app.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Words that all occur; the last may go on.")],
    limit: Limit = 50,
    json: options.Json = False,
) -> None:
    """Find chats by their titles and messages."""
    with _opened() as store:
        hits = store.search(" ".join(words), limit)
    if json:
        from localchat.cli.records import record

        output.emit([record(hit) for hit in hits])
        return
    rows = [(str(hit.chat), _name(hit.title), "(title)" if hit.node is None else hit.snippet) for hit in hits]
    output.table((">id", "title", "found"), rows)


@app.command()
def show(id: Id, json: options.Json = False) -> None:
    """Show a chat: the branch that was looked at last."""
    from localchat.chat.export import export_markdown

    with _opened() as store:
        chat = store.chat(id)
        if not json:
            output.write(export_markdown(store, chat, chat.leaf))
            return
        nodes = store.path(chat.leaf) if chat.leaf is not None else []
    from localchat.cli.records import record

    output.emit({**_record(chat, len(nodes)), "system": chat.system, "messages": [record(node) for node in nodes]})


@app.command()
def export(id: Id, file: Target = None, json: options.Json = False) -> None:
    """Write a chat as Markdown, or whole and with all branches as JSON (--json, or a file that ends so)."""
    from localchat.chat.export import export_json, export_markdown

    if file is not None and file.exists():
        raise UsageError(f"{file} is there already.", "Choose another name, or remove it first.")
    with _opened() as store:
        chat = store.chat(id)
        whole = json or (file is not None and file.suffix == ".json")
        text = export_json(store, chat) if whole else export_markdown(store, chat, chat.leaf)
    if file is None:
        output.write(text)
        return
    try:
        paths.write_private(file, text)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.", "Choose another place.") from error
    output.say(f"Written to {file}.")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export --json` wrote; - reads stdin.")],
    json: options.Json = False,
) -> None:
    """Take in a chat that was exported as JSON; prints its id."""
    from localchat.chat.export import import_json
    from localchat.chat.store import StoreError

    text = _read(file)
    with _opened() as store:
        if not store.lasting:
            raise StoreError("The chat was not taken in: it could not be kept.", "Settle what is said above first.")
        chat = import_json(store, text)
        messages = store.totals(chat.id).messages
    output.emit(_record(chat, messages)) if json else output.line(str(chat.id))


def _read(file: Path) -> str:
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Check the path.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no text.", "Give a file that `localchat chats export ID --json` wrote.") from error


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="chats")
