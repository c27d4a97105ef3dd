"""Loads models: everything that can be said against a plan is said first, then weights are read quietly and measured.

The one file that reads weights with transformers. Heavy imports are inside functions, so that the refusals can be used
where neither torch nor transformers may be loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localchat.errors import ModelError
from localchat.models.choice import (
    AnySide,
    Choice,
    Side,
    check_method,
    choose,
    drafting,
    drafts_by_head,
    inspect,
    missing_pair,
)
from localchat.models.devices import available_memory, computes_bf16, resolve_device
from localchat.models.folders import (
    TEXT_PARTS,
    TEXT_PREFIX,
    Source,
    eos_ids,
    find_model,
    fingerprint,
    token_texts,
)
from localchat.models.footprint import Footprint
from localchat.models.gguf import unpack_gguf
from localchat.models.heads import HeadSide, read_head
from localchat.models.memory import MemoryPlan, Request, Shape, plan_memory
from localchat.models.pairing import Candidate, Pairing, check_head, check_pair
from localchat.models.plan import LoadPlan, Precision
from localchat.models.quantization import dtype_of, measured_bytes, quantization_config, repacks, settle
from localchat.models.quiet import Steps, explained, quiet

if TYPE_CHECKING:
    from localchat.engine.heads import AnyHead

_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|end_of_turn|>")
"""End-of-turn tokens of the families; a converted model's config often forgets them."""

Progress = Callable[[str, int, int], None]
"""Called with a stage in words, steps done and steps in all (0: unknown)."""


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """Models on their device, ready to be wrapped by the engine, and what is known about them."""

    plan: LoadPlan
    """Every choice resolved, except the mode: nothing else is "auto" any more."""
    tokenizer: Any
    target_model: Any
    """A transformers causal language model in eval mode, gradients off."""
    draft_model: Any | None
    head: AnyHead | None
    """A drafting head on the target's device; there is a draft model or a head, never both."""
    head_side: HeadSide | None
    """What the head's files say."""
    target_shape: Shape
    draft_shape: Footprint | None
    """Of the draft model or head."""
    pairing: Pairing | None
    memory: MemoryPlan
    target_bytes: int
    """Measured: parameters, buffers and quantization state."""
    draft_bytes: int
    """The same of the draft model or head, without what a head shares with the target."""
    eos_ids: frozenset[int]
    vocab: int
    """Ids from here on stand for no token of the target: cut its logits to this size."""
    model_name: str
    draft_name: str
    """Of the draft model or head; empty when there is neither."""
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
    method, source = drafting(plan, target)
    draft = _drafter(source, target, progress) if source else None
    if draft:
        check_method(method, draft)
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
        what = "the head" if isinstance(draft, HeadSide) else "the draft model"
        reason = f"{what} does not suit it ({problem.title})" if problem else f"no room for {what}"
        notes.append(f"Drafting by lookup only: {reason}.")
        method, draft, pairing = "lookup", None, None
        choice = choose(plan, target, None, device, max_width, memory)
    parts = _Parts(target, draft, tokenizer, device, method, choice, pairing, tuple(filter(None, notes)))
    return _load(plan, progress, parts)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What `_load` puts together."""

    target: Side
    draft: AnySide | None
    tokenizer: Any
    device: str
    method: str
    choice: Choice
    pairing: Pairing | None
    notes: tuple[str, ...]


def _load(plan: LoadPlan, progress: Progress, parts: _Parts) -> LoadedModels:
    def steps(role: str) -> Steps:
        return lambda done, total: progress(f"loading the {role} weights", done, total)

    trust, device, precision = plan.trust_remote_code, parts.device, parts.choice.request.precision
    model = load_weights(parts.target, precision, device, steps("target"), trust_remote_code=trust)
    target_bytes = measured_bytes(model)
    vocab = min(parts.target.shape.vocab, len(_texts(parts.target, parts.tokenizer)))
    draft_model, head = None, None
    try:
        draft_model, head = _draft_weights(parts, model, vocab, steps("draft"))
    except ModelError as error:
        if plan.draft != "auto":
            raise
        parts = _without_draft(parts, error.message)
    request, draft = parts.choice.request, parts.draft
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
        head=head,
        head_side=draft if isinstance(draft, HeadSide) else None,
        target_shape=parts.target.shape,
        draft_shape=draft.shape if draft else None,
        pairing=parts.pairing,
        memory=parts.choice.memory,
        target_bytes=target_bytes,
        draft_bytes=sum(measured_bytes(part) for part in (draft_model, head) if part is not None),
        eos_ids=reply_ends(parts.target, parts.tokenizer),
        vocab=vocab,
        model_name=parts.target.source.title,
        draft_name=draft.source.title if draft else "",
        fast_only=_fast_only(parts.target.shape, request.precision),
        notes=parts.notes,
    )


def _draft_weights(parts: _Parts, model: Any, vocab: int, steps: Steps) -> tuple[Any | None, AnyHead | None]:
    """A draft model, or a head, or neither."""
    if isinstance(parts.draft, HeadSide):
        return None, load_head(parts.draft, model, vocab, parts.device, steps)
    if parts.draft:
        return load_weights(parts.draft, parts.choice.request.draft_precision, parts.device, steps), None
    return None, None


def _without_draft(parts: _Parts, problem: str) -> _Parts:
    """What was chosen for the user turned out to be broken: reply without it, and say so."""
    request = replace(parts.choice.request, draft=None)
    notes = (*parts.notes, f"Drafting by lookup only: {problem}")
    choice = replace(parts.choice, request=request, memory=plan_memory(request))
    return replace(parts, draft=None, pairing=None, method="lookup", choice=choice, notes=notes)


def _drafter(source: Source, target: Side, progress: Progress) -> AnySide:
    return read_head(source, target) if drafts_by_head(source, target) else _inspected(source, progress)


def _inspected(source: Source, progress: Progress, *, trust_remote_code: bool = False) -> Side:
    """Check a model; a GGUF file is unpacked into the cache folder first."""
    source = unpack_gguf(source, progress) if source.gguf else source
    return inspect(source, trust_remote_code=trust_remote_code)


def _pair(target: Side, draft: AnySide, request: Request, tokenizer: Any) -> Pairing:
    def candidate(side: Side, precision: Precision, own: Any) -> Candidate:
        folder = side.source.folder
        return Candidate(
            side.source.name, side.shape, precision, _texts(side, own), eos_ids(folder), fingerprint(folder)
        )

    decides = candidate(target, request.precision, tokenizer)
    if isinstance(draft, HeadSide):
        return check_head(decides, draft)
    other = tokenizer if token_texts(draft.source.folder) else load_tokenizer(draft.source.folder)
    return check_pair(decides, candidate(draft, request.draft_precision, other), request.context)


def _texts(side: Side, tokenizer: Any) -> tuple[str, ...]:
    stored = token_texts(side.source.folder)
    if stored is not None:
        return stored
    by_id = {token: text for text, token in tokenizer.get_vocab().items()}
    return tuple(by_id.get(token, "") for token in range(1 + max(by_id, default=-1)))


def reply_ends(side: Side, tokenizer: Any) -> frozenset[int]:
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


def load_tokenizer(folder: Path, *, trust_remote_code: bool = False) -> Any:
    """The tokenizer of a model folder.

    Raises:
        ModelError: it is missing or broken.
    """
    from transformers import AutoTokenizer

    with explained(f"the tokenizer of {folder.name}"), quiet(lambda _done, _total: None):
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
    with explained(folder.name), quiet(steps):
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


def load_head(head: HeadSide, model: Any, vocabulary: int, device: str, steps: Steps) -> AnyHead:
    """A drafting head beside its loaded target, in the target's own 16 or 32 bits.

    Args:
        head: what its files say.
        model: the target.
        vocabulary: ids from here on stand for no token of the target.
        device: where the target is.
        steps: told about every tensor.

    Raises:
        ModelError: the weights do not make a whole head, or cannot be read.
        FitError: memory ran out.
    """
    from localchat.models.head_weights import read_weights

    with explained(head.source.title):
        return read_weights(head, model, vocabulary, model.get_input_embeddings().weight.dtype, device, steps)
