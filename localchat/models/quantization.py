"""How weights are stored: explicit bitsandbytes settings, the meaning of AUTO, and what loaded weights really take.

The library's own defaults are fp4 and float32, so nothing is left to them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localchat.errors import ModelError
from localchat.models.folders import TensorInfo
from localchat.models.footprint import NF4_BLOCK
from localchat.models.plan import Precision

if TYPE_CHECKING:
    import torch

_CPU_ROWS = 32
"""bitsandbytes repacks NF4 weights for the CPU in blocks of this many output rows, and fails on any other number."""

_STORED = {"F32": Precision.FP32, "BF16": Precision.BF16, "F16": Precision.BF16}


def dtype_of(precision: Precision) -> torch.dtype:
    """The dtype that a precision computes in, and keeps its unquantized weights in."""
    import torch

    return {Precision.FP32: torch.float32, Precision.FP16: torch.float16}.get(precision, torch.bfloat16)


def candidates(infos: Sequence[TensorInfo], *, cuda: bool, bf16: bool = True) -> tuple[Precision, ...]:
    """What AUTO may become for a checkpoint, best first; the loader takes the first that fits.

    Args:
        infos: the checkpoint's tensors.
        cuda: the device is a GPU.
        bf16: the device computes in bf16.
    """
    half = Precision.BF16 if bf16 else Precision.FP16
    if cuda:
        return (half, Precision.NF4)
    largest = max(infos, key=lambda info: info.nbytes, default=None)
    own = _STORED.get(largest.dtype, Precision.BF16) if largest else Precision.BF16
    return (own, Precision.BF16, Precision.NF4) if own is Precision.FP32 else (own, Precision.NF4)


def repacks() -> bool:
    """True if this machine's CPU has bf16 instructions: bitsandbytes then repacks NF4 weights, and we bf16 ones."""
    try:
        return "avx512_bf16" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def quantization_config(precision: Precision, infos: Sequence[TensorInfo], device: str, half: torch.dtype) -> Any:
    """The BitsAndBytesConfig of a precision, or None for one without quantization.

    Args:
        precision: anything but AUTO.
        infos: the checkpoint's tensors; layers whose size the CPU kernel cannot serve stay in 16 bits.
        device: "cpu" or "cuda:N".
        half: dtype to compute in.

    Raises:
        ModelError: bitsandbytes is missing or cannot do it here.
    """
    if precision not in (Precision.NF4, Precision.INT8):
        return None
    _require_bitsandbytes(precision)
    from transformers import BitsAndBytesConfig

    if precision is Precision.INT8:
        return BitsAndBytesConfig(load_in_8bit=True)
    odd = odd_layers(infos) if device == "cpu" else []
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=half,
        llm_int8_skip_modules=[*odd, "lm_head"] if odd else None,
    )


def odd_layers(infos: Sequence[TensorInfo]) -> list[str]:
    """Module names of linear layers that the CPU's NF4 kernel cannot serve."""
    return [
        info.name.removesuffix(".weight")
        for info in infos
        if len(info.shape) == 2
        and info.name.endswith(".weight")
        and "embed" not in info.name
        and (info.shape[0] % _CPU_ROWS or info.shape[1] % NF4_BLOCK)
    ]


def _require_bitsandbytes(precision: Precision) -> None:
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    try:
        import bitsandbytes  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        raise ModelError(
            f"{precision.value} needs bitsandbytes, which cannot be used here ({error}).",
            "Install it (pip install 'bitsandbytes>=0.50'), or choose --precision bf16.",
        ) from error


def measured_bytes(model: Any) -> int:
    """Bytes of every parameter, buffer and quantization state of a loaded model; shared storage counts once."""
    from localchat.engine.packed import PackedLinear

    seen: dict[tuple[str, int], int] = {}
    for tensor in _stored(model):
        storage = tensor.untyped_storage()
        seen[(str(tensor.device), storage.data_ptr())] = storage.nbytes()
    packed = sum(module.bytes for module in model.modules() if isinstance(module, PackedLinear))
    return packed + sum(seen.values())


def _stored(model: Any) -> Iterator[torch.Tensor]:
    import torch

    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():
        weight = getattr(module, "weight", None)
        holders = (getattr(weight, "quant_state", None), getattr(module, "state", None))
        states = [state for state in holders if state is not None]
        states += [nested for state in states if (nested := getattr(state, "state2", None)) is not None]
        values = [getattr(state, name, None) for state in states for name in ("absmax", "code", "offset", "SCB", "CB")]
        yield from (value for value in [*values, getattr(weight, "SCB", None)] if isinstance(value, torch.Tensor))


def settle(model: Any, device: str) -> None:
    """Run one token, so that weights which are repacked at first use are measured in their final form."""
    import torch

    with torch.inference_mode():
        model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=device), use_cache=False)
