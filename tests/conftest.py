"""For every test."""

from __future__ import annotations

import os

# Several test processes share the cores: threads of one would wait for threads of another.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
