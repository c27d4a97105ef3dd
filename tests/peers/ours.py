"""localchat's own engine, in the process that measures, behind the interface of the peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from localchat.chat.backend import ReplyOptions
from localchat.chat.events import Failed, Finished, Loaded, LoadEvent, Reply, Wrote
from localchat.chat.session import Session
from localchat.engine.types import Sampling
from localchat.models.plan import LoadPlan

from .measure import AGAIN, Clock, Sample


class Ours:
    """A loaded session and the methods to compare; lookup is asked twice, the first time with its memory emptied."""

    def __init__(self, plan: LoadPlan, methods: Sequence[str] = ("off", "lookup"), note: str = "") -> None:
        self._session = Session()
        self._methods, self._note = tuple(methods), note
        self.loaded = _loaded(self._session.load(plan))
        self.replies: list[Reply] = []
        """The last replies, newest last, for the caller's own questions."""

    @property
    def variants(self) -> tuple[str, ...]:
        """Drafting methods, plain first."""
        return self._methods

    def ask(self, name: str, prompt: str, ids: Sequence[int], options: ReplyOptions) -> Sample:
        """One reply with these options.

        Raises:
            RuntimeError: the engine failed.
        """
        clock = Clock()
        for event in self._session.complete(ids, options):
            if isinstance(event, Wrote):
                clock.take(len(event.round.tokens))
            elif isinstance(event, Finished):
                self.replies = [*self.replies[-9:], event.reply]
            elif isinstance(event, Failed):
                raise RuntimeError(f"{event.title} {event.hint}")
        return clock.sample(name, prompt, self.replies[-1].text)

    def run(self, variant: str, prompt: str, ids: Sequence[int], count: int) -> list[Sample]:
        """One greedy reply; lookup a second time, with the first in its memory.

        Raises:
            RuntimeError: the model ended its text early, so that the figures would not compare.
        """
        sampling = Sampling(temperature=0.0)
        name = f"ours {'plain' if variant == 'off' else variant}{self._note}"
        first = ReplyOptions(sampling=sampling, max_tokens=count, method=variant, fresh=True)
        samples = [self.ask(name, prompt, ids, first)]
        if variant == "lookup":
            again = ReplyOptions(sampling=sampling, max_tokens=count, method=variant)
            samples.append(self.ask(name + AGAIN, prompt, ids, again))
        if any(sample.tokens != count for sample in samples):
            raise RuntimeError(f"{name} ended {prompt!r} after {samples[0].tokens} tokens instead of {count}")
        return samples

    def close(self) -> None:
        """Give the memory back."""
        self._session.close()


def _loaded(events: Iterator[LoadEvent]) -> Loaded:
    for event in events:
        if isinstance(event, Loaded):
            return event
        if isinstance(event, Failed):
            raise RuntimeError(f"{event.title} {event.hint}")
    raise RuntimeError("loading ended without a word")
