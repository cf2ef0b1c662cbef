"""The common parts of learners that mix kernels of several bandwidths by their losses (Hedge)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.protocols.parameters.hedge import LIKELIHOOD
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

Rate = float | Literal["auto"]


MIXTURE_RANGES = {"rate": Range("(0, inf)", "", "auto"), "forgetting": Range("(0, 1]", "1 forgets nothing")}
"""The ranges of the keys of mixtures."""


def check_mixture(kernel: Kernel, factors: Sequence[float]) -> None:
    """Refuse a kernel without a bandwidth, and factors that are not positive."""
    if not hasattr(kernel, "bandwidth"):
        raise RefusedKey("kernel", "has no bandwidth to vary: take gaussian, laplacian, matern or student_t", kernel)
    if not factors or not all(0.0 < factor < math.inf for factor in factors):
        raise RefusedKey("factors", f"= {factors!r} must be positive numbers, such as [0.5, 1, 2]")


def scaled_kernels(kernel: Kernel, factors: Sequence[float]) -> list[Kernel]:
    """Return the kernel with its bandwidth times each factor."""
    whole: Any = kernel
    if isinstance(whole.bandwidth, str):
        raise RefusedKey(
            "bandwidth",
            f'= "{whole.bandwidth}" is a word that training data turn into a number before learning starts: '
            "take kernel.resolved(sample), or give a number",
        )
    scaled = [np.multiply(whole.bandwidth, factor).tolist() for factor in factors]
    widths = [tuple(width) if isinstance(width, list) else width for width in scaled]
    return [replace(whole, bandwidth=width) for width in widths]


def rate_for(rate: Rate, loss: Loss) -> float:
    """Return the rate as a number: of classes, "auto" is that of their likelihood, 1."""
    if rate != "auto":
        return float(rate)
    return LIKELIHOOD if loss.task == "regression" else 1.0
