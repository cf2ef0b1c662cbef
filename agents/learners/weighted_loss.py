"""A loss multiplied by the weight of its sample; every learner can use it in place of the loss."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelswarm.agents.arithmetic.abi import (
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    CompiledLoss,
    loss_derivatives_at,
    loss_values_at,
)
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.parts.losses import Loss, Task, curvatures_of, offers_of
from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import handed_over
from kernelswarm.protocols.core.addresses import NONE, address
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit

VALUES, DERIVATIVES, CURVATURES, OFFERS, CURVATURE, FIRST = range(6)
"""Indices among the loss's numbers: addresses (integers far below 2^53), the curvature, and the first number of the
loss inside."""


@cached_njit
def _values(numbers: ReadOnly, predictions: ReadOnly, targets: ReadOnly, values: Array) -> None:
    own = line(numbers, FIRST, len(numbers) - FIRST)
    loss_values_at(int(numbers[VALUES]))(own, predictions, targets, values)
    for i in range(predictions.shape[0]):
        values[i] *= targets[i, targets.shape[1] - 1]


@cached_njit
def _derivatives(numbers: ReadOnly, predictions: ReadOnly, targets: ReadOnly, slopes: Array) -> None:
    own = line(numbers, FIRST, len(numbers) - FIRST)
    loss_derivatives_at(int(numbers[DERIVATIVES]))(own, predictions, targets, slopes)
    for i in range(predictions.shape[0]):
        for c in range(predictions.shape[1]):
            slopes[i, c] *= targets[i, targets.shape[1] - 1]


@cached_njit
def _curvatures(numbers: ReadOnly, predictions: ReadOnly, targets: ReadOnly, values: Array) -> None:
    for i in range(predictions.shape[0]):
        values[i] = numbers[CURVATURE]
    if int(numbers[CURVATURES]) != NONE:
        own = line(numbers, FIRST, len(numbers) - FIRST)
        loss_values_at(int(numbers[CURVATURES]))(own, predictions, targets, values)
    for i in range(predictions.shape[0]):
        values[i] *= targets[i, targets.shape[1] - 1]


@cached_njit
def _offers(numbers: ReadOnly, predictions: ReadOnly, targets: ReadOnly, values: Array) -> None:
    own = line(numbers, FIRST, len(numbers) - FIRST)
    loss_values_at(int(numbers[OFFERS]))(own, predictions, targets, values)


@dataclass(frozen=True)
class Weighted:
    """The loss ``w l(f, y)`` of samples whose last target column is their weight w.

    First-order steps are w times as long, ``w l'``. In second-order steps slope and curvature are multiplied by w, so
    that a sample of weight 2 counts like two samples.

    Parameters
    ----------
    loss : Loss
        The loss l.

    Examples
    --------
    >>> from kernelswarm.agents.parts.losses import Squared
    >>> Weighted(Squared()).derivatives(np.array([[1.0], [1.0]]), np.array([[0.0, 1.0], [0.0, 3.0]])).ravel()
    array([2., 6.])
    """

    loss: Loss
    quadratic: ClassVar[bool] = False

    @property
    def task(self) -> Task:
        return self.loss.task

    @property
    def curvature(self) -> float:
        """The curvature of a sample of weight 1, the unit of a ridge."""
        return self.loss.curvature

    def outputs(self, targets: int, classes: int | None) -> int:
        """Return C for data with ``targets`` target columns, including the weight."""
        return self.loss.outputs(targets - 1, classes)

    def values(self, predictions: Array, targets: Array) -> Array:
        """Evaluate the loss: (n, C) and (n, q + 1) give (n,)."""
        return self.loss.values(predictions, _plain(targets)) * targets[:, -1]

    def derivatives(self, predictions: Array, targets: Array) -> Array:
        """Differentiate with respect to the predictions: (n, C) and (n, q + 1) give (n, C)."""
        return self.loss.derivatives(predictions, _plain(targets)) * targets[:, -1:]

    def curvatures(self, predictions: Array, targets: Array) -> Array:
        """Return w r, r the curvature of each sample, (n,)."""
        return curvatures_of(self.loss, predictions, _plain(targets)) * targets[:, -1]

    def offers(self, predictions: Array, targets: Array) -> Array:
        """Return 1 for each sample that the loss offers to the dictionary, 0 for others; weights have no effect."""
        offered = offers_of(self.loss, predictions, _plain(targets))
        return np.ones(len(targets)) if offered is None else offered

    def decide(self, predictions: Array) -> Array:
        """Return the predictions in the unit of the targets: (n, C) gives (n, q)."""
        return self.loss.decide(predictions)

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds.

        Raises
        ------
        NotCompiledError
            If the loss inside has no compiled form.
        """
        loss = handed_over(self.loss, "loss")
        head = [
            address(loss.values, LOSS_VALUES),
            address(loss.derivatives, LOSS_DERIVATIVES),
            NONE if loss.curvatures is None else address(loss.curvatures, LOSS_VALUES),
            NONE if loss.offers is None else address(loss.offers, LOSS_VALUES),
            self.loss.curvature,
        ]
        numbers = np.concatenate([np.array(head, dtype=np.float64), loss.numbers])
        return CompiledLoss(_values, _derivatives, numbers, _curvatures, None if loss.offers is None else _offers)


def _plain(targets: Array) -> Array:
    return np.ascontiguousarray(targets[:, :-1])
