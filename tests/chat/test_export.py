"""Export and import: nothing raw for a terminal, nothing lost on the way back."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localchat.chat.codec import decode, encode
from localchat.chat.conversation import Role
from localchat.chat.events import Reply
from localchat.chat.export import export_json, export_markdown, import_json
from localchat.chat.store import Chat, State, Store, Written
from localchat.engine.types import Sampling
from localchat.errors import UsageError
from localchat.sanitize import clean
from tests.chat.stores import HOSTILE, opened, reply, said, summary, written


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return opened(tmp_path / "chats.db")


def branched(store: Store) -> Chat:
    """A chat with branches, every state, figures and tokens."""
    chat = store.create("Be \x1b[1m brief.", Sampling(temperature=0.1, seed=3), accelerate=False)
    question = store.add(chat.id, None, Role.USER, "Why?")
    for state in State:
        answer = store.add(chat.id, question.id, Role.ASSISTANT, f"Because {state}", state)
        store.keep(answer.id, answer.text, state, summary())
        store.keep_written(answer.id, written())
    for text in HOSTILE:
        store.add(chat.id, answer.id, Role.USER, text)
    store.show(chat.id, answer.id)
    return store.save(replace(store.chat(chat.id), title="\x1b]0;owned\x07", draft="half", preset="p", seed=2**63 - 1))


def test_json_comes_back_as_it_was(store: Store, tmp_path: Path) -> None:
    """Guards the whole round trip, into the same and into another store: the second export equals the first."""
    chat = branched(store)
    text = export_json(store, chat)
    for target in (store, opened(tmp_path / "other.db")):
        found = import_json(target, text)
        assert export_json(target, found) == text
        assert replace(found, id=chat.id, leaf=chat.leaf) == chat
        assert found.leaf is not None
        assert target.node(found.leaf).text == "Because failed"
        assert target.search("because")
    assert json.loads(text)["messages"][1]["summary"]["sampling"]["seed"] == 2**62


def test_nothing_raw_is_exported(store: Store) -> None:
    """Guards the terminal that an export is printed on."""
    chat = branched(store)
    texts = [export_json(store, chat)]
    texts += [export_markdown(store, chat, node.id) for node in store.nodes(chat.id)]
    for text in texts:
        assert clean(text) == text
        text.encode()
    assert texts[0].isascii()
    assert "\x7f" not in texts[0]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(), title=st.text(), draft=st.text(), floats=st.floats(0, 1e9))
def test_any_text_comes_back(store: Store, text: str, title: str, draft: str, floats: float) -> None:
    """Guards the round trip of any text, and that Markdown of it is clean."""
    chat = store.create(text)
    node = store.add(chat.id, None, Role.ASSISTANT, text)
    store.keep(node.id, text, State.COMPLETE, replace(summary(), total_seconds=floats))
    chat = store.save(replace(store.chat(chat.id), title=title, draft=draft))
    exported = export_json(store, chat)
    assert export_json(store, import_json(store, exported)) == exported
    markdown = export_markdown(store, chat, node.id)
    assert clean(markdown) == markdown


def test_an_empty_chat_comes_back(store: Store) -> None:
    """Guards against an export that only works with messages."""
    text = export_json(store, store.create())
    assert export_json(store, import_json(store, text)) == text
    assert export_markdown(store, store.create(), None).startswith("# Untitled chat\n")


def _edited(text: str, **changes: object) -> str:
    return json.dumps({**json.loads(text), **changes})


def test_what_is_no_export_is_refused(store: Store) -> None:
    """Guards the store against half an import, and the user against a traceback."""
    good = export_json(store, branched(store))
    message = json.loads(good)["messages"][1]
    bad = [
        "",
        "nonsense",
        "[]",
        "3",
        "null",
        "[" * 100_000,
        "9" * 5000,
        "{}",
        _edited(good, format="something else"),
        _edited(good, version=99),
        _edited(good, leaf=99),
        _edited(good, leaf=-1),
        _edited(good, seed=2**63),
        _edited(good, seed=-1),
        _edited(good, created=-1.0),
        _edited(good, created="nan"),
        _edited(good, updated=1e300),
        _edited(good, title=3),
        _edited(good, accelerate="yes"),
        _edited(good, sampling={"temperature": -1}),
        _edited(good, messages={}),
        _edited(good, messages=[3]),
        _edited(good, messages=[{**message, "parent": 0}]),
        _edited(good, messages=[{**message, "parent": None, "role": "robot"}]),
        _edited(good, messages=[{**message, "parent": None, "state": "lost"}]),
        _edited(good, messages=[{**message, "parent": None, "summary": {"tokens": 1}}]),
        _edited(good, messages=[{**message, "parent": None, "summary": {**message["summary"], "tokens": 2**70}}]),
        _edited(
            good, messages=[{**message, "parent": None, "summary": {**message["summary"], "saved_seconds": "inf"}}]
        ),
        _edited(good, messages=[{**message, "parent": None, "written": {"start": 1}}]),
        _edited(good, messages=[{**message, "parent": None, "text": None}]),
    ]
    before = store.chats()
    for text in bad:
        with pytest.raises(UsageError, match="no chat that localchat exported"):
            import_json(store, text)
    assert store.chats() == before


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_export_is_refused_in_words(store: Store, data: st.DataObject) -> None:
    """Guards against exceptions for exports whose values were changed."""
    chat, nodes = said(store)
    store.keep(nodes[1].id, "text", State.COMPLETE, summary())
    store.keep_written(nodes[1].id, written())
    raw = json.loads(export_json(store, chat))
    place: object = raw
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not (isinstance(inner, dict | list) and inner) or data.draw(st.booleans()):
            json_values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just([]))
            place[key] = data.draw(json_values)
            break
        place = inner
    with contextlib.suppress(UsageError):
        import_json(store, json.dumps(raw))


def test_markdown_reads_well(store: Store) -> None:
    """Guards the form: headings, figures, the branch that was asked for, and code blocks that were cut off."""
    chat, nodes = said(store, ("# Write\ncode", "Sure:\n```python\nx = '```'\n"), store.create("Be brief."))
    store.keep(nodes[1].id, nodes[1].text, State.STOPPED, summary())
    store.add(chat.id, nodes[0].id, Role.ASSISTANT, "another branch")
    text = export_markdown(store, chat, nodes[1].id)
    lines = text.splitlines()
    assert lines[0] == "# # Write"
    assert [line for line in lines if line.startswith("## ")] == ["## System", "## You", "## Assistant"]
    assert "another branch" not in text
    assert text.endswith(
        "x = '```'\n\n```\n\n*stopped · small · 4 tokens at 173.9 tok/s · 3.5× plain, 50% accepted · seed "
        "4611686018427387904*\n"
    )


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("```\na", "\n```"),
        ("```\na\n```", ""),
        ("~~~~\n```\n~~~", "\n~~~~"),
        ("````\n```\n", "\n````"),
        ("a ``` b", ""),
        ("```py\n```py\n", "\n```"),
    ],
)
def test_open_code_blocks_are_closed(store: Store, text: str, end: str) -> None:
    """Guards the rest of an export against becoming code."""
    chat, nodes = said(store, (text,))
    assert export_markdown(store, chat, nodes[0].id).endswith(f"## You\n\n{text}{end}\n")


def test_values_survive_json() -> None:
    """Guards the codec: nested values, infinities, options, enumerations; fields of other versions."""
    assert decode(Written, json.loads(json.dumps(encode(written())))) == written()
    raw = json.loads(json.dumps(encode(reply()), allow_nan=False))
    assert decode(Reply, {**raw, "invented_later": 1}) == reply()
    del raw["stats"]["expected_cost"]
    assert decode(Reply, raw).stats.expected_cost == 0.0
    del raw["text"]
    with pytest.raises(ValueError, match="no Reply"):
        decode(Reply, raw)
