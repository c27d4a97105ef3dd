"""Where training text comes from, what is refused, and what is kept apart to judge on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localchat import paths
from localchat.chat.conversation import Role
from localchat.chat.store import open_store
from localchat.errors import UsageError
from localchat.train.texts import LENGTH, STEP, Kept, Text, collect, split
from tests.support.models import tiny_tokenizer, vocab_id
from tests.train.support import WORDS

BOS = vocab_id("<|bos|>")


def texts(*data: object) -> list[Text]:
    """What the sources hold."""
    return list(collect([str(source) for source in data], tiny_tokenizer()))


def words(text: Text) -> str:
    """A text as it was."""
    return str(tiny_tokenizer().decode(text.tokens))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"", "is empty"), (b" \n\t\n", "is empty"), (b"MZ\0\0abc", "no text file"), (b"caf\xe9 au lait", "no text file")],
)
def test_files_that_are_no_text(tmp_path: Path, content: bytes, sentence: str) -> None:
    """Guards against training on nothing, or on the bytes of a picture."""
    file = tmp_path / "data"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        texts(file)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """Guards against a traceback for a typing error."""
    with pytest.raises(UsageError, match="no file"):
        texts(tmp_path / "nope.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no text file in"):
        texts(tmp_path / "empty")


def test_names_that_no_path_can_have(tmp_path: Path) -> None:
    """Guards against a traceback for the home of nobody, or a text in the place of a name."""
    with pytest.raises(UsageError, match="no file ~nobody-at-all/x"):
        texts("~nobody-at-all/x")
    with pytest.raises(UsageError, match=r"cannot be read|no file"):
        texts(tmp_path / (300 * "x"))


def test_a_folder_with_a_file_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a whole folder that is lost to one file that may not be read, or is gone meanwhile."""
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    real = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.name == "a.txt":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    assert [words(text) for text in texts(tmp_path)] == ["b.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read(tmp_path: Path) -> None:
    """Guards against a traceback for somebody else's file."""
    file = tmp_path / "secret.txt"
    file.write_text(WORDS)
    file.chmod(0)
    with pytest.raises(UsageError, match="cannot be read"):
        texts(file)


def test_a_folder_gives_its_text_files(tmp_path: Path) -> None:
    """Guards against hidden files, pictures or data in the training text, and against an order that changes."""
    for name, content in {
        "b.py": b"print(1)",
        "a/c.txt": "für dich".encode(),
        ".git/config": b"[core]",
        "__pycache__/b.pyc": b"abc",
        "picture.png": b"\x89PNG\0",
        "empty.txt": b"",
        "huge.csv": b"1,2\n" * 300_000,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert [words(text) for text in texts(tmp_path)] == ["für dich", "print(1)"]


def test_chats_are_read_only_when_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against learning from chats that nobody offered, and against replies torn from their prompt."""
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="no chats"):
        texts("chats")
    assert not paths.store_file().exists()
    store = open_store(paths.store_file()).store
    chat = store.create("Be brief.")
    asked = store.add(chat.id, None, Role.USER, "Hello?")
    store.add(chat.id, asked.id, Role.ASSISTANT, "Hi.")
    unanswered = store.create()
    store.add(unanswered.id, None, Role.USER, "Anyone?")
    store.close()
    assert texts("self") == []
    expected = "<|bos|><|system|>Be brief.<|end|><|user|>Hello?<|end|><|assistant|>Hi."
    assert [words(text) for text in texts("chats")] == [expected]


def numbered(count: int, length: int = LENGTH, opening: int = 0) -> list[Text]:
    """Different texts of one length."""
    return [Text((BOS, *(number * 7 % 251 for _ in range(2)), *range(length - 3)), opening) for number in range(count)]


def test_rows_begin_as_texts_do() -> None:
    """Guards against later parts of a long text that lack the beginning-of-text token the target knows, and against
    rows of odd lengths, which would make batches of one."""
    text = Text((BOS, *range(200), *range(200), *range(200), *range(100)))
    found = split([text], BOS)
    every = (*found.training, *found.held_out)
    assert all(row[0] == BOS and len(row) % STEP == 0 and len(row) <= LENGTH for row in every)
    assert sorted(map(len, every)) == [184, 256, 256]
    plain = split([Text(text.tokens[1:])], None)
    assert BOS not in {token for row in (*plain.training, *plain.held_out) for token in row}


def test_some_rows_are_kept_apart() -> None:
    """Guards against judging on text that was learnt, and against another choice after a resumption."""
    found = split(numbered(120), BOS)
    assert len(found.held_out) == 10
    assert len(found.training) == 110
    assert not set(found.training) & set(found.held_out)
    assert split(reversed(numbered(120)), BOS) == found


def test_texts_of_one_opening_stay_together() -> None:
    """Guards against a held-out text whose twin, greedy and so nearly the same, is learnt."""
    many = [Text((BOS, opening, *range(2 * twin, 100 + 2 * twin)), 2) for opening in range(40) for twin in range(3)]
    found = split(many, BOS)
    assert found.held_out
    assert not {row[1] for row in found.training} & {row[1] for row in found.held_out}


@pytest.mark.parametrize("many", [[], [Text((BOS, 1, 2))], numbered(1), numbered(1) * 5])
def test_too_little_text(many: list[Text]) -> None:
    """Guards against a training that learns a page by heart, or divides by nothing."""
    with pytest.raises(UsageError, match="too short"):
        split(many, BOS)


def test_written_texts_survive(tmp_path: Path) -> None:
    """Guards against a file that one torn line makes useless, or that swallows the line after it."""
    file = tmp_path / "cache" / "written.jsonl"
    kept = Kept(file)
    assert kept.add([Text((1, 2, 3), 1), Text((4, 5), 1)], 2.5)
    with file.open("a") as torn:
        torn.write('{"seconds": 9.0, "opening": 1, "tok')
    again = Kept(file)
    assert (again.texts, again.seconds, again.tokens) == (kept.texts, 2.5, 3)
    assert again.add([Text((6, 7, 8), 2)], 1.0)
    assert Kept(file).texts == [*kept.texts, Text((6, 7, 8), 2)]


def test_written_texts_without_a_disk(tmp_path: Path) -> None:
    """Guards against the end of a training because its notes cannot be kept."""
    (tmp_path / "file").write_text("")
    kept = Kept(tmp_path / "file" / "written.jsonl")
    assert not kept.add([Text((1, 2, 3), 1)], 1.0)
    assert kept.texts == [Text((1, 2, 3), 1)]
