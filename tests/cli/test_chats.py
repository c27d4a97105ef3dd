"""`localchat chats`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localchat.chat.conversation import Role
from localchat.chat.store import Chat, Store, open_store
from tests.cli.conftest import Run


@pytest.fixture
def store(home: Path) -> Store:
    """The user's store."""
    return open_store(home / "data" / "chats.db").store


@pytest.fixture
def chat(store: Store) -> Chat:
    """A chat with two branches."""
    chat = store.create()
    question = store.add(chat.id, None, Role.USER, "What is \x1b[31mred\u202e?")
    store.add(chat.id, question.id, Role.ASSISTANT, "A colour.")
    store.add(chat.id, question.id, Role.ASSISTANT, "Blood and roses.")
    return store.chat(chat.id)


def test_list(run: Run, chat: Chat) -> None:
    """Guards the listing and its schema, and the terminal against titles."""
    (listed,) = json.loads(run("chats", "list", "--json").stdout)
    assert listed == {
        "id": chat.id,
        "title": chat.title,
        "created": chat.created,
        "updated": chat.updated,
        "messages": 3,
    }
    table = run("chats", "list").stdout
    assert "red" in table
    assert "\x1b" not in table
    assert "\u202e" not in table


def test_an_empty_store(run: Run) -> None:
    """Guards the first use of every listing."""
    for command in (("chats", "list"), ("chats", "search", "x")):
        result = run(*command, "--json")
        assert (result.exit_code, json.loads(result.stdout)) == (0, [])
        assert run(*command).exit_code == 0


def test_search(run: Run, chat: Chat) -> None:
    """Guards what is found, and words that look like options or operators."""
    (hit,) = json.loads(run("chats", "search", "roses", "--json").stdout)
    assert (hit["chat"], hit["snippet"]) == (chat.id, "Blood and roses.")
    assert "roses" in run("chats", "search", "blood", "ros").stdout
    for words in (('"',), ("*",), ("AND", "OR"), ("--", "-x")):
        assert run("chats", "search", *words).exit_code == 0


def test_show(run: Run, chat: Chat) -> None:
    """Guards the branch that is shown, and the terminal against what was said."""
    shown = run("chats", "show", str(chat.id)).stdout
    assert "Blood and roses." in shown
    assert "A colour." not in shown
    assert "\x1b" not in shown
    record = json.loads(run("chats", "show", str(chat.id), "--json").stdout)
    assert [message["role"] for message in record["messages"]] == ["user", "assistant"]


def test_export_and_import(run: Run, chat: Chat, tmp_path: Path) -> None:
    """Guards the way to another machine: files, pipes, private rights, nothing overwritten."""
    whole = run("chats", "export", str(chat.id), "--json").stdout
    file = tmp_path / "chat.json"
    assert run("chats", "export", str(chat.id), "-o", str(file)).exit_code == 0
    assert file.read_text(encoding="utf-8") == whole
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("chats", "export", str(chat.id), "-o", str(file)).exit_code == 2
    new = run("chats", "import", str(file)).stdout.strip()
    piped = json.loads(run("chats", "import", "-", "--json", stdin=whole).stdout)
    assert int(new) != piped["id"] != chat.id
    assert run("chats", "export", new, "--json").stdout == whole
    markdown = tmp_path / "chat.md"
    run("chats", "export", str(chat.id), "-o", str(markdown))
    assert markdown.read_text(encoding="utf-8") == run("chats", "export", str(chat.id)).stdout
    assert markdown.read_text(encoding="utf-8").startswith("# What is")


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "99"),
        ("export", "99"),
        ("import", "no-such-file"),
        ("import", "."),
        ("import", "-"),
        ("export", "1", "-o", "/proc/no/such.md"),
        ("show", str(2**63)),
    ],
)
def test_faults_are_sentences(run: Run, chat: Chat, arguments: tuple[str, ...]) -> None:
    """Guards exit code 2, a sentence and a hint for everything that is not there."""
    result = run("chats", *arguments, stdin="no export")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") >= 2


def test_import_refuses_what_it_cannot_keep(run: Run, home: Path) -> None:
    """Guards against an import into memory that ends with the command."""
    (home / "data").mkdir(parents=True)
    (home / "data" / "chats.db").mkdir()
    result = run("chats", "import", "-", stdin="{}")
    assert result.exit_code == 1
    assert "not taken in" in result.stderr


def test_broken_input_is_text_all_the_same(run: Run, store: Store) -> None:
    """Guards an import with bytes that are no UTF-8."""
    assert run("chats", "import", "-", stdin=b"\xff\xfe{}").exit_code == 2
    assert store.chats() == []
