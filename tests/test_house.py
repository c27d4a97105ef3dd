"""The house rules that no linter holds."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for part in ("localchat", "tests") for path in (ROOT / part).rglob("*.py"))
CORPUS = ROOT / "localchat" / "models" / "starter" / "corpus"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_small(path: Path) -> None:
    """Guards readability: at most 400 lines a module (data excepted) and 50 a function."""
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400 or CORPUS in path.parents
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 50, node.name
