"""Texts made to break a terminal, a layout or a parser; the same ones each time."""

from __future__ import annotations

import random
from functools import cache

from localchat.chat.conversation import Conversation

ESC, BEL, ST = "\x1b", "\x07", "\x1b\\"
MEGABYTE = 1_000_000

SEQUENCES = (
    f"{ESC}[2J{ESC}[H", f"{ESC}[31;5mred", f"{ESC}[9999;9999H", f"{ESC}[?1049l", f"{ESC}[?1000h", f"{ESC}[6n",
    f"{ESC}[c", f"{ESC}c", f"{ESC}]0;a new title{BEL}", f"{ESC}]2;title{ST}", f"{ESC}]52;c;cm0gLXJmIH4={BEL}",
    f"{ESC}]8;;http://evil.example/{ST}click{ESC}]8;;{ST}", f"{ESC}]133;A{ST}", f"{ESC}]1337;File=inline=1:AAAA{BEL}",
    f"{ESC}P+q544e{ST}", f"{ESC}P1$r0m{ST}", f"{ESC}_Gf=24,s=1,v=1;AAAA{ST}", f"{ESC}^private{ST}",
    f"{ESC}Xstring{ST}", f"{ESC}(0lqk", f"{ESC}#8", f"{ESC}[21t", f"{ESC}[>4;2m", f"{ESC}[201~", f"{ESC}]", f"{ESC}[",
    ESC, "\x9b31mred", "\x9d0;title\x9c", "\x90+q\x9c", "\x85\x84\x8d", "".join(map(chr, range(0x80, 0xA0))),
    "".join(map(chr, range(0x20))), "\x7f\x7f", "safe\rover", "password\b\b\b\b\b\b\b\bharmless", "\x00NUL\x00",
    "\x07" * 40, "\x0e\x0f", "\x18\x1a", "\t\t\ttabs\t", "a\x0bb\x0cc", "\x1c\x1d\x1e\x1f",
)  # fmt: skip
MARKUP = (
    "[bold]", "[/]", "[/bold]", "[@click=app.quit]quit[/]", "[@click=app.bell()]",
    "[link=http://evil.example]x[/link]", "[on red]", "[[]]", "[", "]", "[]", "\\[", "[$primary]", "[b",
    "[bold red on", "[@click='x", "[#]", "[@]", "[=]", "{{7*7}}", "%s%n", "$(reboot)", "`reboot`", "${HOME}",
    "&lt;b&gt;", "&#27;[31m", "&#x1b;]0;t&#7;", "&ZeroWidthSpace;", "&#8238;", "\\x1b[31m",
)  # fmt: skip
MARKDOWN = (
    "[a](http://evil.example/')", '[a](http://evil.example/%22)+"', "[x](javascript:alert(1))",
    "[x](file:///etc/passwd)", "[x](vbscript:a)", "[x](data:text/html,a)", "[bank.example](http://evil.example)",
    "[x](<a b'c\"d>)", "[x](http://a.example/\\')app.quit()", "<http://a.example>",
    "[x](http://x.example/)');app.exit('", "![i](http://a.example/i.png)", "![i][r]\n\n[r]: http://a.example/'\"",
    "[r]: http://a.example\n[r][r][r]", "[r]: <>\n[r]", "<script>alert(1)</script>", "<b onclick=x>hidden?</b>",
    "<!-- hidden -->", "<details><summary>s</summary>t</details>", "List<String> and a<b>c", "# ", "#\x1b[31m",
    "# \u202eheading", "# 1\u0301 \U0001f600 '\"#.:", "####### seven", "---\n===\n---", "a\n===", "a\n---", "***",
    "```", "```python\nprint('\x1b[31m')", "```\x1b[31m\nx\n```", "```[bold]\n[bold]x\n```", "~~~ a b c\n```\n~~~~",
    "    code\n\tcode", "| a | b |\n|---|---|\n| [bold] | [@click=app.quit]x[/] |\n| \x1b[31m |",
    "|a|\n|-|\n|b|\n- list", "|a|\n|-|\n|b|\n> q", "|a|\n|-|\n|b|\n# h", "|a|\n|-|\n|b|\n```\nx",
    "|a|b|c|\n|-|-|-|\n|", "|[x](http://a.example/')|\n|-|\n|![i](x)|", "1. a\n1. b\n999999999. c",
    "- [ ] a\n- [x] b", "> a\n>> b\n> > > c", "- a\n  - b\n    - c\n      1. d\n", "* * *\n- - -", "a  \nb\\\nc",
    "\\", "`", "``` ` ``", "*a**b***c****d", "_a__b___", "~~a~b~~~", "[^1]: note\n[^1]", "term\n: definition",
    "<think>", "</think>", "<think></think>", "<think><think>a</think>b</think>c", "<think>\x1b[31m[bold]</think>[/]",
    "</think></think></think>", "<thi", "<THINK>a</THINK>", "a <think> b </think> c", "<think>" + "x" * 300,
    "http://" + "a." * 60 + "example", "a@b.example www.c.example ftp://d.example",
)  # fmt: skip
UNICODE = (
    "\u202eevil\u202c", "\u2066iso\u2069", "\u2067\u2068", "\u202a\u202b\u202d", "\u200f\u200e\u061c",
    "\u05d0\u05d1\u05d2 (1) abc", "\u0645\u0631\u062d\u0628\u0627 42", "\u200b\u200b\u200b", "a\u200d\u200cb",
    "\ufeffbom", "\u2060\u2061\u2062\u2063", "\u00adsoft\u00ad", "\u2764\ufe0f\u2764\ufe0e", "1\ufe0f\u20e3",
    "a" + "\ufe0f" * 30, "z" + "\u0300\u0315\u0336\u0489" * 40, "\u0e2a" + "\u0e47" * 200, "\u0300\u0301", " \u0308",
    "\u20dd" * 9, "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea\U0001f1e9",
    "\U0001f44d\U0001f3ff", "\U0001f3ff\U0001f3ff", "\u200d\U0001f600\u200d", "\u4e2d\u6587\u5b57" * 30,
    "\uac00\u1100\u1161\u11a8", "\uff21\uff22\uff23", "\ud800", "\udfff\ud800", "\ud83d \ude00", "\ufffe\uffff\ufdd0",
    "\U0001fffe\U0010ffff", "\ufff9a\ufffab\ufffb", "x\u2028y\u2029z", "\u180e\u3164\u115f\uffa0\u2800",
    "".join(map(chr, range(0xE0020, 0xE0060))), "\U000e0001\U000e007f", "\U000e0100" * 50, "\u1160" * 20,
    "\u0b95\u0bcd\u0bb7", "\u0903\u093e", "\u302e\u302f", "\u2630\u268a", "\ufdfd" * 20,
)  # fmt: skip
FRAGMENTS = (*SEQUENCES, *MARKUP, *MARKDOWN, *UNICODE)
_PLAIN = ("word ", "\n", "\n\n", " ", "- ", "> ", "| ", "# ", "a", "1. ", "    ", "**", "`")


def bombs() -> list[str]:
    """Texts that are long or deep: each costs a careless parser or layout very much."""
    return [
        "> " * 500 + "deep",
        "- " * 500 + "deep",
        "1. " * 300 + "deep",
        "\n".join("  " * depth + "- x" for depth in range(200)),
        "\n".join(">" * depth + " x" for depth in range(1, 200)),
        "*" * 10_000,
        "*a" * 10_000,
        "*a **a " * 5_000,
        "_" * 10_000 + "a",
        "[" * 10_000,
        "[a](" * 5_000,
        "![" * 5_000,
        "`" * 10_000,
        " ".join("`" * count for count in range(1, 200)),
        "<" * 10_000,
        "<!--" * 5_000,
        "&" * 10_000,
        "http://a.example/" * 2_000,
        "a@" * 10_000,
        "a.example " * 3_000,
        "|a" * 5_000 + "\n" + "|-" * 5_000 + "\n" + "|b" * 5_000,
        "|a|b|\n|-|-|\n" + "|c|d|\n" * 5_000,
        "- a\n" * 15_000,
        "# h\n" * 15_000,
        "a\n\n" * 20_000,
        "---\n" * 15_000,
        "> a\n\n" * 10_000,
        "```\nx\n```\n" * 5_000,
        "\n" * 60_000,
        "a\n" * 30_000,
        "".join(f"[r{place}]: http://a.example/{place}\n" for place in range(2_000)) + "[r1]" * 2_000,
        "```python\n" + "(" * 50_000,
        "```perl\n" + "s/" * 20_000,
        "```html\n" + "<a " * 20_000,
        "z" + "\u0301" * 50_000,
        "\U0001f468\u200d" * 20_000,
        "\u4e2d" * 60_000,
        "\t" * 50_000,
        "\u200b" * 50_000,
        "\x1b" * 50_000,
        "x" * MEGABYTE,
        "word " * (MEGABYTE // 5),
        "\x1b[31m[bold]" * (MEGABYTE // 11),
        "<think>" + "y " * (MEGABYTE // 2),
    ]


@cache
def strings(count: int = 2_000) -> tuple[str, ...]:
    """So many hostile texts: every fragment by itself, every bomb, and mixtures."""
    dice = random.Random(20_000)
    made = [*FRAGMENTS, *bombs()]
    while len(made) < count:
        pool = FRAGMENTS if dice.random() < 0.7 else FRAGMENTS + _PLAIN * 10
        glue = dice.choice(("", "", " ", "\n", "\n\n"))
        made.append(glue.join(dice.choices(pool, k=dice.randint(2, 12))))
    return tuple(made[:count])


def short(count: int = 2_000, most: int = 2_000) -> tuple[str, ...]:
    """Those among them that are no longer than a page."""
    return tuple(text for text in strings(count) if len(text) <= most)


def messages() -> list[str]:
    """All of those as fewer texts: each fragment by itself, the mixtures eight to a text."""
    mixed = short()[len(FRAGMENTS) :]
    return [*FRAGMENTS, *("\n\n".join(mixed[at : at + 8]) for at in range(0, len(mixed), 8))]


def pieces(text: str, seed: int) -> list[str]:
    """A text in parts as it might come from an engine; a long one in fewer."""
    dice = random.Random(seed)
    parts, at = [], 0
    longest = max(12, len(text) // 4)
    while at < len(text):
        step = dice.randint(1, longest)
        parts.append(text[at : at + step])
        at += step
    return parts


AT_ONCE = 100
"""Texts in one of the answers."""


def answer(conversation: Conversation) -> str:
    """What a scripted engine says when it is asked by number: so many texts, and that it ends."""
    number = int(conversation.messages[-1].text)
    texts = [text for text in short() if not text.lstrip().startswith("<think")]
    return "\n\n".join([*texts[number * AT_ONCE : (number + 1) * AT_ONCE], f"theend{number:03}"])
