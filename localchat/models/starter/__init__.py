"""The starter pair: a small target and its draft model, trained by this project and shipped with it.

They are a guide to localchat and to speculative decoding, so that the program works on a machine with no GPU and no
network. Nothing here imports torch; `build` makes the pair again from its corpus.
"""

from pathlib import Path

HOME = Path(__file__).parent
TARGET = HOME / "target"
DRAFT = HOME / "draft"

__all__ = ["DRAFT", "HOME", "TARGET"]
