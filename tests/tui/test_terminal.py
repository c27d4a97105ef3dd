"""The real program on a real terminal: how it starts, what it survives, and what it leaves behind."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from localchat.chat.store import State, Store
from localchat.models.starter import TARGET
from tests.support.backend import Scripted
from tests.tui.program import command
from tests.tui.terminal import Terminal
from tests.worker.support import gone_or_zombie

REAL = [sys.executable, "-m", "localchat", "-m", "starter"]
WORDS = "".join(f"word{number}" + ("\n\n" if number % 20 == 19 else " ") for number in range(2000))
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
SHOWN = b"\x1b[?25h"


def program(scripted: Scripted | None = None, *arguments: str, disk: int = 0, **environment: str) -> Terminal:
    """The program over a scripted engine, in the home of the test."""
    return Terminal(command(scripted or Scripted(), *arguments, disk=disk), environment)


def loaded(text: str) -> bool:
    """The title says what is loaded."""
    return bool(re.search("fp32|bf16", text.split("\n", 1)[0]))


def streaming(terminal: Terminal) -> None:
    """Ask, and wait until a good part of the reply is on the screen."""
    terminal.wait(loaded)
    terminal.send("Go on\r")
    terminal.wait("word30 ")


def eventually(predicate: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for something to be true."""
    end = time.monotonic() + seconds
    while not predicate():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def said(store: Store) -> list[str]:
    """The texts of the newest chat."""
    chat = store.latest()
    return [node.text for node in store.path(chat.leaf or 0)] if chat else []


def state(pid: int) -> str:
    """What a process is doing, as one letter."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


# -- where it cannot be drawn


def test_no_terminal() -> None:
    """Guards pipes and scripts: one sentence, the command that works there, and no drawing."""
    done = subprocess.run(REAL, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.splitlines() == [
        "Error: The chat screen needs a terminal.",
        'In scripts and pipes use: localchat ask "..."',
    ]


def test_a_dumb_terminal() -> None:
    """Guards terminals that cannot be drawn on."""
    with program(TERM="dumb") as terminal:
        terminal.wait("cannot be drawn on this terminal (TERM=dumb)")
        assert "localchat ask" in terminal.text()
        assert terminal.ended(20)
        assert terminal.status == 2
        assert ENTER not in terminal.raw


def test_no_colour() -> None:
    """Guards NO_COLOR: everything reads without, and only greys are sent."""
    with program(NO_COLOR="1") as terminal:
        terminal.wait(loaded)
        terminal.send("Hello\r")
        terminal.wait("Drafts are guesses.")
        greys = re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", terminal.raw)
        assert all(max(map(int, grey)) - min(map(int, grey)) <= 2 for grey in greys)
        assert not re.search(rb"\x1b\[(?:\d+;)*[39][1-7](?:;\d+)*m", re.sub(rb"[34]8;[25][;\d]*", b"", terminal.raw))


@pytest.mark.parametrize("term", ["xterm", "linux", "vt100", "screen"])
def test_other_terminals(term: str) -> None:
    """Guards old and plain terminals: the screen is drawn and can be used."""
    with program(TERM=term, COLORTERM="") as terminal:
        terminal.wait(loaded)
        terminal.send("Hello\r")
        terminal.wait("Drafts are guesses.")


@pytest.mark.parametrize("size", [(10, 5), (1, 1)])
def test_a_tiny_window(store: Store, size: tuple[int, int]) -> None:
    """Guards a window that shows nothing: it is answered all the same, and shown once there is room."""
    with Terminal(command(Scripted()), {}, size) as terminal:
        eventually(lambda: ENTER in terminal.raw)
        eventually(lambda: bool(terminal.children()))
        terminal.send("Hello\r")
        eventually(lambda: said(store) == ["Hello", "Drafts are guesses."], 20)
        terminal.resize(100, 30)
        terminal.wait("Drafts are guesses.")


def test_resizing_while_a_reply_is_written() -> None:
    """Guards a window that is dragged: the text goes on, and its end is in view."""
    with program(Scripted(text=WORDS[:1500] + "the end.", delay=0.01)) as terminal:
        streaming(terminal)
        for size in [(80, 24), (10, 5), (200, 60), (1, 1), (99, 30), (120, 40)]:
            terminal.resize(*size)
            time.sleep(0.05)
        terminal.wait("the end.")
        assert terminal.status is None


# -- leaving


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_system_ends_it(store: Store, number: signal.Signals) -> None:
    """Guards a shutdown in mid-reply: what was written is saved, the engine goes too, the terminal is as before."""
    with program(Scripted(text=WORDS, delay=0.02)) as terminal:
        streaming(terminal)
        [engine] = terminal.children()
        terminal.send("a thought")
        terminal.wait("a thought")
        os.kill(terminal.pid, number)
        assert terminal.ended(10)
        assert gone_or_zombie(engine)
        assert terminal.cooked
        assert LEAVE in terminal.raw
        assert SHOWN in terminal.raw[terminal.raw.rindex(LEAVE) :]
        assert b"Traceback" not in terminal.raw
    chat = store.latest()
    assert chat is not None
    assert chat.draft == "a thought"
    reply = store.path(chat.leaf or 0)[-1]
    assert reply.state is State.STOPPED
    assert WORDS.startswith(reply.text)
    assert "word30 " in reply.text


def test_the_window_is_closed(store: Store) -> None:
    """Guards a closed window: nobody can see it, but everything is saved and nothing runs on."""
    with program(Scripted(text=WORDS, delay=0.02)) as terminal:
        streaming(terminal)
        [engine] = terminal.children()
        terminal.hang_up()
        assert terminal.ended(10)
        assert gone_or_zombie(engine)
    chat = store.latest()
    assert chat is not None
    reply = store.path(chat.leaf or 0)[-1]
    assert reply.state is State.STOPPED
    assert "word30 " in reply.text


def test_it_is_put_into_the_background_and_comes_back(store: Store) -> None:
    """Guards ctrl+z in a shell: the shell has its terminal, the reply goes on, and fg brings the whole screen back."""
    inner = " ".join(command(Scripted(text=WORDS[:3000] + "the end.", delay=0.02)))
    with Terminal(["bash", "--norc", "--noprofile", "-i"], {"PS1": "shell> "}) as terminal:
        terminal.wait("shell>")
        terminal.send(inner + "\n")
        streaming(terminal)
        terminal.send("\x1a")
        eventually(lambda: b"Stopped" in terminal.raw)
        [job] = terminal.children()
        eventually(lambda: state(job) == "T")
        assert terminal.raw.count(LEAVE) == 1
        terminal.send("echo the $((40 + 2)) of the shell\n")
        terminal.wait("the 42 of the shell")
        terminal.send("fg\n")
        terminal.wait("the end.", 30)
        assert terminal.raw.count(ENTER) == 2
        terminal.send("typed afterwards")
        terminal.wait("typed afterwards")
        terminal.send("\x11")
        eventually(lambda: not terminal.children())
        terminal.send("exit\n")
        assert terminal.ended(5)
    assert said(store)[-1] == WORDS[:3000] + "the end."


# -- what is broken around it


def test_a_broken_config(home: Path) -> None:
    """Guards a typing error in the config file: its line is named, the defaults are used, the chats are there."""
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text('theme = "light"\nseed = = 7\n')
    with program() as terminal:
        terminal.wait("The defaults are used.")
        assert "line 2" in " ".join(terminal.text().split())
        terminal.wait(loaded)
        terminal.send("Hello\r")
        terminal.wait("Drafts are guesses.")


def test_a_log_that_cannot_be_written(home: Path) -> None:
    """Guards a log folder that is not writable: it is said, and everything works."""
    home.mkdir()
    (home / "log").write_text("a file where the folder should be")
    with program() as terminal:
        terminal.wait("The log cannot be written")
        terminal.wait(loaded)
        terminal.send("Hello\r")
        terminal.wait("Drafts are guesses.")


def test_the_disk_fills_up_while_a_reply_is_written(store: Store) -> None:
    """Guards a full disk: it is said while the reply goes on, and once there is room all of it is saved."""
    text = WORDS[:8000] + "the end."
    with program(Scripted(text=text, delay=0.003), disk=200_000) as terminal:
        streaming(terminal)
        terminal.wait("The reply cannot be saved now: The disk is full", 30)
        terminal.wait("the end.", 60)
        assert said(store)[-1] != text
        resource.prlimit(terminal.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        terminal.wait("The reply is saved now.")
        eventually(lambda: said(store)[-1] == text)


def test_two_of_them_on_one_store(store: Store) -> None:
    """Guards two windows: each writes its chat, and neither takes the other's reply for one that was cut off."""
    with program(Scripted(text=WORDS[:2000], delay=0.02)) as one:
        streaming(one)
        with program(Scripted(text="From the other window.")) as other:
            other.wait(loaded)
            other.send("Hello\r")
            other.wait("From the other window.")
            assert "cut off" not in other.text()
            one.wait("word220 ")
            other.send("\x11")
            assert other.ended(10)
        eventually(lambda: WORDS[:2000] in [store.path(chat.leaf or 0)[-1].text for chat in store.chats()])
        one.send("\x11")
        assert one.ended(10)
        assert one.status == 0
    chats = store.chats()
    assert {chat.title for chat in chats} == {"Go on", "Hello"}
    assert all(node.state is State.COMPLETE for chat in chats for node in store.path(chat.leaf or 0))


# -- the real engine


def test_the_model_is_deleted_before_it_is_loaded(tmp_path: Path) -> None:
    """Guards a folder that disappears between start and load: one sentence, and the way to another model."""
    folder = tmp_path / "model"
    shutil.copytree(TARGET, folder)
    with Terminal([*REAL[:-1], str(folder)], {}) as terminal:
        eventually(lambda: bool(terminal.children()))
        [engine] = terminal.children()
        os.kill(engine, signal.SIGSTOP)
        shutil.rmtree(folder)
        terminal.wait("› Write")
        os.kill(engine, signal.SIGCONT)
        terminal.wait("opens the settings.", 60)
        assert "There is no model called" in terminal.text()


def test_the_real_engine_is_killed(store: Store) -> None:
    """Guards the real child: killed while it loads and while it writes, it is explained and started again."""
    with Terminal([*REAL, "--no-accel"], {}) as terminal:  # without drafts there is more time
        terminal.wait("Loading")
        _kill(terminal, "The engine was killed")
        terminal.send("What is speculative decoding?\r")
        terminal.wait("escape stops")
        _kill(terminal, "The engine was killed")
        part = said(store)[1]
        terminal.send("\x1bk")
        eventually(lambda: len(said(store)[1]) > len(part), 60)
        assert said(store)[1].startswith(part)


def _kill(terminal: Terminal, words: str) -> None:
    [engine] = terminal.children()
    os.kill(engine, signal.SIGKILL)
    terminal.wait(words)
    terminal.send("\x1bz")
    eventually(lambda: engine not in terminal.children() and bool(terminal.children()))
    terminal.wait(loaded, 60)


def test_the_screens_process_has_no_torch_in_it() -> None:
    """Guards against an import inside a function: what is mapped into the process is looked at after a whole reply."""
    with Terminal([*REAL], {}) as terminal:
        terminal.wait("Ready", 60)
        terminal.send("What is a draft?\r")
        terminal.wait("seed", 60)
        maps = Path(f"/proc/{terminal.pid}/maps").read_text(encoding="utf-8")
        assert "libtorch" not in maps
        [engine] = terminal.children()
        assert "libtorch" in Path(f"/proc/{engine}/maps").read_text(encoding="utf-8")
