"""Loads models: everything that can be said against a plan is said first, then weights are read quietly and measured.

The one file that reads weights with transformers. Heavy imports are inside functions, so that the refusals can be used
where neither torch nor transformers may be loaded.
"""

from __future__ import annotations

import errno
import logging as stdlib_logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localchat.errors import FitError, LocalchatError, ModelError
from localchat.models.choice import Choice, Side, choose, drafting, inspect, missing_pair
from localchat.models.devices import available_memory, computes_bf16, resolve_device
from localchat.models.folders import (
    TEXT_PARTS,
    TEXT_PREFIX,
    Source,
    check_gguf,
    eos_ids,
    find_model,
    fingerprint,
    gguf_folder,
    token_texts,
)
from localchat.models.memory import MemoryPlan, Request, Shape
from localchat.models.pairing import Candidate, Pairing, check_pair
from localchat.models.plan import LoadPlan, Precision
from localchat.models.quantization import dtype_of, measured_bytes, quantization_config, repacks, settle

_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|end_of_turn|>")
"""End-of-turn tokens of the families; a converted model's config often forgets them."""

Progress = Callable[[str, int, int], None]
"""Called with a stage in words, steps done and steps in all (0: unknown)."""

Steps = Callable[[int, int], None]
"""Called with steps done and steps in all."""


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """Models on their device, ready to be wrapped by the engine, and what is known about them."""

    plan: LoadPlan
    """Every choice resolved, except the mode: nothing else is "auto" any more."""
    tokenizer: Any
    target_model: Any
    """A transformers causal language model in eval mode, gradients off."""
    draft_model: Any | None
    target_shape: Shape
    draft_shape: Shape | None
    pairing: Pairing | None
    memory: MemoryPlan
    target_bytes: int
    """Measured: parameters, buffers and quantization state."""
    draft_bytes: int
    eos_ids: frozenset[int]
    vocab: int
    """Ids from here on stand for no token of the target: cut its logits to this size."""
    model_name: str
    draft_name: str
    """Empty when there is no draft model."""
    fast_only: str
    """Why exact mode cannot be kept with this target (a sentence); empty if it can."""
    notes: tuple[str, ...]


def load(
    plan: LoadPlan, progress: Progress, max_width: int = 16, memory: tuple[int, int] | None = None
) -> LoadedModels:
    """Load what the plan asks for.

    Args:
        plan: what to load; "auto" and 0 are resolved here.
        progress: told about every step.
        max_width: most rows of one verification, for the memory plan.
        memory: (free, total) bytes to plan with; None asks the device.

    Raises:
        UsageError: an impossible option.
        FitError: no such device, or not enough memory.
        ModelError: a model is missing, damaged, of a kind that cannot run here, or the pair does not match.
    """
    device = resolve_device(plan.device)
    progress("checking", 0, 0)
    target = _inspected(find_model(plan.model), progress, trust_remote_code=plan.trust_remote_code)
    method, source = drafting(plan)
    draft = _inspected(source, progress) if source else None
    memory = memory or available_memory(device)
    choice = choose(plan, target, draft, device, max_width, memory)
    tokenizer = load_tokenizer(target.source.folder, trust_remote_code=plan.trust_remote_code)
    pairing = _pair(target, draft, choice.request, tokenizer) if draft else None
    problem = pairing.problem if pairing else None
    if draft and problem and plan.draft != "auto":
        raise ModelError(
            f"{draft.source.title} cannot draft for {target.source.title}: {problem.title}.", problem.detail
        )
    notes = [missing_pair(plan)] if plan.draft == "auto" and not draft else []
    if problem or choice.drops_draft:
        reason = f"the draft model does not suit it ({problem.title})" if problem else "no room for the draft model"
        notes.append(f"Drafting by lookup only: {reason}.")
        method, draft, pairing = "lookup", None, None
        choice = choose(plan, target, None, device, max_width, memory)
    parts = _Parts(target, draft, tokenizer, device, method, choice, pairing, tuple(filter(None, notes)))
    return _load(plan, progress, parts)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What `_load` puts together."""

    target: Side
    draft: Side | None
    tokenizer: Any
    device: str
    method: str
    choice: Choice
    pairing: Pairing | None
    notes: tuple[str, ...]


def _load(plan: LoadPlan, progress: Progress, parts: _Parts) -> LoadedModels:
    request, draft = parts.choice.request, parts.draft

    def steps(role: str) -> Steps:
        return lambda done, total: progress(f"loading the {role} weights", done, total)

    trust, device = plan.trust_remote_code, parts.device
    model = load_weights(parts.target, request.precision, device, steps("target"), trust_remote_code=trust)
    draft_model = load_weights(draft, request.draft_precision, device, steps("draft")) if draft else None
    resolved = replace(
        plan,
        precision=request.precision,
        draft=parts.method,
        draft_model=draft.source.name if draft else "",
        draft_precision=request.draft_precision if draft else plan.draft_precision,
        context=request.context,
        device=device,
    )
    return LoadedModels(
        plan=resolved,
        tokenizer=parts.tokenizer,
        target_model=model,
        draft_model=draft_model,
        target_shape=parts.target.shape,
        draft_shape=draft.shape if draft else None,
        pairing=parts.pairing,
        memory=parts.choice.memory,
        target_bytes=measured_bytes(model),
        draft_bytes=measured_bytes(draft_model) if draft_model is not None else 0,
        eos_ids=_ends(parts.target, parts.tokenizer),
        vocab=min(parts.target.shape.vocab, len(_texts(parts.target, parts.tokenizer))),
        model_name=parts.target.source.title,
        draft_name=draft.source.title if draft else "",
        fast_only=_fast_only(parts.target.shape, request.precision),
        notes=parts.notes,
    )


def _inspected(source: Source, progress: Progress, *, trust_remote_code: bool = False) -> Side:
    """Check a model; a GGUF file is unpacked into the cache folder first."""
    source = unpack_gguf(source, progress) if source.gguf else source
    return inspect(source, trust_remote_code=trust_remote_code)


def _pair(target: Side, draft: Side, request: Request, tokenizer: Any) -> Pairing:
    def candidate(side: Side, precision: Precision, own: Any) -> Candidate:
        folder = side.source.folder
        return Candidate(
            side.source.name, side.shape, precision, _texts(side, own), eos_ids(folder), fingerprint(folder)
        )

    other = tokenizer if token_texts(draft.source.folder) else load_tokenizer(draft.source.folder)
    return check_pair(
        candidate(target, request.precision, tokenizer),
        candidate(draft, request.draft_precision, other),
        request.context,
    )


def _texts(side: Side, tokenizer: Any) -> tuple[str, ...]:
    stored = token_texts(side.source.folder)
    if stored is not None:
        return stored
    by_id = {token: text for text, token in tokenizer.get_vocab().items()}
    return tuple(by_id.get(token, "") for token in range(1 + max(by_id, default=-1)))


def _ends(side: Side, tokenizer: Any) -> frozenset[int]:
    """Ids that end a reply: the stored ones, the tokenizer's own, and the end of a turn that its template writes."""
    template = str(getattr(tokenizer, "chat_template", None) or "")
    named = {tokenizer.convert_tokens_to_ids(text) for text in _TURN_ENDS if text in template}
    known = {token for token in (tokenizer.eos_token_id, *(named - {tokenizer.unk_token_id})) if isinstance(token, int)}
    return eos_ids(side.source.folder) | known


def _fast_only(shape: Shape, precision: Precision) -> str:
    if shape.mixture:
        return "A mixture of experts groups rows by expert, so its sums depend on what else is in the batch."
    if precision is Precision.INT8:
        return "int8 looks for outliers over all rows at once, so one row's result depends on the others."
    return ""


class _Bar:
    """Stands in for a progress bar: iterates, and tells the callback."""

    def __init__(self, steps: Steps, items: Any, total: int) -> None:
        self._steps, self._items, self._total = steps, items, total

    def __iter__(self) -> Iterator[Any]:
        for done, item in enumerate(self._items if self._items is not None else ()):
            self._steps(done, self._total)
            yield item
        self._steps(self._total, self._total)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_args, **_kwargs: None


@contextmanager
def quiet(steps: Steps) -> Iterator[None]:
    """Keep transformers from writing to the terminal; its weight loading reports to `steps`."""
    from transformers.utils import logging

    def hook(_: Any, args: Any, kwargs: Any) -> _Bar:
        items = args[0] if args else kwargs.get("iterable")
        total = kwargs.get("total") or (len(items) if hasattr(items, "__len__") else 0)
        return _Bar(steps if "weights" in str(kwargs.get("desc", "")) else lambda _done, _total: None, items, total)

    stdlib_logging.getLogger("bitsandbytes").setLevel(stdlib_logging.ERROR)
    verbosity = logging.get_verbosity()
    before = logging.set_tqdm_hook(hook)
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_tqdm_hook(before)
        logging.set_verbosity(verbosity)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn what the libraries raise into one sentence."""
    import torch
    from safetensors import SafetensorError

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise FitError(f"Memory ran out while loading {what}.", "Free some memory, or use --precision nf4.") from error
    except (OSError, SafetensorError) as error:
        if getattr(error, "errno", 0) == errno.ENOSPC or "No space left" in str(error):
            full = f"The disk is full: {what} could not be written."
            raise ModelError(full, "Free some space and try again.") from error
        raise ModelError(f"{what} could not be read: {_line(error)}", "The log has the details.") from error
    except LocalchatError:
        raise
    except Exception as error:  # the tokenizers library raises nothing more specific
        raise ModelError(f"{what} could not be loaded: {_line(error)}", "The log has the details.") from error


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]


def load_tokenizer(folder: Path, *, trust_remote_code: bool = False) -> Any:
    """The tokenizer of a model folder.

    Raises:
        ModelError: it is missing or broken.
    """
    from transformers import AutoTokenizer

    with _explained(f"the tokenizer of {folder.name}"), quiet(lambda _done, _total: None):
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=trust_remote_code)


def load_weights(
    side: Side, precision: Precision, device: str, steps: Steps, *, trust_remote_code: bool = False
) -> Any:
    """A transformers model in eval mode, without gradients, on the device, its weights in their final form.

    Raises:
        ModelError: the weights do not make a whole model, or the library cannot read them.
        FitError: memory ran out.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    from localchat.engine.packed import pack

    folder = side.source.folder
    half = dtype_of(precision if computes_bf16(device) or precision is Precision.FP32 else Precision.FP16)
    with _explained(folder.name), quiet(steps):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=trust_remote_code)
        part = config.get_text_config() if side.shape.model_type in TEXT_PARTS else config
        model, report = AutoModelForCausalLM.from_pretrained(
            folder,
            config=part,
            key_mapping={TEXT_PREFIX: "model."} if part is not config else None,
            dtype=half,
            device_map={"": device},
            quantization_config=quantization_config(precision, side.infos, device, half),
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            use_safetensors=True,
            output_loading_info=True,
        )
        missing = sorted(report.get("missing_keys", ()))
        if missing:
            raise ModelError(
                f"{folder.name} lacks {len(missing)} of its weights ({missing[0]} ...).",
                "Download it again: the files do not belong together.",
            )
        model.requires_grad_(False)
        model.eval()
        if device == "cpu" and repacks():
            pack(model)
        if precision is Precision.NF4 and device == "cpu":
            settle(model, device)
    return model


def unpack_gguf(source: Source, progress: Callable[[str, int, int], None]) -> Source:
    """An ordinary bf16 folder made from a GGUF file: written once into the cache folder, then found there.

    Raises:
        ModelError: the file is broken or of a kind that cannot be read, or the disk is full.
    """
    from localchat.paths import private_dir

    path = source.folder / source.gguf
    check_gguf(path)
    folder = gguf_folder(path)
    done = _unpacked(source, folder)
    if (folder / "config.json").is_file():
        return done
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    progress("unpacking the GGUF file", 0, 0)
    for left in folder.parent.glob(f".{folder.name}.*"):  # by a process that was killed
        if time.time() - left.stat().st_mtime > 3600:
            shutil.rmtree(left, ignore_errors=True)
    try:
        with _explained(path.name):
            private_dir(partial)
            _convert(path, partial, lambda at, total: progress("unpacking the GGUF file", at, total))
            os.replace(partial, folder)
    except LocalchatError:
        if (folder / "config.json").is_file():  # another process was faster
            return done
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return done


def _unpacked(source: Source, folder: Path) -> Source:
    """The unpacked folder, still under the name of the file."""
    return Source(source.name.removesuffix(".gguf"), folder)


def _convert(path: Path, folder: Path, steps: Steps) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers import modeling_gguf_pytorch_utils as reader

    bar = reader.tqdm
    reader.tqdm = lambda items, **_: _Bar(steps, items, len(items))  # the one bar that has no hook
    try:
        with quiet(lambda _done, _total: None):
            tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
            model = AutoModelForCausalLM.from_pretrained(
                path.parent,
                gguf_file=path.name,
                dtype=torch.bfloat16,
                quantization_config=GgufConfig(dequantize=True),
                local_files_only=True,
            )
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    finally:
        reader.tqdm = bar
    for file in folder.iterdir():
        file.chmod(0o600)
