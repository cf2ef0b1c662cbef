"""Losses l(f(x), y): their values, their derivatives with respect to f(x), and the prediction that f(x) represents.

A learner moves along l'(f(x), y) kappa(x, .) (POLK eq. 17). `curvature` bounds the largest eigenvalue of the second
derivative wherever it exists; it decides which step sizes are stable and scales the implicit step. At a kink the
subgradient 0 is taken.

Predictions have shape (n, C). Targets are always float64: (n, C) numbers for regression, (n, 1) class indices
0, 1, ..., classes - 1 for classification, where a binary loss reads index 0 as sign -1 and index 1 as sign +1.
"""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from kernelswarm.agents.arithmetic import loss_formulas
from kernelswarm.agents.arithmetic.abi import LOSS_DERIVATIVES, LOSS_VALUES, CompiledLoss
from kernelswarm.agents.parts.grids import Grid
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import fulfils
from kernelswarm.protocols.core.addresses import Compiled, fill
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.refused_key import RefusedKey

_NO_NUMBERS: Array = np.zeros(0)

Task = Literal["regression", "binary", "multiclass"]


class Loss(Protocol):
    """A convex function of the prediction; logistic losses also have `probabilities` (`ProbabilisticLoss`).

    A loss with a property ``compiled -> CompiledLoss`` runs in compiled rounds; others are called in Python.
    """

    @property
    def task(self) -> Task:
        """The kind of targets: numbers, one of two classes, or one of several."""

    @property
    def curvature(self) -> float:
        """Bound on the largest eigenvalue of the second derivative, 0 for piecewise linear losses."""

    @property
    def quadratic(self) -> bool:
        """Whether the second derivative is exactly `curvature` times the identity."""

    def outputs(self, targets: int, classes: int | None) -> int:
        """Return C for data with these numbers of target columns and classes; ValueError if the loss does not fit."""

    def values(self, predictions: Array, targets: Array) -> Array:
        """Evaluate the loss: (n, C) and (n, q) give (n,)."""

    def derivatives(self, predictions: Array, targets: Array) -> Array:
        """Differentiate with respect to the predictions: (n, C) and (n, q) give (n, C)."""

    def decide(self, predictions: Array) -> Array:
        """Return the predictions in the unit of the targets: (n, C) gives (n, q)."""


class ConstantLoss(Loss, Protocol):
    """A loss whose best constant prediction has a closed form; for other losses it is found by a search."""

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return the prediction (C,) of least mean loss on targets (n, q), n >= 1; C = outputs."""


class ProbabilisticLoss(Loss, Protocol):
    """A loss whose predictions represent class probabilities."""

    def probabilities(self, predictions: Array) -> Array:
        """Return the probability of each class: (n, C) gives (n, classes)."""


@runtime_checkable
class CurvedLoss(Protocol):
    """A loss with a separate curvature for each sample, for second-order steps."""

    def curvatures(self, predictions: Array, targets: Array) -> Array:
        """Return r, positive and at most `curvature`, (n,).

        Steps of ``-l' / r`` on the predictions must not increase the loss. The second derivative itself does not
        satisfy this: it is almost 0 for a sample that is clearly misclassified.
        """


def curvatures_of(loss: Loss, predictions: Array, targets: Array) -> Array:
    """Return the curvature of each sample, (n,); for losses without ``curvatures`` it is the common bound."""
    if fulfils(loss, CurvedLoss):
        return loss.curvatures(predictions, targets)
    return np.full(len(predictions), loss.curvature)


@runtime_checkable
class IntegratedLoss(Protocol):
    """A loss whose risk contains the integral of the prediction over a box, the same for all samples."""

    @property
    def grid(self) -> Grid | None:
        """The grid on the box on which the integral is estimated, or None without an integral."""


def grid_of(loss: Loss) -> Grid | None:
    """Return the grid for a loss's integral; None for losses without an integral."""
    return loss.grid if fulfils(loss, IntegratedLoss) else None


class _Compiled(ABC):
    """A loss whose arithmetic is one of `loss_formulas`."""

    _formulas: ClassVar[tuple[Compiled, Compiled]]

    @property
    def _numbers(self) -> Array:
        """The loss's own numbers."""
        return _NO_NUMBERS

    def values(self, predictions: Array, targets: Array) -> Array:
        """Evaluate the loss: (n, C) and (n, q) give (n,)."""
        values = np.empty(len(predictions))
        fill(self._formulas[0], LOSS_VALUES, self._numbers, predictions, targets, values)
        return values

    def derivatives(self, predictions: Array, targets: Array) -> Array:
        """Differentiate with respect to the predictions: (n, C) and (n, q) give (n, C)."""
        slopes = np.empty(predictions.shape)
        fill(self._formulas[1], LOSS_DERIVATIVES, self._numbers, predictions, targets, slopes)
        return slopes


class _Curved(_Compiled):
    """A loss whose curvature differs from sample to sample."""

    _bends: ClassVar[tuple[Compiled]]  # in a tuple, so that it does not become a method

    def curvatures(self, predictions: Array, targets: Array) -> Array:
        """Return r of a quadratic that touches the loss at each prediction: (n, C) and (n, q) give (n,)."""
        values = np.empty(len(predictions))
        fill(*self._bends, LOSS_VALUES, self._numbers, predictions, targets, values)
        return values


class _Regression(_Compiled):
    """The common part of regression losses: one output for each target column, its prediction."""

    task: ClassVar[Task] = "regression"

    def outputs(self, targets: int, classes: int | None) -> int:
        """Return the number of target columns; ValueError if the targets are classes."""
        if classes is not None:
            raise ValueError(
                f"loss {_name(self)} predicts numbers, but the targets are {classes} classes: "
                f"use {'logistic or hinge' if classes == 2 else 'multiclass_logistic or multiclass_hinge'}"
            )
        return targets

    def decide(self, predictions: Array) -> Array:
        """Return the predictions themselves, (n, C)."""
        return predictions


class _Binary(_Compiled):
    """The common part of two-class losses: one output, whose sign is the class."""

    task: ClassVar[Task] = "binary"

    def outputs(self, targets: int, classes: int | None) -> int:
        """Return 1; ValueError unless the targets are one column of two classes."""
        _require_classes(self, targets, classes)
        if classes != 2:
            remedy = "" if classes == 1 else f": use multiclass_{_name(self)}"
            raise ValueError(f"loss {_name(self)} separates 2 classes, but the targets have {classes}{remedy}")
        return 1

    def decide(self, predictions: Array) -> Array:
        """Return class index 1 for positive predictions, else 0: (n, 1) gives (n, 1)."""
        return (predictions > 0.0).astype(np.float64)


class _Multiclass(_Compiled):
    """The common part of multi-class losses: one output for each class; the class with the largest output wins."""

    task: ClassVar[Task] = "multiclass"

    def outputs(self, targets: int, classes: int | None) -> int:
        """Return the number of classes; ValueError unless the targets are one column of at least two classes."""
        _require_classes(self, targets, classes)
        if classes is None or classes < 2:
            raise ValueError(f"loss {_name(self)} needs at least 2 classes, but the targets have {classes}")
        return classes

    def decide(self, predictions: Array) -> Array:
        """Return the index of the largest output, the lowest index if several are equal: (n, C) gives (n, 1)."""
        classes: Array = predictions.argmax(axis=1).astype(np.float64)[:, np.newaxis]
        return classes


@dataclass(frozen=True)
class Squared(_Regression):
    """Squared loss sum_c (f_c - y_c)^2, derivative 2 (f - y)."""

    curvature: ClassVar[float] = 2.0
    quadratic: ClassVar[bool] = True

    _formulas = (loss_formulas.squared_values, loss_formulas.squared_derivatives)

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(*self._formulas, self._numbers)

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return the mean of the targets, (C,)."""
        return np.asarray(targets.mean(axis=0))


@dataclass(frozen=True)
class Absolute(_Regression):
    """Absolute loss ``sum_c |f_c - y_c|``, derivative sign(f - y), 0 at 0. Robust to outliers."""

    curvature: ClassVar[float] = 0.0
    quadratic: ClassVar[bool] = False

    _formulas = (loss_formulas.absolute_values, loss_formulas.absolute_derivatives)

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(*self._formulas, self._numbers)

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return the median of the targets, (C,)."""
        return np.asarray(np.median(targets, axis=0))


@dataclass(frozen=True)
class Huber(_Regression, _Curved):
    """Huber loss, sum over c: r^2 / 2 if ``|r| <= threshold``, else ``threshold (|r| - threshold / 2)``, r = f_c - y_c.

    The derivative is r clipped to [-threshold, threshold]; the second derivative is 1 inside and 0 outside.

    Parameters
    ----------
    threshold
        Residual > 0, in the unit of the targets, beyond which a sample counts as an outlier.
    """

    threshold: float = 1.0
    curvature: ClassVar[float] = 1.0
    quadratic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        threshold: object = self.threshold
        if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0.0 < float(threshold) < math.inf:
            remedy = "use the size of an ordinary residual, or the absolute loss in place of 0"
            raise RefusedKey("threshold", f"= {threshold!r} must be a positive number: {remedy}")
        object.__setattr__(self, "threshold", float(threshold))

    _formulas = (loss_formulas.huber_values, loss_formulas.huber_derivatives)
    _bends = (loss_formulas.huber_curvatures,)

    @cached_property
    def _numbers(self) -> Array:
        return np.array([self.threshold])

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(*self._formulas, self._numbers, *self._bends)


@dataclass(frozen=True)
class Logistic(_Binary, _Curved):
    """Logistic loss log(1 + exp(-s f)) with the sign s = -1 or +1 of the class, derivative -s / (1 + exp(s f)).

    The second derivative q (1 - q), q = 1 / (1 + exp(-f)), is at most 1/4.
    """

    curvature: ClassVar[float] = 0.25
    quadratic: ClassVar[bool] = False

    _formulas = (loss_formulas.logistic_values, loss_formulas.logistic_derivatives)
    _bends = (loss_formulas.logistic_curvatures,)

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(*self._formulas, self._numbers, *self._bends)

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return the log odds of class 1, (1,)."""
        logs = _log_frequencies(targets, 2)
        return logs[1:] - logs[:1]

    def probabilities(self, predictions: Array) -> Array:
        """Return 1 / (1 + exp(f)) for class 0 and 1 / (1 + exp(-f)) for class 1: (n, 1) gives (n, 2)."""
        probabilities: Array = loss_formulas.logistic_probabilities(predictions)
        return probabilities


@dataclass(frozen=True)
class Hinge(_Binary):
    """Hinge loss max(0, 1 - s f) with the sign s = -1 or +1 of the class, derivative -s if s f < 1, else 0."""

    curvature: ClassVar[float] = 0.0
    quadratic: ClassVar[bool] = False

    _formulas = (loss_formulas.hinge_values, loss_formulas.hinge_derivatives)

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(*self._formulas, self._numbers)

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return the sign of the more frequent class, (1,)."""
        return np.array([1.0 if targets.mean() > 0.5 else -1.0])


@dataclass(frozen=True)
class MulticlassLogistic(_Multiclass, _Curved):
    """Multi-class logistic loss log(sum_c exp(f_c)) - f_y (POLK eq. 28), derivative softmax(f) - e_y.

    The eigenvalues of the second derivative diag(q) - q q', q = softmax(f), are at most 1/2; this bound is reached if
    two classes have the probability 1/2 each (Bohning, Ann. Inst. Stat. Math. 44, 1992).
    """

    curvature: ClassVar[float] = 0.5
    quadratic: ClassVar[bool] = False

    _formulas = (loss_formulas.multiclass_logistic_values, loss_formulas.multiclass_logistic_derivatives)
    _bends = (loss_formulas.multiclass_logistic_curvatures,)

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(*self._formulas, self._numbers, *self._bends)

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return the logarithms of the classes' frequencies, (C,)."""
        return _log_frequencies(targets, outputs)

    def probabilities(self, predictions: Array) -> Array:
        """Return softmax(f), the probability of each class: (n, C) gives (n, C)."""
        probabilities: Array = loss_formulas.softmax(predictions)
        return probabilities


@dataclass(frozen=True)
class MulticlassHinge(_Multiclass):
    """Multi-class hinge loss max(0, 1 + f_r - f_y), r the best wrong class (POLK eq. 26), derivative e_r - e_y.

    The derivative is 0 if the margin f_y - f_r is at least 1; among wrong classes with equal values r is the lowest.
    """

    curvature: ClassVar[float] = 0.0
    quadratic: ClassVar[bool] = False

    _formulas = (loss_formulas.multiclass_hinge_values, loss_formulas.multiclass_hinge_derivatives)

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(*self._formulas, self._numbers)

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return e_k for the most frequent class k, or 0 if no class has half of the samples, (C,).

        With d in [0, 1] between the two largest values the mean loss is at least ``p_k (1 - d) + (1 - p_k) (1 + d)``,
        which ``d e_k`` attains.
        """
        counts = np.bincount(targets[:, 0].astype(np.int64), minlength=outputs)
        best = np.zeros(outputs)
        best[counts.argmax()] = float(2 * counts.max() > len(targets))
        return best


def _log_frequencies(targets: Array, classes: int) -> Array:
    """Return the logarithm of each class's frequency, (classes,), that of a class that does not occur about -700."""
    counts = np.bincount(targets[:, 0].astype(np.int64), minlength=classes)
    return np.log(np.maximum(counts / len(targets), np.finfo(np.float64).tiny))


def _name(loss: object) -> str:
    name = type(loss).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _require_classes(loss: object, targets: int, classes: int | None) -> None:
    if classes is None:
        raise ValueError(f"loss {_name(loss)} predicts classes, but the targets are numbers: use squared or huber")
    if targets != 1:
        raise ValueError(f"loss {_name(loss)} needs one column of class indices, but there are {targets} targets")


# Squared hinge losses: flat beyond the margin as the hinge loss is, and with a curvature within it.

FLAT = 2e-12
"""The curvature beyond the margin, in place of 0: second-order steps divide by it, and a sample of so little weight
says nothing."""


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
        """Return 2 within the margin and almost 0 beyond it: (n, 1) and (n, 1) give (n,)."""
        return _for_each(_curvatures, predictions, targets)

    def offers(self, predictions: Array, targets: Array) -> Array:
        """Return 1 if s f < 1/2, as for two classes with one output each, else 0: (n, 1) and (n, 1) give (n,)."""
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

    s_c is +1 for the sample's class and -1 for all others (one versus the rest). A sample is offered to the dictionary
    if the multi-class hinge loss has a nonzero derivative: if the best wrong class is within 1 of the right class.
    """

    curvature: ClassVar[float] = 2.0

    _formulas = (_values, _derivatives)

    def curvatures(self, predictions: Array, targets: Array) -> Array:
        """Return 2 if a class is within its margin, otherwise almost 0: (n, C) and (n, 1) give (n,)."""
        return _for_each(_curvatures, predictions, targets)

    def offers(self, predictions: Array, targets: Array) -> Array:
        """Return 1 if f_y - f_r < 1, with the best wrong class r, else 0: (n, C) and (n, 1) give (n,)."""
        return _for_each(_offers, predictions, targets)

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(_values, _derivatives, _NO_NUMBERS, _curvatures, _offers)

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return each class's frequency minus that of all other classes, (C,)."""
        counts = np.bincount(targets[:, 0].astype(np.int64), minlength=outputs)
        return 2.0 * counts / len(targets) - 1.0


# The samples that second-order steps offer to the dictionary; a loss may restrict them.


@runtime_checkable
class OfferingLoss(Protocol):
    """A loss that selects the samples that may become dictionary points."""

    def offers(self, predictions: Array, targets: Array) -> Array:
        """Return 1 for each sample that is offered to the dictionary, and 0 for others, (n,).

        A sample that is not offered still updates the weights of the existing points. A sample with a derivative of 0
        is never offered.
        """


def offers_of(loss: Loss, predictions: Array, targets: Array) -> Array | None:
    """Return 1 for each offered sample and 0 for the others, (n,), or None if the loss offers all."""
    return loss.offers(predictions, targets) if fulfils(loss, OfferingLoss) else None
