"""Search: it finds what is there, and no query breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localchat.chat.conversation import Role
from localchat.chat.store import State, Store
from tests.chat.stores import HOSTILE, opened, said


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with hostile texts and a few peaceful ones."""
    store = opened(tmp_path_factory.mktemp("search") / "chats.db")
    said(store, HOSTILE)
    said(store, ("Where is the needle?", "In the c++ haystack, naïve one: 中文没有空格。", "100% of it"))
    said(store, ("NEAR the AND of OR", "a-b:c*d^e(f)"))
    return store


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("needle", "Where is the needle?"),
        ("NEEDLE", "Where is the needle?"),
        ("haystack the", "haystack"),
        ("hays", "haystack"),
        ("naive", "naïve"),
        ("c++", "c++"),
        ("没有", "没有"),
        ("空格。", "空格"),
        ("100%", "100%"),
        ("OR", "NEAR the AND of OR"),
        ("a-b:c*d", "a-b:c*d"),
        ("(f)", "(f)"),
        ("++", "c++"),
    ],
)
def test_it_finds(store: Store, query: str, found: str) -> None:
    """Guards words, beginnings, accents, signs, operators and scripts without spaces."""
    assert any(found in hit.snippet for hit in store.search(query))


@pytest.mark.parametrize("query", ["needle zebra", "eedle haystack", "", "   ", "\x00", "\ud800", "\n"])
def test_it_finds_nothing(store: Store, query: str) -> None:
    """Guards against hits that lack one of the words, and against all chats for an empty query."""
    assert store.search(query) == []


_SIGNS = st.text(alphabet="\"'*():^-+{}[]\\%_;,.!?/<>=&|~$#@` \t\n\x00\ud800abN中É", max_size=30)
_OPERATORS = st.lists(st.sampled_from(["AND", "OR", "NOT", "NEAR", "NEAR(", '"', "*", "text:", "{", "-", "needle"]))
_QUERIES = st.one_of(st.text(max_size=40), _SIGNS, _OPERATORS.map(" ".join), st.sampled_from(HOSTILE))


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=_QUERIES)
def test_no_query_is_an_error(store: Store, query: str) -> None:
    """Guards against FTS5's query language leaking out: any text is a query."""
    for hit in store.search(query, 5):
        assert hit.chat > 0


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(st.text(min_size=1, max_size=60), _SIGNS.filter(bool)))
def test_every_text_can_be_kept_and_indexed(store: Store, text: str) -> None:
    """Guards the index against texts that leave it out of step with the messages."""
    chat, nodes = said(store, (text,))
    store.keep(nodes[0].id, text[::-1], State.STOPPED)
    assert store.node(nodes[0].id).text == text[::-1]
    store.save(replace(chat, title=text))
    store.delete(chat.id)
    store.purge(1e12)


def test_a_reply_is_found_once_it_is_written(store: Store) -> None:
    """Guards against indexing twice a second, and against a reply that is never found or found as it was."""
    chat, nodes = said(store, ("Tell me.",))
    reply = store.add(chat.id, nodes[0].id, Role.ASSISTANT, "", State.WRITING)
    store.keep(reply.id, "unfinishedword", State.WRITING)
    store.keep(reply.id, "finishedword", State.COMPLETE)
    assert [hit.node for hit in store.search("finishedword")] == [reply.id]
    store.keep(reply.id, "changedword", State.COMPLETE)
    assert store.search("finishedword") == []
    assert [hit.node for hit in store.search("changedword")] == [reply.id]


def test_titles_come_first_and_no_chat_hides_the_others(store: Store) -> None:
    """Guards against a long chat that fills the list, and against its title counting twice."""
    few, _ = said(store, ("Ask", "quokka here"))
    many, _ = said(store, ("Ask", *("quokka " * 3,) * 40))
    named, _ = said(store, ("The quokka question", "Yes."))
    hits = store.search("quokka")
    assert (hits[0].chat, hits[0].node) == (named.id, None)
    assert [hit.chat for hit in hits[1:]] == [many.id] * 3 + [few.id]
    assert len(store.search("quokka", 2)) == 2


def test_the_index_agrees_with_the_messages(store: Store) -> None:
    """Guards against changes that went past the index; runs after the tests above."""
    with store.together():
        for table in ("found", "titled"):
            store._db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")


def test_snippets_show_the_word(store: Store) -> None:
    """Guards against a snippet of the beginning of a long message, and against line breaks in a list."""
    said(store, ("Ask", "filler \n" * 5000 + "the xylophone is there" + " filler" * 5000))
    (hit,) = store.search("xylophone")
    assert "the xylophone is there" in hit.snippet
    assert "\n" not in hit.snippet
    assert len(hit.snippet) <= 160
