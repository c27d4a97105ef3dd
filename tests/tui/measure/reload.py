"""Memory after changing settings again and again: each setting against its own first load. Real child, real starter.

Run: python -m tests.tui.measure.reload [ROUNDS]
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from localchat.bench.hear import load, reply
from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.engine.types import Sampling
from localchat.models.plan import LoadPlan, Precision
from localchat.worker.client import Worker

BASE = LoadPlan(precision=Precision.BF16, context=2048)
PLANS = {
    "bf16, mixed, 2048": BASE,
    "nf4": replace(BASE, precision=Precision.NF4),
    "bf16, lookup": replace(BASE, draft="lookup"),
    "bf16, mixed, 1024": replace(BASE, context=1024),
}


def own_memory() -> int:
    """Resident bytes of this process, which stands for the screen's."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def main() -> None:
    """Print each setting's first memory, its last, and the largest difference."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    worker = Worker()
    seen: dict[str, list[int]] = {name: [] for name in PLANS}
    asked, options = Conversation().user("What is a draft?"), ReplyOptions(Sampling(0.0))
    for _ in range(rounds):
        for name, plan in PLANS.items():
            load(worker, plan, lambda _: None)
            seen[name].append(reply(worker, asked, options).reply.usage.process)
        print(f"own memory {own_memory() / 2**20:.1f} MiB", flush=True)
    worker.close()
    worst = 0.0
    for name, sizes in seen.items():
        drift = max(abs(size / sizes[0] - 1) for size in sizes)
        worst = max(worst, drift)
        print(f"{name:20} first {sizes[0] / 2**20:7.1f} MiB, last {sizes[-1] / 2**20:7.1f} MiB, furthest {drift:.2%}")
    print(json.dumps({"loads": rounds * len(PLANS), "worst": worst}))


if __name__ == "__main__":
    main()
