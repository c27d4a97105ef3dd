"""Stores to test with, and replies to put in them."""

from __future__ import annotations

from pathlib import Path

from localchat.chat.conversation import Role
from localchat.chat.events import Reply, Usage, Wrote
from localchat.chat.store import Chat, Node, Store, Summary, Written, open_store
from localchat.engine.types import Decision, GenerationStats, Round, Sampling, StopReason

HOSTILE = (
    "",
    "\x00",
    "a\x00b",
    "\x1b[2J\x1b]52;c;aGk=\x07",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "\ud800 half \udfff",
    "\ud83d\ude00",
    "\udc80\udcff",
    "[bold red]markup[/]",
    "\u202eright to left\u2066",
    "zero\u200bwidth\ufeff",
    "‮" * 50,
    "x" * 1_000_000,
    "```\nnever closed",
    "\r\n\x0b\x0c\x85\u2028",
    "\"quoted' and -- ; DROP TABLE chat",
    "\U0010ffff",
)
"""Texts that broke something somewhere."""


def opened(path: Path) -> Store:
    """A store without anything to be said about it."""
    found = open_store(path)
    assert found.notice == ""
    assert found.store.lasting
    return found.store


def said(store: Store, texts: tuple[str, ...] = ("Hi", "Hello"), chat: Chat | None = None) -> tuple[Chat, list[Node]]:
    """A chat in which user and assistant take turns."""
    chat = chat or store.create()
    nodes: list[Node] = []
    with store.together():
        for turn, text in enumerate(texts):
            role = Role.ASSISTANT if turn % 2 else Role.USER
            nodes.append(store.add(chat.id, nodes[-1].id if nodes else None, role, text))
    return store.chat(chat.id), nodes


def round_of(index: int, tokens: int = 2, stop: StopReason | None = None) -> Round:
    """A round that accepted all but its last token."""
    return Round(
        index=index,
        tokens=tuple(range(tokens)),
        origins=(*("lookup",) * (tokens - 1), "bonus"),
        rejected=(7,),
        drafted=tokens,
        accepted=tokens - 1,
        depth_drafted=(1,) * tokens,
        depth_accepted=(1,) * (tokens - 1) + (0,),
        source="lookup",
        width=tokens + 1,
        decision=Decision(reason="it pays"),
        draft_seconds=0.001,
        verify_seconds=0.01,
        host_seconds=0.0005,
        margin=float("inf") if index == 0 else 0.5,
        stop=stop,
    )


def wrote(index: int, text: str = "ab") -> Wrote:
    """A round's event."""
    return Wrote(text, round_of(index), ("a", "b"), ("\ufffd",))


def reply(text: str = "abab", rounds: int = 2, reason: StopReason = StopReason.EOS) -> Reply:
    """A reply of that many rounds."""
    stats = GenerationStats(prefill_seconds=0.1, prefilled=3, prompt_tokens=9)
    for index in range(rounds):
        stats = stats + round_of(index)
    return Reply(
        text=text,
        token_ids=(0, 1) * rounds,
        origins=("lookup", "bonus") * rounds,
        finish_reason=reason,
        sampling=Sampling(seed=2**62),
        model="small",
        drafter="lookup",
        accelerated=True,
        exact=True,
        stats=stats,
        first_token_seconds=0.2,
        plain_tokens_per_second=50.0,
        usage=Usage(target=1),
    )


def written(rounds: int = 2, start: int = 0) -> Written:
    """A reply as tokens."""
    return Written(reply(rounds=rounds), tuple(wrote(index) for index in range(rounds)), start)


def summary() -> Summary:
    """The figures of a reply."""
    return Summary.of(reply())
