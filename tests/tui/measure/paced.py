"""The application over a scripted engine in a real child process, for measurements on a terminal.

Run: python -m tests.tui.measure.paced HOME CHAT TEXT_FILE SECONDS_PER_ROUND
"""

from __future__ import annotations

import sys
from pathlib import Path

from localchat import config
from localchat.chat.store import open_store
from localchat.models.plan import LoadPlan
from localchat.tui.app import Start
from localchat.tui.desk import Desk
from localchat.tui.host import Host
from localchat.worker.client import Worker
from tests.support.backend import Scripted
from tests.support.child import command
from tests.tui.support import started


def main() -> None:
    """Open the chat and stay until told to leave."""
    home, chat, text, delay = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).read_text(), float(sys.argv[4])
    worker = Worker(command(Scripted(text=text, delay=delay)))
    worker.start()
    file = config.File(home / "config.toml")
    desk = Desk(Host(worker), open_store(home / "chats.db").store, file, config.resolve(file, {}, {}), LoadPlan())
    started(Start(desk, chat or None)).run()


if __name__ == "__main__":
    main()
