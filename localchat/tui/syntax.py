"""The colours of code, taken from the theme."""

from __future__ import annotations

from pygments.token import Token  # type: ignore[import-untyped,unused-ignore]
from textual.content import Content
from textual.highlight import HighlightTheme, highlight
from textual.widgets.markdown import MarkdownFence


class Syntax(HighlightTheme):
    """Few colours: names are plain, so that what matters stands out."""

    STYLES = {  # noqa: RUF012 - as textual has it
        Token.Comment: "$syntax-comment italic",
        Token.Error: "$error",
        Token.Generic.Deleted: "$error",
        Token.Generic.Inserted: "$success",
        Token.Generic.Emph: "italic",
        Token.Generic.Strong: "bold",
        Token.Generic.Heading: "$accent bold",
        Token.Generic.Subheading: "$accent",
        Token.Keyword: "$syntax-keyword",
        Token.Keyword.Constant: "$syntax-number",
        Token.Keyword.Type: "$syntax-type",
        Token.Literal: "$syntax-string",
        Token.Literal.Number: "$syntax-number",
        Token.Literal.String: "$syntax-string",
        Token.Literal.String.Doc: "$syntax-comment italic",
        Token.Literal.String.Escape: "$syntax-number",
        Token.Literal.String.Interpol: "$syntax-number",
        Token.Name.Attribute: "$syntax-function",
        Token.Name.Builtin: "$syntax-type",
        Token.Name.Class: "$syntax-type",
        Token.Name.Decorator: "$syntax-function",
        Token.Name.Exception: "$syntax-type",
        Token.Name.Function: "$syntax-function",
        Token.Name.Tag: "$syntax-keyword",
        Token.Operator: "$muted",
        Token.Operator.Word: "$syntax-keyword",
        Token.Punctuation: "$muted",
    }


class Fence(MarkdownFence):
    """A code block in the theme's colours; a `Markdown` takes it by `BLOCKS = {**Markdown.BLOCKS, "fence": Fence}`."""

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:  # noqa: FBT001 - textual's
        """The code with spans of CSS variables, so a change of theme recolours it."""
        content = highlight(code, language=language or "text", theme=Syntax)
        return Content(content.plain, [span for span in content.spans if span.style != "$text"])
