"""Squared hinge losses: flat beyond the margin as the hinge loss is, and with a curvature within it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import LOSS_VALUES, CompiledLoss
from kernelswarm.agents.parts.losses import Hinge, MulticlassHinge
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.first_class import Compiled, fill

Array = npt.NDArray[np.float64]

FLAT = 2e-12
"""The curvature beyond the margin, in place of 0: second-order steps divide by it, and a sample of so little weight
says nothing."""

_NO_NUMBERS: Array = np.zeros(0)


@inline_always
def _label(predictions: Array, targets: Array, i: int) -> int:
    """Return the output that is to be positive, -1 for none; a single output is that of class 1."""
    label, outputs = int(targets[i, 0]), predictions.shape[1]
    if outputs == 1:
        return label - 1
    if label < 0 or label >= outputs:
        raise ValueError("class index outside 0 .. classes - 1: number the classes from 0")
    return label


@cached_njit
def _values(numbers: ReadOnly, predictions: ReadOnly, targets: ReadOnly, values: Array) -> None:
    for i in range(predictions.shape[0]):
        label = _label(predictions, targets, i)
        values[i] = 0.0
        for c in range(predictions.shape[1]):
            short = max(0.0, 1.0 - predictions[i, c] if c == label else 1.0 + predictions[i, c])
            values[i] += short * short


@cached_njit
def _derivatives(numbers: ReadOnly, predictions: ReadOnly, targets: ReadOnly, slopes: Array) -> None:
    for i in range(predictions.shape[0]):
        label = _label(predictions, targets, i)
        for c in range(predictions.shape[1]):
            if c == label:
                slopes[i, c] = -2.0 * max(0.0, 1.0 - predictions[i, c])
            else:
                slopes[i, c] = 2.0 * max(0.0, 1.0 + predictions[i, c])


@cached_njit
def _curvatures(numbers: ReadOnly, predictions: ReadOnly, targets: ReadOnly, values: Array) -> None:
    for i in range(predictions.shape[0]):
        label = _label(predictions, targets, i)
        values[i] = FLAT
        for c in range(predictions.shape[1]):
            if predictions[i, c] < 1.0 if c == label else predictions[i, c] > -1.0:
                values[i] = 2.0


@cached_njit
def _offers(numbers: ReadOnly, predictions: ReadOnly, targets: ReadOnly, values: Array) -> None:
    for i in range(predictions.shape[0]):
        label = _label(predictions, targets, i)
        if predictions.shape[1] == 1:
            margin = 2.0 * (predictions[i, 0] if label == 0 else -predictions[i, 0])
        else:
            rival = -np.inf
            for c in range(predictions.shape[1]):
                if c != label:
                    rival = max(rival, predictions[i, c])
            margin = predictions[i, label] - rival
        values[i] = 1.0 if margin < 1.0 else 0.0


def _for_each(formula: Compiled, predictions: Array, targets: Array) -> Array:
    values = np.empty(len(predictions))
    fill(formula, LOSS_VALUES, _NO_NUMBERS, predictions, targets, values)
    return values


@dataclass(frozen=True)
class SquaredHinge(Hinge):
    """Squared hinge loss max(0, 1 - s f)^2 with the sign s = -1 or +1 of the class, derivative -2 s max(0, 1 - s f)."""

    curvature: ClassVar[float] = 2.0

    _formulas = (_values, _derivatives)

    def curvatures(self, predictions: Array, targets: Array) -> Array:
        """Return 2 within the margin and next to nothing beyond it: (n, 1) and (n, 1) give (n,)."""
        return _for_each(_curvatures, predictions, targets)

    def offers(self, predictions: Array, targets: Array) -> Array:
        """Return 1 where s f < 1/2, as of two classes of one output each, else 0: (n, 1) and (n, 1) give (n,)."""
        return _for_each(_offers, predictions, targets)

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(_values, _derivatives, _NO_NUMBERS, _curvatures, _offers)

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return the difference of the classes' frequencies, (1,)."""
        return np.array([2.0 * targets.mean() - 1.0])


@dataclass(frozen=True)
class MulticlassSquaredHinge(MulticlassHinge):
    """Squared hinge loss of each class against the others, sum_c max(0, 1 - s_c f_c)^2.

    s_c is +1 for the sample's class and -1 for all others (one versus the rest). Points are offered where the hinge
    loss has a derivative: where the best wrong class comes within 1 of the right one.
    """

    curvature: ClassVar[float] = 2.0

    _formulas = (_values, _derivatives)

    def curvatures(self, predictions: Array, targets: Array) -> Array:
        """Return 2 where some class is within its margin and next to nothing elsewhere: (n, C), (n, 1) give (n,)."""
        return _for_each(_curvatures, predictions, targets)

    def offers(self, predictions: Array, targets: Array) -> Array:
        """Return 1 where f_y - f_r < 1, r the best wrong class, else 0: (n, C) and (n, 1) give (n,)."""
        return _for_each(_offers, predictions, targets)

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(_values, _derivatives, _NO_NUMBERS, _curvatures, _offers)

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return each class's frequency less that of all others, (C,)."""
        counts = np.bincount(targets[:, 0].astype(np.int64), minlength=outputs)
        return 2.0 * counts / len(targets) - 1.0
