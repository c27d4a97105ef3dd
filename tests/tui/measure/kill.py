"""`kill -9` at random moments: of the engine, then of the screen, in a scripted chat that streams on a terminal.

The script says ascending numbers and notes when each round begins, so that what is on the disk can be told in seconds:
lost is the time between the first character that is missing and the kill.

Run: python -m tests.tui.measure.kill [TIMES] [engine | app]
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tests.support.backend import Scripted
from tests.tui.measure.counting import LETTERS, LOG, highest, note, says
from tests.tui.program import command
from tests.tui.terminal import Terminal
from tests.worker.support import gone_or_zombie

ALLOWED = 0.5
"""Seconds of text that may be lost."""
LONGEST = 3.5
"""Seconds from asking to the kill."""
PATIENCE = 60.0
"""Seconds to wait for the screen: a busy machine is no fault."""


@dataclass(frozen=True, slots=True)
class Kill:
    """What one kill came to."""

    after: float
    """Seconds after asking."""
    written: int
    """Characters that the engine had written."""
    stored: int
    """How many of them are on the disk."""
    lost: float
    """Seconds of text."""
    kept: bool
    """All that was on the screen `ALLOWED` before the kill is stored."""
    whole: bool
    """The file is sound and nothing else in it has changed."""
    alone: bool
    """No process is left behind."""
    told: bool = False
    """The screen says what happened and shows the part that was kept."""


class Chats:
    """The home of a run, looked at from outside."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        self.home = home
        (home / "config").mkdir()
        (home / "config" / "config.toml").write_text("seed = 7\n")
        self._rounds = home / "rounds"
        os.environ[LOG] = str(self._rounds)
        self._known: dict[int, str] = {}
        self._moment = 0.0

    def terminal(self) -> Terminal:
        """The program."""
        engine = Scripted(delay=0.03, says=says, on_round=note)
        return Terminal(command(engine), {"LOCALCHAT_HOME": str(self.home)}, (160, 40))

    def ask(self, terminal: Terminal, number: int, luck: random.Random, *, go_on: bool) -> float:
        """Ask, or have the last reply continued; returns when."""
        self._rounds.write_text("")
        self._known = self._read()[0]
        self._go_on = go_on
        terminal.send("\x1bk" if go_on else f"go {number}\r")
        now = time.monotonic()
        self._moment = now + luck.uniform(0.0, LONGEST)
        return now

    def kill(self, terminal: Terminal, pid: int, asked: float) -> Kill:
        """Wait for the moment, kill, and look at what is left."""
        [engine] = terminal.children()
        time.sleep(max(0.0, self._moment - ALLOWED - time.monotonic()))
        shown = highest(terminal.text()) if self._moment - asked > ALLOWED else 0
        time.sleep(max(0.0, self._moment - time.monotonic()))
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        alone = gone_or_zombie(pid) and gone_or_zombie(engine)
        if pid != terminal.pid:
            terminal.wait("The engine was killed", PATIENCE)
        now, sound = self._read()
        whole = sound and all(now.get(id) == text for id, text in self._known.items())
        new = [text for id, text in now.items() if id not in self._known and not text.startswith("go")]
        stored = len(new[-1]) - (len(self.last) if self._go_on else 0) if new else 0
        written, lost = self._lost(stored, killed)
        kept = shown <= max(map(highest, now.values()), default=0)
        self._known = now
        return Kill(killed - asked, written, stored, lost, kept, whole, alone)

    @property
    def last(self) -> str:
        """The newest message with anything in it."""
        return self._known[max(self._known)] if self._known else ""

    def _read(self) -> tuple[dict[int, str], bool]:
        """All messages, and whether the file is sound; of a copy, so that the program itself has to recover."""
        with tempfile.TemporaryDirectory() as folder:
            if not (self.home / "data").exists():
                return {}, True
            copy = shutil.copytree(self.home / "data", Path(folder) / "data")
            with closing(sqlite3.connect(Path(copy) / "chats.db")) as db:
                sound = db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
                return dict(db.execute("SELECT id, text FROM message WHERE text <> '' ORDER BY id")), sound

    def _lost(self, stored: int, killed: float) -> tuple[int, float]:
        times = [float(line.split()[1]) for line in self._rounds.read_text().splitlines()]
        written = LETTERS * max(0, bisect_right(times, killed) - 1)
        if stored >= written:
            return written, 0.0
        # The round with the first character that is missing was complete when the next one began.
        return written, killed - times[stored // LETTERS + 1]


def kill_engine(chats: Chats, times: int, luck: random.Random) -> Iterator[Kill]:
    """One screen; the engine is started again each time, and every other reply goes on where it was cut off."""
    with chats.terminal() as terminal:
        for number in range(1, times + 1):
            terminal.wait(loaded, PATIENCE)
            asked = chats.ask(terminal, number, luck, go_on=number % 2 == 0 and not chats.last.startswith("go"))
            kill = chats.kill(terminal, terminal.children()[0], asked)
            yield replace(kill, told=_shows(terminal, highest(chats.last)))
            terminal.send("\x1bz")


def kill_app(chats: Chats, times: int, luck: random.Random) -> Iterator[Kill]:
    """Each kill ends the program; the next start has to offer what was cut off."""
    before, offered = None, False
    for number in range(1, times + 2):
        with chats.terminal() as terminal:
            terminal.wait(loaded, PATIENCE)
            if before is not None:
                offered = before.stored > 0
                told = not offered or (_says(terminal, "cut off") and _shows(terminal, highest(chats.last)))
                yield replace(before, told=told)
            if number <= times:
                asked = chats.ask(terminal, number, luck, go_on=number % 2 == 0 and offered)
                before = chats.kill(terminal, terminal.pid, asked)


def _shows(terminal: Terminal, number: int) -> bool:
    return not number or _says(terminal, f"{number:06}")


def _says(terminal: Terminal, words: str) -> bool:
    try:
        terminal.wait(words, PATIENCE)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return False
    return True


def loaded(screen: str) -> bool:
    """The title says what is loaded."""
    return "fp32" in screen.split("\n", 1)[0]


def summed(victim: str, kills: Sequence[Kill]) -> dict[str, str | int | float]:
    """One row of the table."""
    lost = [kill.lost for kill in kills]
    return {
        "killed": victim,
        "times": len(kills),
        "writing": sum(kill.written > 0 for kill in kills),
        "median": round(median(lost), 3),
        "most": round(max(lost), 3),
        f"over {ALLOWED} s": sum(seconds > ALLOWED for seconds in lost),
        "kept": sum(kill.kept for kill in kills),
        "whole": sum(kill.whole for kill in kills),
        "alone": sum(kill.alone for kill in kills),
        "told": sum(kill.told for kill in kills),
    }


KINDS = {"engine": kill_engine, "app": kill_app}


def main() -> None:
    """Print a line for each kill, a table, and one JSON line."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for victim, kind in KINDS.items():
            if victim not in (sys.argv[2:] or KINDS):
                continue
            kills = []
            for kill in kind(Chats(Path(folder) / victim), times, random.Random(victim)):
                print(victim, kill, flush=True)
                kills.append(kill)
            table.append(summed(victim, kills))
    print("".join(f"{name:>10}" for name in table[0]))
    for row in table:
        print("".join(f"{figure:>10}" for figure in row.values()))
    print(json.dumps(table))


if __name__ == "__main__":
    main()
