"""The texts to learn from: files, folders, chats and the target's own, as rows of token ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localchat import paths
from localchat.errors import UsageError
from localchat.train.plan import CHATS, SELF

LENGTH = 256
"""Most tokens of a row, and so as far as a head learns to look back."""

STEP, SHORTEST = 8, 24
"""Rows are cut to a multiple of this many tokens, so that batches of equal length can be made of them; shorter ones
are left out."""

_HELD_OUT = 12
"""One row in so many is kept to judge on, but at least one and no more than `_JUDGED`."""
_JUDGED = 48
_LARGEST = 16 * 2**20
"""Most bytes read of one source."""
_LARGEST_FILE = 2**20
"""Larger files of a folder are data, not text."""


@dataclass(frozen=True, slots=True)
class Text:
    """Token ids; of what the target wrote, `opening` of them are not its own."""

    tokens: tuple[int, ...]
    opening: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """What there is to learn from and to judge on; each row begins as the target would see a text begin."""

    training: tuple[tuple[int, ...], ...]
    held_out: tuple[tuple[int, ...], ...]

    @property
    def tokens(self) -> int:
        """To learn from."""
        return sum(map(len, self.training))

    @property
    def judged(self) -> int:
        """Tokens to judge on."""
        return sum(map(len, self.held_out))


def collect(data: Sequence[str], tokenizer: Any) -> Iterator[Text]:
    """The texts of all sources but the target's own.

    Raises:
        UsageError: a source is missing, empty, unreadable or no text.
    """
    for source in data:
        if source == CHATS:
            yield from _chats(tokenizer)
        elif source != SELF:
            path = _path(source)
            found = _folder(path) if path.is_dir() else [_file(path)]
            yield from (Text(tuple(tokenizer(text, verbose=False)["input_ids"])) for text in found)


def _path(source: str) -> Path:
    try:
        path = Path(source).expanduser()
        path.stat()
    except (FileNotFoundError, NotADirectoryError, RuntimeError) as error:  # the last: somebody who has no home
        raise UsageError(f"There is no file {source}.", "Use a text file, a folder, chats or self.") from error
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}.", "Check its permissions.") from error
    return path


def _file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    text = _decoded(data)
    if text is None:
        raise UsageError(f"{path} is no text file: it holds binary data.", "Use a UTF-8 text file.")
    if not text.strip():
        raise UsageError(f"{path} is empty.", "Use a file with some pages of text.")
    return text


def _decoded(data: bytes) -> str | None:
    """The text, or None for binary data; a character that was cut at the end is left out."""
    for cut in range(4 if len(data) == _LARGEST else 1):
        try:
            return None if b"\0" in data else data[: len(data) - cut].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
    return None


def _folder(folder: Path) -> list[str]:
    """The text files below a folder, but hidden ones."""
    found, room = [], _LARGEST
    for path in sorted(folder.rglob("*")):
        if any(part.startswith((".", "__pycache__", "node_modules")) for part in path.relative_to(folder).parts):
            continue
        try:
            data = path.read_bytes() if path.is_file() and path.stat().st_size <= min(room, _LARGEST_FILE) else b""
        except OSError:
            continue
        text = _decoded(data)
        if text and text.strip():
            found.append(text)
            room -= len(data)
    if not found:
        raise UsageError(f"There is no text file in {folder}.", "Use a folder with UTF-8 text files of up to 1 MiB.")
    return found


def _chats(tokenizer: Any) -> Iterator[Text]:
    from localchat.chat.conversation import Role
    from localchat.chat.prompt import Prompt
    from localchat.chat.store import open_store

    if not paths.store_file().is_file():
        raise UsageError("There are no chats to learn from yet.", "Use --data self or a file.")
    prompt, store = Prompt(tokenizer), open_store(paths.store_file()).store
    try:
        for chat in store.chats(10_000):
            talk = store.conversation(chat.leaf) if chat.leaf is not None else None
            if talk and talk.messages[-1].role is Role.ASSISTANT:
                yield Text(prompt.encode(talk))
    finally:
        store.close()


def digest(texts: Iterable[Text]) -> str:
    """A hash that is equal for equal texts."""
    return hashlib.sha256(json.dumps([text.tokens for text in texts]).encode()).hexdigest()


def split(texts: Iterable[Text], beginning: int | None, remedy: str = "") -> Rows:
    """Cut texts into rows and keep some apart, the same ones whenever it is asked.

    Texts with one opening go to the same side.

    Args:
        texts: from all sources.
        beginning: the id that the tokenizer puts before every text, put before the later parts of long ones too.
        remedy: what to do where they are too short.

    Raises:
        UsageError: they are too short to learn from.
    """
    found: dict[tuple[int, ...], int] = {}
    for text in texts:
        for row in _cut(text.tokens, beginning):
            key = text.tokens[: text.opening] or row
            found[row] = int.from_bytes(hashlib.sha256(json.dumps(key).encode()).digest()[:8], "big")
    rows = sorted(found, key=lambda row: (found[row], row))
    held = rows[: min(max(1, len(rows) // _HELD_OUT), _JUDGED)]
    apart = {found[row] for row in held}
    training = tuple(row for row in rows if found[row] not in apart)
    if (count := sum(map(len, rows))) < 2 * LENGTH or not training:
        raise UsageError(
            f"The training text is too short: it makes {count} tokens, and at least {2 * LENGTH} are needed.",
            remedy,
        )
    return Rows(training, tuple(held))


def _cut(tokens: tuple[int, ...], beginning: int | None) -> Iterator[tuple[int, ...]]:
    lead = tokens[:1] if tokens and tokens[0] == beginning else ()
    size = LENGTH - len(lead)
    for start in range(len(lead), len(tokens), size):
        row = (*lead, *tokens[start : start + size])
        row = row[: len(row) // STEP * STEP]
        if len(row) >= SHORTEST:
            yield row


class Kept:
    """The target's own texts on disk, one line each: what was written once is never written again.

    Args:
        file: of this target; a line that was cut by a crash is left out.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.texts: list[Text] = []
        self.seconds = 0.0
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        for line in lines:
            try:
                entry = json.loads(line)
                self.texts.append(Text(tuple(entry["tokens"]), int(entry["opening"])))
                self.seconds = float(entry["seconds"])
            except (ValueError, KeyError, TypeError):
                continue

    @property
    def tokens(self) -> int:
        """That the target wrote."""
        return sum(len(text.tokens) - text.opening for text in self.texts)

    def add(self, texts: Sequence[Text], seconds: float) -> bool:
        """Keep some more, and the seconds they took; False if the disk is full, so that they are in memory alone."""
        self.texts += texts
        self.seconds += seconds
        lines = [json.dumps({"seconds": self.seconds, "opening": t.opening, "tokens": t.tokens}) for t in texts]
        try:
            # An empty line first: the last one may have lost its end in a crash.
            paths.append_private(self._file, "\n".join(["", *lines, ""]))
        except OSError:
            return False
        return True
