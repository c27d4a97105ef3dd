"""Multi-token prediction: layers of the target's own kind, trained with it to say the tokens after the next.

As in DeepSeek-V3 (arXiv:2412.19437); used again and again where more tokens are drafted than there are layers.
"""

from __future__ import annotations

from localchat.engine.drafters.features import FeatureDrafter


class Mtp(FeatureDrafter):
    """Drafts with an `heads.Mtp`."""

    source = "mtp"
