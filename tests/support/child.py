"""A scripted engine in a process of its own: `command(Scripted(...))` is what a `Worker` starts for it."""

from __future__ import annotations

import base64
import os
import pickle
import signal
import sys
from dataclasses import dataclass

from localchat.worker.child import serve, take_over
from tests.support.backend import Scripted


@dataclass(frozen=True, slots=True)
class Manners:
    """How the process behaves besides."""

    noise: bytes = b""
    """Printed on standard output before and after it is taken over."""
    stubborn: bool = False
    """It does not end when asked to (SIGTERM)."""
    broken: bool = False
    """It ends while it starts."""


def command(scripted: Scripted, manners: Manners | None = None) -> tuple[str, ...]:
    """The command line of such a process; functions the script calls must be those of a module."""
    packed = base64.b64encode(pickle.dumps((scripted, manners or Manners()))).decode()
    return (sys.executable, "-P", "-m", "tests.support.child", packed)


def main() -> None:
    """Serve the script given as the first argument."""
    scripted, manners = pickle.loads(base64.b64decode(sys.argv[1]))
    if manners.broken:
        raise SystemExit(3)
    if manners.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, manners.noise)
    incoming, outgoing = take_over()

    def make() -> Scripted:
        os.write(1, manners.noise)
        print(manners.noise)
        fresh: Scripted = scripted
        return fresh

    serve(make, incoming, outgoing)


if __name__ == "__main__":
    main()
