"""Two thousand hostile texts through the store and into files: all of them come back, and none acts on a terminal."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

from localchat.bench import export as comparisons
from localchat.bench.chart import Colours, svg
from localchat.bench.record import record
from localchat.chat.conversation import Role
from localchat.chat.export import export_json, export_markdown, import_json
from localchat.chat.store import open_store
from localchat.sanitize import RUN, clean, clean_from
from localchat.tui.export import file_name
from tests.bench.test_comparison import a_comparison
from tests.support import hostile
from tests.support.backend import Scripted

ACTS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def test_cleaned_text_is_as_long_and_stays_clean() -> None:
    """Guards marks on a text by place, towers of signs over other lines, and texts that are cleaned in parts."""
    for text in hostile.strings():
        safe = clean(text)
        assert len(safe) == len(text)
        assert not ACTS.search(safe)
        assert clean(safe) == safe
        half = len(text) // 2
        assert clean_from(text, half) == safe[half:]
    tower = clean("z" + "\u0301" * 99)
    assert tower == "z" + "\u0301" * RUN + "�" * (99 - RUN)
    assert all(a + b == clean(a + b) for a, b in pairwise(["─" * 99, "漢字" * 50, "👩\u200d💻" * 20]))
    assert not any(unicodedata.category(char) == "Cs" for text in hostile.FRAGMENTS for char in clean(text))


def test_chats_come_back_and_exports_are_safe(tmp_path: Path) -> None:
    """Guards the store, the search, and both exports of a chat."""
    store = open_store(tmp_path / "chats.db").store
    chat, last = store.create(), None
    for text in hostile.strings():
        last = store.add(chat.id, last, Role.USER, text).id
        assert store.node(last).text == text
    for text in hostile.short():
        store.search(text)
        assert re.fullmatch(r"[\w.-]+", file_name(text), re.ASCII)
    chat = store.save(replace(store.chat(chat.id), title=hostile.FRAGMENTS[0], system=hostile.FRAGMENTS[3]))
    text = export_json(store, chat)
    assert text.isascii()
    other = import_json(store, text)
    assert other.leaf is not None
    assert [node.text for node in store.path(other.leaf)] == list(hostile.strings())
    assert not ACTS.search(export_markdown(store, chat, chat.leaf))
    store.close()


def test_comparisons_are_safe() -> None:
    """Guards the three files of a comparison: valid JSON in ASCII, a page in which nothing acts, a valid picture."""
    for text in (*hostile.messages()[::4], *hostile.FRAGMENTS[::2]):
        whole = a_comparison(Scripted(text[:300] or "x"))
        whole = replace(whole, target=text[:200], device=text[:200], draft_model=text[:200])
        assert json.loads(line := json.dumps(record(whole)))
        assert line.isascii()
        assert not ACTS.search(comparisons.markdown(whole, "x.svg"))
        picture = svg(whole, Colours())
        assert not ACTS.search(picture)
        ElementTree.fromstring(picture)
