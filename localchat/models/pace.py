"""How fast a model will decode, before it is loaded: a guess from bytes and layers, set right by one measurement.

One plain step reads every weight once (bytes over bandwidth) and calls so many kernels a layer. Both rates are rough
where nothing was measured; once a model has been timed here, its ratio to the guess corrects all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localchat.models.devices import Machine
from localchat.models.footprint import Footprint
from localchat.models.pairing import ROW_COST
from localchat.models.plan import Precision

_BANDWIDTHS = (
    ("B200", 8000), ("H200", 4800), ("H100", 3000), ("A100", 1800), ("L40", 864), ("L4", 300), ("A40", 696),
    ("A10", 600), ("T4", 320), ("V100", 900), ("6000 Ada", 960), ("A6000", 768),
    ("5090", 1792), ("5080", 960), ("5070 Ti", 896), ("5070", 672), ("5060", 448),
    ("4090", 1008), ("4080", 717), ("4070 Ti SUPER", 672), ("4070", 504), ("4060", 272),
    ("3090", 936), ("3080", 760), ("3070", 448), ("3060", 360), ("3050", 224), ("2080", 448), ("2070", 448),
)  # fmt: skip
"""GB/s of common GPUs by a part of their name; the first that is found counts."""

_OTHER_GPU, _CPU = 400, 25
"""GB/s where nothing better is known."""

_REACHED = 0.7
"""Share of a GPU's bandwidth that decoding reaches."""

_LAYER_SECONDS = 2e-4
"""Calling one layer's kernels, on a GPU and on a CPU alike."""

_DEARER = {Precision.NF4: 1.3, Precision.INT8: 2.5}
"""Quantized layers call more kernels."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The rates of a machine."""

    layer: float
    """Seconds a layer takes whatever its size."""
    byte: float
    """Seconds to read a byte of weights."""
    measured: bool = False
    """Set right by a measurement on this machine."""

    def seconds(self, shape: Footprint, precision: Precision) -> float:
        """Seconds of one plain step, which writes one token."""
        layers = max(1, len(shape.windows)) * self.layer * _DEARER.get(precision, 1.0)
        return layers + shape.step_bytes(precision) * self.byte

    def speed(self, shape: Footprint, precision: Precision) -> float:
        """Tokens per second of plain decoding."""
        return 1.0 / self.seconds(shape, precision)

    def corrected(self, shape: Footprint, precision: Precision, tokens_per_second: float) -> Pace:
        """These rates after one model's plain speed was measured; as they are if it was not."""
        if tokens_per_second <= 0:
            return self
        ratio = 1.0 / tokens_per_second / self.seconds(shape, precision)
        return Pace(self.layer * ratio, self.byte * ratio, True)


def gain(shares: Sequence[float], cost_ratio: float, *, at_once: bool = False) -> float:
    """Speed against plain decoding at the best draft length (Leviathan et al., arXiv:2211.17192); 1.0 if none pays.

    Args:
        shares: by place in the draft, the share of guesses that are accepted there, those before them being accepted.
        cost_ratio: time of a draft step as a share of a target step.
        at_once: one step guesses all places (Medusa), else each takes one.
    """
    best = alive = tokens = 1.0
    for place, share in enumerate(shares, start=1):
        alive *= share
        tokens += alive
        steps = 1 if at_once else place
        best = max(best, tokens / (1.0 + steps * cost_ratio + place * ROW_COST))
    return best


def guess(machine: Machine) -> Pace:
    """The rates to expect of a machine on which nothing was measured."""
    if not machine.cuda:
        return Pace(_LAYER_SECONDS, 1 / (_CPU * 1e9))
    bandwidth = next((rate for name, rate in _BANDWIDTHS if name.lower() in machine.title.lower()), _OTHER_GPU)
    return Pace(_LAYER_SECONDS, 1 / (bandwidth * _REACHED * 1e9))
