"""One token of a finished reply, explained: where it comes from, what was rejected for it, and why."""

from __future__ import annotations

from dataclasses import dataclass

from localchat.chat.events import Reply, Wrote
from localchat.engine.types import Origin, Round
from localchat.tui.figures import MUTED, Line, fit, joined, percent, plain, rate, ratio, wrap
from localchat.tui.live import round_seconds
from localchat.tui.sources import source_of
from localchat.tui.token_text import REJECTED, origin_style, visible

_ORIGINS = frozenset(origin.value for origin in Origin)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a reply and its place."""

    number: int
    """In the reply, from 0."""
    wrote: Wrote
    """The round it came with."""
    index: int
    """In that round, from 0."""

    @property
    def origin(self) -> str:
        """A draft source, or plain, bonus, correction."""
        return self.wrote.round.origins[self.index]

    @property
    def text(self) -> str:
        """As it is shown."""
        pieces = self.wrote.pieces
        return visible(pieces[self.index] if self.index < len(pieces) else self.wrote.text)

    @property
    def replaces(self) -> bool:
        """A rejected draft stood in its place."""
        return self.origin == Origin.CORRECTION


def tokens(rounds: tuple[Wrote, ...]) -> list[Token]:
    """All tokens of a reply."""
    places = [(wrote, index) for wrote in rounds for index in range(len(wrote.round.tokens))]
    return [Token(number, wrote, index) for number, (wrote, index) in enumerate(places)]


def explanation(token: Token, total: int, width: int) -> list[Line]:
    """In words, at most seven lines of a width."""
    round_ = token.wrote.round
    head: list[Line] = [
        ((fit(token.text.replace(" ", "␣"), max(1, width // 2)), f"bold {origin_style(token.origin)}".strip()),),
        ((f"token {token.number + 1} of {total}", MUTED),),
        ((f"id {round_.tokens[token.index]}", MUTED),),
    ]
    if "�" in token.text:
        head.append((("part of a character", MUTED),))
    lines: list[Line] = [joined(head, width)]
    lines += [((words, ""),) for words in wrap(_where_from(token), width, 2)]
    lines.append(_rejected(token.wrote, width))
    reason = f"governor: {plain(round_.decision.reason)}{_expected(round_)}"
    lines += [((words, MUTED),) for words in wrap(reason, width, 2)]
    lines.append(((fit(_seconds(round_), width), MUTED),))
    return lines


def summary(reply: Reply, start: int, width: int) -> Line:
    """The whole reply in one line."""
    stats = reply.stats
    parts: list[Line] = [(("Tokens", "bold"),), ((f"{stats.tokens} in {stats.rounds} rounds", ""),)]
    if reply.accelerated:
        parts.append(((f"{ratio(reply.speedup)} plain", ""),))
    parts.append(((f"{rate(stats.tokens_per_second)} tok/s", ""),))
    if stats.drafted:
        parts.append(((f"{percent(stats.acceptance_rate)} accepted", ""),))
    parts.append(((f"seed {reply.sampling.seed}", MUTED),))
    if start:
        parts.append(((f"goes on after {start} characters", MUTED),))
    return joined(parts, width)


def _where_from(token: Token) -> str:
    round_ = token.wrote.round
    place, number = token.index + 1, round_.index + 1
    if token.origin not in _ORIGINS:
        told = source_of(token.origin).told
        return f"{told} and accepted: place {place} of the {round_.drafted} drafted in round {number}."
    if token.origin == Origin.BONUS:
        if round_.accepted < round_.drafted:
            return f"The target's own, one more: a branch of the draft of round {number} was right to its end."
        return f"The target's own, one more: all {round_.drafted} drafted in round {number} were accepted."
    if token.origin == Origin.CORRECTION:
        return f"The target's own: in round {number} it wanted another token than the draft at place {place}."
    return f"The target's own: round {number} had no draft."


def _rejected(wrote: Wrote, width: int) -> Line:
    if not wrote.round.rejected:
        return (("rejected in this round: nothing", MUTED),)
    head = "rejected in this round: "
    shown = "".join(visible(text) for text in wrote.rejected) or f"{len(wrote.round.rejected)} tokens"
    return ((head, MUTED), (fit(shown, width - len(head)), REJECTED))


def _expected(round_: Round) -> str:
    decision = round_.decision
    if not round_.drafted:
        return ""
    return f"; expected {decision.expected_tokens:.1f} tokens in the time of {decision.expected_cost:.1f}"


def _seconds(round_: Round) -> str:
    parts = (("draft", round_.draft_seconds), ("verify", round_.verify_seconds), ("host", round_.host_seconds))
    each = ", ".join(f"{name} {seconds * 1000:.1f}" for name, seconds in parts)
    margin = f"margin {round_.margin:.3g} · " if round_.margin != float("inf") else ""
    return f"{margin}round: {round_seconds(round_) * 1000:.1f} ms ({each}), {round_.width} rows"
