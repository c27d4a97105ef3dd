"""What a module drags in when it is imported: static checks cannot see imports inside functions or of third parties."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCREEN = ("textual", "rich", "typer", "platformdirs", "localchat.config", "localchat.paths")
HEAVY = ("torch", "transformers", "textual")


def loaded_after(code: str) -> set[str]:
    """Names of all modules that a fresh interpreter holds after running `code`."""
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint('\\n'.join(['', '@@', *sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split("\n@@\n")[1].split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["ask", "--help"], ["--version"], ["config", "path"], ["chats", "--help"], []]
)
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    """Guards against a second of waiting for help."""
    code = f"sys.argv = ['localchat', *{arguments!r}]; from localchat.__main__ import main; main()"
    assert not loaded_after(code) & set(HEAVY)


def engine_modules() -> list[str]:
    """Every module of the engine."""
    files = sorted((ROOT / "localchat" / "engine").rglob("*.py"))
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files)
    return [name.removesuffix(".__init__") for name in names]


def test_the_engine_is_pure_torch() -> None:
    """Guards against an engine that cannot be used without the program around it."""
    found = loaded_after("import " + ", ".join(engine_modules()))
    assert "torch" in found
    assert not found & set(SCREEN)


@pytest.mark.parametrize(
    "modules",
    [
        "localchat.engine.types",
        "localchat.models.memory, localchat.models.plan, localchat.models.catalog, localchat.models.pairing",
        "localchat.models.starter",
        "localchat.chat.events, localchat.chat.backend, localchat.chat.conversation",
        "localchat.chat.store, localchat.chat.recorder, localchat.chat.export",
        "localchat.bench.categories, localchat.bench.hear, localchat.bench.runner, localchat.bench.export",
        "localchat.config, localchat.paths, localchat.errors",
        "localchat.worker.client, localchat.worker.process, localchat.worker.messages",
    ],
)
def test_values_come_without_torch(modules: str) -> None:
    """Guards against a screen that waits for torch because it needs the name of an event."""
    assert not loaded_after(f"import {modules}") & set(HEAVY)


def test_the_screen_never_imports_torch() -> None:
    """Guards the first frame and the memory of the screen's process: every module of it, not only the first ones."""
    files = sorted((ROOT / "localchat" / "tui").rglob("*.py"))
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files)
    modules = [name.removesuffix(".__init__") for name in names]
    found = loaded_after("import " + ", ".join([*modules, "localchat.cli.chat", "localchat.worker.client"]))
    assert "textual" in found
    assert not found & {"torch", "transformers"}
