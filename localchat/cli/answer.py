"""A reply as it arrives: as text, as one JSON object, or as one JSON line per event."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from localchat.cli import output, records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localchat.bench.runner import Measured, Pair, Result
    from localchat.chat.events import Event, Loaded, Reply


class Printer(Protocol):
    """Shows events; leaving its context ends what is on the screen properly, whatever happened."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __call__(self, event: Event) -> None:
        """Show one event."""
        ...


class Quiet:
    """Progress and remarks on stderr, nothing on stdout."""

    def __init__(self) -> None:
        self.progress = output.Progress()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.clear()

    def __call__(self, event: Event) -> None:
        """Show how far loading and reading have come, and what there is to know about the model."""
        from localchat.chat.events import Loaded, Loading, Prefilling

        if isinstance(event, Loading | Prefilling):
            share = f" {event.done / event.total:.0%}" if event.total else ""
            stage = event.stage if isinstance(event, Loading) else "Reading the prompt"
            self.progress.show(f"{stage[:1].upper()}{stage[1:]}{share} …")
            return
        self.progress.clear()
        if isinstance(event, Loaded):
            for remark in remarks(event):
                output.say(remark)


class Text(Quiet):
    """The text on stdout as it is written, ended by a newline."""

    def __init__(self) -> None:
        super().__init__()
        self._open = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._open and not isinstance(error, BrokenPipeError):
            output.write("\n")

    def __call__(self, event: Event) -> None:
        """Print the text of a round."""
        from localchat.chat.events import Wrote

        super().__call__(event)
        if isinstance(event, Wrote) and event.text:
            output.write(event.text)
            self._open = not event.text.endswith("\n")


class OneObject(Quiet):
    """The whole reply as one JSON object."""

    def __call__(self, event: Event) -> None:
        """Print the object at the end."""
        from localchat.chat.events import Finished

        super().__call__(event)
        if isinstance(event, Finished):
            output.emit(records.reply_record(event.reply))


class Lines(Quiet):
    """One JSON line per event."""

    def __call__(self, event: Event) -> None:
        """Print the event."""
        output.emit(records.event_record(event))


def remarks(loaded: Loaded) -> list[str]:
    """What the user should know about the loaded model."""
    return [f"Note: {note}" for note in loaded.notes]


def summary(reply: Reply) -> str:
    """A reply's figures in one line."""
    stats = reply.stats
    parts = [f"{stats.tokens} tokens in {stats.decode_seconds:.2f} s", f"{stats.tokens_per_second:.1f} tok/s"]
    if reply.accelerated:
        parts.append(f"{reply.speedup:.2f}× plain ({reply.plain_tokens_per_second:.1f} tok/s)")
        parts.append(f"{stats.tokens_per_round:.2f} tok/round")
        sources = ", ".join(f"{name} {count.accepted}/{count.drafted}" for name, count in stats.by_source)
        parts.append(f"{stats.acceptance_rate:.0%} accepted" + (f" ({sources})" if sources else ""))
    else:
        parts.append("plain")
    parts.append(f"first token {reply.first_token_seconds:.2f} s")
    parts.append("exact" if reply.exact else "fast")
    parts += [f"seed {reply.sampling.seed}", f"ended by {reply.finish_reason.value}"]
    return " · ".join(parts)


def measured(events: Iterable[Measured], progress: output.Progress) -> tuple[list[Pair], list[Result]]:
    """The pairs and results of a measurement, with its steps shown."""
    from localchat.bench.runner import Pair, Result, Step

    pairs, results = [], []
    for event in events:
        if isinstance(event, Step):
            progress.show(event.title)
        elif isinstance(event, Pair):
            pairs.append(event)
        elif isinstance(event, Result):
            results.append(event)
    return pairs, results
