"""EAGLE: one decoder layer guesses the target's next state from the last one and the next token.

EAGLE-1 and -2 (arXiv:2401.15077, arXiv:2406.16858) read the state that the output head reads, EAGLE-3
(arXiv:2503.01840) those of several layers.
"""

from __future__ import annotations

from localchat.engine.drafters.features import FeatureDrafter


class Eagle(FeatureDrafter):
    """Drafts with an `heads.Eagle`."""

    source = "eagle"
