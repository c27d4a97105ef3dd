"""What settings come to: a plan to load, and how tokens are chosen."""

from __future__ import annotations

from localchat.config import Settings
from localchat.engine.types import Sampling
from localchat.models.plan import LoadPlan, Mode, Precision


def load_plan(settings: Settings, *, trust_remote_code: bool = False) -> LoadPlan:
    """What these settings load."""
    return LoadPlan(
        model=settings.model,
        precision=Precision(settings.precision),
        draft=settings.draft,
        draft_model=settings.draft_model,
        draft_precision=Precision(settings.draft_precision),
        context=settings.context,
        device=settings.device,
        mode=Mode(settings.mode),
        trust_remote_code=trust_remote_code,
    )


def sampling(settings: Settings, seed: int) -> Sampling:
    """How these settings choose tokens; the seed is the caller's, as theirs may say "a new one each time"."""
    return Sampling(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        repetition_penalty=settings.repetition_penalty,
        presence_penalty=settings.presence_penalty,
        frequency_penalty=settings.frequency_penalty,
        seed=seed,
    )
