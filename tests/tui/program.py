"""The real program over a scripted engine: `command(Scripted(...), "--resume", "1")` is run on a `Terminal`."""

from __future__ import annotations

import base64
import pickle
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from localchat.__main__ import main as run
from localchat.worker import client
from tests.support import child
from tests.support.backend import Scripted


@dataclass(frozen=True, slots=True)
class Script:
    """What the program is given."""

    engine: tuple[str, ...]
    """The engine's command line."""
    arguments: tuple[str, ...]
    disk: int
    """Largest size of a file that the screen's process may write, in bytes; 0: no limit."""


def command(scripted: Scripted, *arguments: str, disk: int = 0, model: str = "starter") -> Sequence[str]:
    """The command line of `localchat ARGUMENTS` with the script as its engine; a model named spares the start page."""
    chosen = ("-m", model) if model else ()
    script = Script(child.command(scripted), (*chosen, *arguments), disk)
    return (sys.executable, "-m", "tests.tui.program", base64.b64encode(pickle.dumps(script)).decode())


def main() -> None:
    """Be the program."""
    script: Script = pickle.loads(base64.b64decode(sys.argv[1]))
    if script.disk:
        resource.setrlimit(resource.RLIMIT_FSIZE, (script.disk, resource.RLIM_INFINITY))
    client.Worker = partial(client.Worker, script.engine)  # type: ignore[misc, assignment]
    sys.argv = ["localchat", *script.arguments]
    run()


if __name__ == "__main__":
    main()
