"""`localchat models`: what is on this machine, what fits together, and getting more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localchat.cli import options, output
from localchat.errors import LocalchatError, ModelError

if TYPE_CHECKING:
    from localchat.models.catalog import LocalModel
    from localchat.models.memory import Shape

app = typer.Typer(help="Models on this machine.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="MODEL", help="starter, a hub id, a folder or a GGUF file.")]

# What a checkpoint can hold that localchat reads; pickles are left where they are.
_WANTED = ("*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "tokenizer.model", "*.txt")


@app.command("list")
def list_(
    folder: Annotated[list[Path] | None, typer.Argument(help="Folders that hold models.")] = None,
    json: options.Json = False,
) -> None:
    """List the built-in pair, the hub cache and models inside FOLDER."""
    from localchat.models.catalog import local_models

    found = local_models(tuple(folder or ()))
    if json:
        output.emit([_record(model) for model in found])
        return
    output.table((">parameters", ">on disk", "model", "remark"), [_row(model) for model in found])


def _row(model: LocalModel) -> tuple[str, str, str, str]:
    count = _count(model.shape.parameters) if model.shape else "?"
    return count, output.gib(model.disk_bytes), model.source.name, model.problem


def _record(model: LocalModel) -> dict[str, object]:
    return {
        "name": model.source.name,
        "folder": str(model.source.folder),
        "gguf": model.source.gguf,
        "disk_bytes": model.disk_bytes,
        "parameters": model.shape.parameters if model.shape else None,
        "model_type": model.shape.model_type if model.shape else None,
        "max_context": model.shape.max_context if model.shape else None,
        "problem": model.problem,
    }


def _count(parameters: int) -> str:
    return f"{parameters / 1e9:.1f} B" if parameters >= 1e9 else f"{parameters / 1e6:.1f} M"


@app.command()
def show(model: Name, json: options.Json = False) -> None:
    """Show one model: its shape, its size at each precision, and drafts that suit it."""
    from localchat.models.catalog import describe, pairs_for
    from localchat.models.folders import find_model

    found = describe(find_model(model))
    drafts = [pair.draft for pair in pairs_for(model)]
    sizes = _sizes(found.shape) if found.shape else {}
    if json:
        output.emit({**_record(found), "weight_bytes": sizes, "drafts": drafts})
        return
    rows = [("folder", str(found.source.folder)), ("on disk", output.gib(found.disk_bytes))]
    rows += _shape_rows(found.shape) if found.shape else []
    rows += [(f"weights in {name}", output.gib(size)) for name, size in sizes.items()]
    rows += [("drafts", ", ".join(drafts) or "none known; drafting by lookup works with every model")]
    rows += [("problem", found.problem)] if found.problem else []
    output.table(("", found.source.name), rows)


def _sizes(shape: Shape) -> dict[str, int]:
    from localchat.models.plan import Precision

    precisions = (Precision.NF4, Precision.INT8, Precision.BF16, Precision.FP32)
    return {precision.value: shape.weight_bytes(precision) for precision in precisions}


def _shape_rows(shape: Shape) -> list[tuple[str, str]]:
    sliding = sum(window is not None for window in shape.windows)
    layers = f"{len(shape.windows)}" + (f", {sliding} of them with a sliding window" if sliding else "")
    return [
        ("kind", shape.model_type),
        ("parameters", _count(shape.parameters)),
        ("layers", layers),
        ("longest context", f"{shape.max_context or '?'} tokens"),
    ]


@app.command()
def pair(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="The model that decides.")],
    draft: Annotated[str, typer.Argument(help="The model that guesses.")],
    precision: options.Precision = None,
    draft_precision: options.DraftPrecision = None,
    context: options.Context = None,
    json: options.Json = False,
) -> None:
    """Check whether DRAFT can draft for TARGET, and whether it can pay. Exit code 4 if it cannot be used."""
    from localchat.models.folders import find_model
    from localchat.models.pairing import check_pair, read_candidate
    from localchat.models.plan import Precision

    settings = options.resolve(ctx).settings
    sides = []
    for name, typed in ((target, settings.precision), (draft, settings.draft_precision)):
        chosen = Precision.BF16 if typed == "auto" else Precision(typed)
        sides.append(read_candidate(name, find_model(name).folder, chosen))
    result = check_pair(sides[0], sides[1], settings.context)
    if json:
        from localchat.cli.records import record

        output.emit({"ok": result.ok, "target": target, "draft": draft, **record(result)})
    else:
        signs = {"ok": "ok", "note": "note", "warn": "warn", "fail": "FAIL"}
        rows = [(signs[finding.level.value], finding.title, finding.detail) for finding in result.findings]
        output.table(("", "check", "finding"), rows)
    if not result.ok:
        raise typer.Exit(ModelError.exit_code)


@app.command()
def pull(
    model: Annotated[str, typer.Argument(metavar="ID", help="A hub id, such as Qwen/Qwen3-0.6B.")],
    json: options.Json = False,
) -> None:
    """Download a model from the hub: safetensors, config and tokenizer, never pickles or code."""
    from localchat.models.catalog import spec_for

    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise ModelError(f"{model} is no hub id.", "A hub id looks like Qwen/Qwen3-0.6B.")
    spec = spec_for(model)
    if spec is not None and spec.gated:
        output.say(f"{model} asks for consent on its hub page, and for a login on this machine.")
    folder = _download(model)
    if json:
        output.emit({"name": model, "folder": folder})
    else:
        output.line(folder)


def _download(model: str) -> str:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    from localchat.models.folders import weight_files

    http_error: type[BaseException] = HfHubHTTPError.__mro__[1]  # of whichever HTTP library the hub client uses
    try:
        folder = snapshot_download(model, allow_patterns=list(_WANTED))
    except LocalEntryNotFoundError as error:
        raise ModelError(f"The hub cannot be reached, so {model} was not downloaded.", _OFFLINE) from error
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        reasons = {401: "does not exist, or needs a login", 403: "needs your consent on its page", 404: "is not there"}
        reason = reasons.get(status, f"answered with code {status}")
        raise ModelError(f"{model} was not downloaded: the hub says it {reason}.", "Check the id.") from error
    except (http_error, OSError) as error:
        raise ModelError(f"{model} was not downloaded: {error}.", _OFFLINE) from error
    try:
        weight_files(Path(folder))
    except LocalchatError as error:
        raise ModelError(f"{model} was downloaded, but cannot be used: {error.message}", error.hint) from error
    return folder


_OFFLINE = "Connect to the network and run it again; what was downloaded is kept. The starter pair needs no network."


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="models")
