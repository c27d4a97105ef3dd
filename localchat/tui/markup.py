"""Markdown from a model as it can be laid out: nothing in it is hidden, acts or takes for ever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType

from localchat.sanitize import clean

MOST_TOKENS = 900
"""Blocks are widgets: beyond so many tokens of block structure the rest of a reply is shown as it was written."""
_MOST_IN_BLOCK = 600
"""The same for one list, quote or table."""
_SINGLE = 6
"""What a block that is a single token counts: code is two widgets."""
_DEEPEST = 14
"""Levels of lists and quotes in each other; the parser itself drops what lies deeper than 20."""
_LONGEST_INLINE = 6_000
"""Characters of a paragraph: its parser takes quadratic time."""
_LONGEST_LINE = 4_000
_MOST_LINES = 1_000
"""Lines that are parsed at once."""
_MOST_AS_WRITTEN = 400
"""Lines of what is shown as it was written."""
_LONGEST_ADDRESS = 80


class Reader(MarkdownIt):
    """Tables, links and code as usual. HTML is text, an address stands behind its link, and what is too deep, too
    long or too much is shown as it was written."""

    def __init__(self) -> None:
        super().__init__("gfm-like", {"html": False})
        self.room = MOST_TOKENS
        """Tokens of block structure that may still come."""
        self.core.ruler.after("block", "bounds", self._bounds)
        self.core.ruler.at("inline", _inline)

    def parse(self, src: str, env: EnvType | None = None) -> list[Token]:
        """The tokens of a text that has been cleaned; entities in it may stand for what had been cleaned away."""
        rows = short_lines(src).split("\n")
        tokens = super().parse("\n".join(rows[:_MOST_LINES]), env)
        for token in tokens:
            if token.children:
                token.children = list(_children(token.children))
        return [*tokens, _as_written(rows, _MOST_LINES, len(rows))] if len(rows) > _MOST_LINES else tokens

    def _bounds(self, state: StateCore) -> None:
        kept: list[Token] = []
        rows, taken = state.src.split("\n"), 0
        for block in _blocks(state.tokens):
            start, end = block[0].map or [0, 0]
            taken += len(block) if len(block) > 1 else _SINGLE
            if taken > self.room:
                kept.append(_as_written(rows, start, len(rows)))
                break
            fits = len(block) <= _MOST_IN_BLOCK and all(token.level <= _DEEPEST for token in block)
            kept += block if fits else [_as_written(rows, start, end)]
        state.tokens = kept


def short_lines(text: str) -> str:
    """The text with very long lines cut, which says so."""
    if len(text) <= _LONGEST_LINE:
        return text
    return "\n".join(
        line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} … {len(line) - _LONGEST_LINE} more characters"
        for line in text.split("\n")
    )


def _blocks(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The tokens of each block that lies in no other."""
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def _as_written(rows: Sequence[str], start: int, end: int) -> Token:
    last = min(end, start + _MOST_AS_WRITTEN)
    more = [f"… {end - last} more lines (copy or export shows all)"] if last < end else []
    return Token("fence", "code", 0, content="\n".join([*rows[start:last], *more]), map=[start, end], block=True)


def _inline(state: StateCore) -> None:
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = []
        if len(token.content) <= _LONGEST_INLINE:
            state.md.inline.parse(token.content, state.md, state.env, token.children)
            continue
        for row in token.content.split("\n"):
            if token.children:
                token.children.append(Token("softbreak", "br", 0))
            token.children.append(Token("text_special", "", 0, content=row))  # in which no links are looked for


def _children(children: Sequence[Token]) -> Iterator[Token]:
    said, address = "", ""
    for child in children:
        child.content = clean(child.content)
        if child.children:
            child.children = list(_children(child.children))
        yield child
        said += child.content
        if child.type == "link_open":
            said, address = "", clean(str(child.attrs.get("href", "")))
        elif child.type == "link_close" and address and not _says(said, address):
            rest = "…" if len(address) > _LONGEST_ADDRESS else ""
            yield Token("text", "", 0, content=f" ‹{address[:_LONGEST_ADDRESS]}{rest}›")


def _says(text: str, address: str) -> bool:
    """The text of a link is its address."""
    return text.rstrip("/") in {address.rstrip("/"), address.partition("//")[2].rstrip("/"), address.partition(":")[2]}
