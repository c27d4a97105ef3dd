"""`localchat train`: a drafting head, or a small draft model, for the user's own target."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from localchat.cli import interrupt, options, output

if TYPE_CHECKING:
    from localchat.train.events import Event, Finished, Judged, Step
    from localchat.train.plan import TrainPlan

Target = Annotated[
    str | None,
    typer.Option("-m", "--target", "--model", help="The model to train for; that of the settings if left out."),
]
Kind = Annotated[str, typer.Option(help="eagle, medusa or mtp: heads that read the target's states. draft: a model.")]
Data = Annotated[
    list[str] | None,
    typer.Option(
        help="self (the target writes), chats (yours), a file or a folder; may be repeated. self if left out.",
        metavar="SOURCE",
    ),
]


def train(
    ctx: typer.Context,
    kind: Kind = "eagle",
    model: Target = None,
    data: Data = None,
    minutes: Annotated[float, typer.Option(help="Time in all. It ends earlier where no more is gained.")] = 30.0,
    precision: options.Precision = None,
    device: options.Device = None,
    name: Annotated[str, typer.Option(help="What to call it; made from target and kind if left out.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="The same for the same order of texts.")] = 0,
    profile: options.Profile = None,
    trust_remote_code: options.Trust = False,
    json: options.Json = False,
) -> None:
    """Train what drafts for a model, on this machine. Ctrl-C pauses: the same command goes on."""
    from localchat.models.plan import Precision
    from localchat.train.events import Finished, Paused
    from localchat.train.plan import SELF, TrainPlan

    settings = options.resolve(ctx).settings
    plan = TrainPlan(
        kind=kind,
        model=settings.model,
        data=tuple(data or (SELF,)),
        minutes=minutes,
        precision=Precision(settings.precision),
        device=settings.device,
        name=name,
        seed=seed,
        trust_remote_code=trust_remote_code,
    )
    plan.check()
    last = _followed(plan)
    if isinstance(last, Paused):
        output.say("Interrupted. Run the same command again to go on.")
        raise typer.Exit(interrupt.EXIT_CODE)
    if isinstance(last, Finished) and json:
        output.emit(_record(last))


class _Wishes:
    """What Ctrl-C does: it leaves at once while there is nothing to save, then asks to stop, then leaves after all."""

    def __init__(self) -> None:
        self.begun = self.stopped = False

    def interrupted(self, signal: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if not self.begun or self.stopped:
            interrupt.leave(signal, frame)
        self.stopped = True


def _followed(plan: TrainPlan) -> Event | None:
    """Train, show what comes, and return the last event."""
    from localchat.train.events import Began, Stage, Step
    from localchat.train.run import train as training

    wishes, progress, last = _Wishes(), output.Progress(), None
    with interrupt.handled_by(wishes.interrupted):
        for event in training(plan, lambda: wishes.stopped):
            last = event
            if isinstance(event, Step):
                wishes.begun |= event.stage is Stage.WRITING
                progress.show(_working(event))
                continue
            wishes.begun |= isinstance(event, Began)
            progress.clear()
            for line in _lines(event):
                output.say(line)
    progress.clear()
    return last


def _working(step: Step) -> str:
    """A step in one line."""
    parts = [f"{step.stage.value[:1].upper()}{step.stage.value[1:]}"]
    parts += [f"{step.share:.0%}"] if step.share else []
    parts += [f"{step.tokens:,} tokens"] if step.tokens else []
    parts += [f"loss {step.loss:.3f}"] if step.loss else []
    parts += [f"{step.seconds_left / 60:.1f} minutes left"] if step.seconds_left else []
    return " · ".join(parts)


def _lines(event: Event) -> list[str]:
    """An event in words."""
    from localchat.train.events import Began, Finished, Judged, Note

    if isinstance(event, Began):
        size = f"{event.parameters / 1e6:.1f} M parameters"
        text = f"{event.tokens:,} tokens of text, {event.held_out:,} more to judge on"
        again = f"; going on after {event.resumed_seconds / 60:.1f} minutes" if event.resumed_seconds else ""
        return [f"Training {event.name} ({event.kind}, {size}) for {event.target} on {text}{again}."]
    if isinstance(event, Judged):
        return [_judgement(event)]
    if isinstance(event, Note):
        return [f"Note: {event.text}"]
    if isinstance(event, Finished):
        use = f"Use it with: localchat -m {event.model} --draft {event.name}"
        return [f"{event.reason} {event.name} is kept in {event.folder}.", use]
    return []


def _judgement(judged: Judged) -> str:
    rates = " ".join(f"{ranks[0]:.0%}" for ranks in judged.acceptance)
    return (
        f"{judged.seconds / 60:5.1f} min · training loss {judged.loss:.3f} · accepted {rates} by position · "
        f"{judged.tokens_per_round:.2f} tokens per round · predicted {judged.speedup:.2f}× plain"
    )


def _record(finished: Finished) -> dict[str, object]:
    judged = finished.judged
    return {
        "name": finished.name,
        "folder": str(finished.folder),
        "reason": finished.reason,
        "minutes": finished.seconds / 60,
        "tokens": finished.tokens,
        "loss": judged.loss,
        "acceptance": judged.acceptance,
        "tokens_per_round": judged.tokens_per_round,
        "predicted_speedup": judged.speedup,
    }


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(train)
