"""`localchat models`: what is on this machine, what fits together, and getting more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localchat.cli import head_words, options, output
from localchat.errors import LocalchatError, ModelError, UsageError

if TYPE_CHECKING:
    from localchat.config import Settings
    from localchat.models.catalog import LocalModel
    from localchat.models.memory import Shape
    from localchat.models.pairing import Candidate, Pairing

app = typer.Typer(help="Models on this machine.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="MODEL", help="starter, a hub id, a folder or a GGUF file.")]

# What a checkpoint can hold that localchat reads; pickles are left where they are.
_WANTED = ("*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "tokenizer.model", "*.txt")


@app.command("list")
def list_(
    folder: Annotated[list[Path] | None, typer.Argument(help="Folders that hold models.")] = None,
    json: options.Json = False,
) -> None:
    """List the built-in pair, the hub cache and models inside FOLDER, and the drafting heads with their targets."""
    from localchat.models.catalog import local_models

    found = local_models(tuple(folder or ()))
    heads = head_words.here(found)
    if json:
        output.emit([*map(_record, found), *map(head_words.record, heads)])
        return
    output.table((">parameters", ">on disk", "model", "remark"), [_row(model) for model in found])
    if heads:
        output.table(head_words.COLUMNS, [head_words.row(head) for head in heads])


def _row(model: LocalModel) -> tuple[str, str, str, str]:
    count = output.count(model.shape.parameters) if model.shape else "?"
    return count, output.gib(model.disk_bytes), model.source.name, model.problem


def _record(model: LocalModel) -> dict[str, object]:
    return {
        "kind": "model",
        "name": model.source.name,
        "folder": str(model.source.folder),
        "gguf": model.source.gguf,
        "disk_bytes": model.disk_bytes,
        "parameters": model.shape.parameters if model.shape else None,
        "model_type": model.shape.model_type if model.shape else None,
        "max_context": model.shape.max_context if model.shape else None,
        "problem": model.problem,
    }


@app.command()
def show(model: Name, json: options.Json = False) -> None:
    """Show one model: its shape, its size at each precision, and drafts that suit it; or one head and its target."""
    from localchat.models.catalog import describe, pairs_for
    from localchat.models.folders import find_model
    from localchat.models.heads import is_head

    source = find_model(model)
    if not source.gguf and is_head(source.folder):
        head_words.show(head_words.read(source), as_json=json)
        return
    found = describe(source)
    drafts = [pair.draft for pair in pairs_for(model)] + head_words.made_for(source)
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
        ("parameters", output.count(shape.parameters)),
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
    """Check whether DRAFT, a model or a head, can draft for TARGET, and pay. Exit code 4 if it cannot be used."""
    settings = options.resolve(ctx).settings
    result = _pairing(target, draft, settings)
    if json:
        from localchat.cli.records import record

        output.emit({"ok": result.ok, "target": target, "draft": draft, **record(result)})
    else:
        signs = {"ok": "ok", "note": "note", "warn": "warn", "fail": "FAIL"}
        rows = [(signs[finding.level.value], finding.title, finding.detail) for finding in result.findings]
        output.table(("", "check", "finding"), rows)
    if not result.ok:
        raise typer.Exit(ModelError.exit_code)


def _pairing(target: str, draft: str, settings: Settings) -> Pairing:
    from localchat.models.choice import drafts_by_head, inspect
    from localchat.models.folders import find_model
    from localchat.models.heads import read_head
    from localchat.models.pairing import check_head, check_pair, read_candidate
    from localchat.models.plan import Precision

    def candidate(name: str, typed: str) -> Candidate:
        return read_candidate(name, find_model(name).folder, Precision.BF16 if typed == "auto" else Precision(typed))

    own, source = candidate(target, settings.precision), find_model(draft)
    side = inspect(find_model(target))
    if drafts_by_head(source, side):
        return check_head(own, read_head(source, side))
    return check_pair(own, candidate(draft, settings.draft_precision), settings.context)


@app.command()
def rm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A head or draft model that was trained here.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)] = False,
    json: options.Json = False,
) -> None:
    """Remove what `localchat train` made, finished or not. What was downloaded or is built in stays."""
    import shutil

    from localchat.models.folders import find_model
    from localchat.paths import data_dir

    made = [path for kind in ("heads", "models", "training") for path in (data_dir() / kind).glob("[!.]*/")]
    folder = next((path for path in made if name in (path.name, str(path))), None)
    if folder is None:
        where = find_model(name).folder
        raise UsageError(f"{name} was not trained here, so it is not removed.", f"Its files are in {where}.")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if not yes and not typer.confirm(f"Remove {folder} ({output.gib(size)})?", err=True):
        raise typer.Exit(1)
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise ModelError(f"{folder} cannot be removed: {error.strerror}.", "Remove it by hand.") from error
    if json:
        output.emit({"removed": name, "folder": str(folder), "bytes": size})
    else:
        output.line(f"{name} is gone ({output.gib(size)}).")


@app.command()
def pull(
    model: Annotated[str, typer.Argument(metavar="ID", help="A hub id, such as Qwen/Qwen3-0.6B.")],
    json: options.Json = False,
) -> None:
    """Download a model or a head from the hub: safetensors, config and tokenizer, never pickles or code."""
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
    from localchat.models.head_formats import head_files
    from localchat.models.heads import is_head

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
        (head_files if is_head(Path(folder)) else weight_files)(Path(folder))
    except LocalchatError as error:
        raise ModelError(f"{model} was downloaded, but cannot be used: {error.message}", _ELSE) from error
    return folder


_ELSE = "Its page may have the weights in another form only, such as a pickle; localchat reads safetensors."
_OFFLINE = "Connect to the network and run it again; what was downloaded is kept. The starter pair needs no network."


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="models")
