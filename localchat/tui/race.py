"""What the compare screen knows without any widget: a measurement that is heard, and how fast a race is replayed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from localchat.bench.categories import Form, choose, form_of
from localchat.bench.chart import Colours
from localchat.bench.comparison import Race, Side
from localchat.bench.runner import OFF, Measured, Pair, Result, Step, Task, Trial
from localchat.chat import setup
from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Loaded, Wrote
from localchat.config import Settings
from localchat.engine.types import Sampling
from localchat.errors import LocalchatError

REPEATS = (1, 3, 5, 9)
PROMPT_TOKENS, KIND_TOKENS = 256, 128
"""Longest replies where the settings say nothing: two long ones for each repeat would take minutes."""

_WATCHABLE = 6.0
"""Seconds that the slower side of a replay should take."""
_SPEEDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


def trial(loaded: Loaded, settings: Settings, system: str, prompt: str, repeats: int) -> Trial:
    """What to measure: a prompt as the chat would ask it, or the six kinds of work (no prompt) as `localchat bench`.

    Raises:
        ModelError: the model's folder is gone.
    """
    method = loaded.plan.draft if loaded.plan.draft != OFF else "lookup"
    if not prompt:
        tasks = tuple(prompt.task for prompt in choose(form_of(loaded.plan.model)))
        return Trial(tasks, (method,), ReplyOptions(Sampling(temperature=0.0), KIND_TOKENS), repeats)
    sampling = setup.sampling(settings, max(settings.seed, 0))
    options = ReplyOptions(sampling, settings.max_tokens or PROMPT_TOKENS, settings.stop)
    task = Task("this prompt", Conversation.begin(system).user(prompt))
    return Trial((task,), (method,), options, repeats)


def suggestion(loaded: Loaded | None) -> str:
    """A prompt that suits the loaded model; empty where there is none to suggest."""
    try:
        form = form_of(loaded.plan.model) if loaded else Form.GUIDE
    except LocalchatError:
        return ""
    lines = (prompt.text for prompt in choose(form, ("question answering", "story")))
    return next((text for text in lines if "\n" not in text and len(text) < 100), "")


@dataclass(eq=False, slots=True)
class Heard:
    """A measurement so far."""

    trial: Trial
    step: Step | None = None
    text: str = ""
    """Of the reply that is being written."""
    tokens: int = 0
    pairs: list[Pair] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def hear(self, events: Iterable[Measured]) -> bool:
        """Take in what came; True if a kind of work was finished."""
        before = len(self.results)
        for event in events:
            if isinstance(event, Step):
                self.step, self.text, self.tokens = event, "", 0
            elif isinstance(event, Wrote):
                self.text += event.text
                self.tokens += len(event.round.tokens)
            elif isinstance(event, Pair):
                self.pairs.append(event)
            elif isinstance(event, Result):
                self.results.append(event)
        return len(self.results) > before

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return self.step.done / self.trial.replies if self.step else 0.0

    @property
    def title(self) -> str:
        """What runs now."""
        if self.step is None:
            return "Waiting for the engine"
        if not self.step.kind:
            return "Warming up"
        method = "plain" if self.step.method == OFF else self.step.method
        return f"{self.step.title}, {method} · reply {self.step.done + 1} of {self.trial.replies}"


class Track:
    """A side of a race as it is replayed."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._ends = [moment.seconds for moment in side.moments]
        self._characters = [0, *accumulate(len(moment.text) for moment in side.moments)]
        self._tokens = [0, *accumulate(moment.tokens for moment in side.moments)]

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self.side.text

    def characters(self, seconds: float) -> int:
        """How much of the text was there after so many seconds."""
        return self._characters[bisect_right(self._ends, seconds)]

    def tokens(self, seconds: float) -> int:
        """How many tokens there were."""
        return self._tokens[bisect_right(self._ends, seconds)]

    def own(self) -> tuple[tuple[int, int], ...]:
        """Where the target's own tokens stand in a drafted text, in characters; nothing where none is known."""
        spans = []
        for start, moment in zip(self._characters, self.side.moments, strict=False):
            if moment.accepted and moment.accepted < len(moment.text):
                spans.append((start + moment.accepted, start + len(moment.text)))
        return tuple(spans)


def replay_speed(race: Race) -> float:
    """Seconds of the race per second of its replay, such that it can be watched."""
    longest = max(race.plain.seconds, race.fast.seconds)
    return min(_SPEEDS, key=lambda speed: abs(longest / speed - _WATCHABLE) if longest else abs(speed - 1.0))


def speed_words(speed: float) -> str:
    """A replay's speed for people."""
    if speed == 1.0:
        return "as fast as it was"
    return f"{speed:g}× faster than it was" if speed > 1 else f"{1 / speed:g}× slower than it was"


def colours(variables: Mapping[str, str]) -> Colours:
    """A theme's colours for a chart, as far as the theme names them in full (the terminal's own are not known)."""
    default = Colours()

    def of(name: str, other: str) -> str:
        value = variables.get(name, "")
        return value[:7] if value.startswith("#") and len(value) >= 7 else other

    if not variables.get("background", "").startswith("#"):
        return default
    return Colours(
        background=of("background", default.background),
        text=of("foreground", default.text),
        muted=of("muted", default.muted),
        line=of("rule", default.line),
        plain=of("muted", default.plain),
        fast=of("primary", default.fast),
    )
