"""Probabilities of classifiers whose loss gives none: the softmax of f over a temperature that samples tell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.loss_formulas import logistic_probabilities, softmax

Array = npt.NDArray[np.float64]

COLDEST, HOTTEST = 1e-3, 1e3
"""The range of temperatures, over the root of the mean square of f."""

MOST = 2000
"""So many samples tell the temperature well: with n its log loss is about 1 / (2 n) above the least."""

LATEST = 32
"""So many samples may come before they count, which saves time where probabilities are asked for sample by sample."""

ROOM = MOST + LATEST


def probabilities(values: Array, temperature: float) -> Array:
    """Return softmax(f / T), (n, classes); of one output f those of 1 / (1 + exp(-f / T)) for the second class.

    Parameters
    ----------
    values : Array
        f, (n, C) with C the number of classes, or 1 of two classes.
    temperature : float
        T, positive, in the unit of f. The largest value has the largest probability whatever T.
    """
    scaled = np.ascontiguousarray(values / temperature)
    found: Array = logistic_probabilities(scaled) if scaled.shape[1] == 1 else softmax(scaled)
    return found


def fitted(values: Array, labels: Array) -> float:
    """Return the temperature of least log loss (Guo, Pleiss, Sun and Weinberger 2017).

    Labels count as right with probability (n + 1) / (n + 2), as in Platt scaling: n samples that are all told right do
    not say that errors never happen.

    Parameters
    ----------
    values : Array
        f at samples that it was not learned from, (n, C), n >= 1.
    labels : Array
        Their class indices, (n,).
    """
    from scipy.optimize import brentq

    size = float(np.sqrt(np.mean(values**2)))
    if not size > 0.0:
        return 1.0  # equal values are equal probabilities at any temperature
    count, classes = len(values), max(values.shape[1], 2)
    wanted = np.full((count, classes), 1.0 / (count + 2) / (classes - 1))
    wanted[np.arange(count), labels.astype(np.intp)] = (count + 1) / (count + 2)
    margins = np.hstack([np.zeros_like(values), values]) if values.shape[1] == 1 else values
    margins = margins / size

    def slope(logarithm: float) -> float:
        """Return the derivative by 1 / T of the log loss, which is convex in it."""
        return float(np.mean((probabilities(values, size * np.exp(logarithm)) - wanted) * margins))

    coldest, hottest = np.log(COLDEST), np.log(HOTTEST)
    if slope(hottest) >= 0.0:
        return size * HOTTEST  # f tells nothing of the classes
    if slope(coldest) <= 0.0:
        return size * COLDEST
    return size * float(np.exp(brentq(slope, coldest, hottest, xtol=1e-6)))


class ProgressiveValues:
    """What was predicted of samples before they were learned from, and the temperature that it tells.

    The later half of the samples seen tells it, at most 2,000: earlier ones were predicted by an f that knew little. It
    is found afresh for every 32nd sample, more often in the beginning, whenever it is asked for.

    Parameters
    ----------
    outputs : int
        C.
    """

    def __init__(self, outputs: int) -> None:
        self.seen = 0
        self._held = 0
        self._values = [np.empty((0, outputs))]
        self._labels = [np.empty(0)]
        self._found = 0, 1.0  # after so many samples

    def add(self, values: Array, labels: Array) -> None:
        """Take notice of further samples: f at them, (n, C), and their class indices, (n,)."""
        self._values.append(values[-ROOM:].copy())
        self._labels.append(labels[-ROOM:].copy())
        self.seen += len(values)
        self._held += len(self._labels[-1])
        if self._held > 2 * ROOM:
            self._join()

    def kept(self) -> tuple[Array, Array]:
        """Return values and class indices of the samples that tell the temperature."""
        self._join()
        end = self._held - (self.seen - self._counted)
        begin = end - min(MOST, (self._counted + 1) // 2)
        return self._values[0][begin:end], self._labels[0][begin:end]

    @property
    def temperature(self) -> float:
        """T; 1 before any sample has come."""
        if self._found[0] != self._counted:
            self._found = self._counted, fitted(*self.kept())
        return self._found[1]

    @property
    def _counted(self) -> int:
        """The samples that count by now, by those seen alone: T does not depend on when it is asked for."""
        return self.seen - self.seen % min(LATEST, 2 ** max(0, (self.seen // 64).bit_length() - 1))

    def _join(self) -> None:
        """Put what is held in one piece, without what no longer counts."""
        values, labels = np.concatenate(self._values), np.concatenate(self._labels)
        self._values, self._labels = [values[-ROOM:]], [labels[-ROOM:]]
        self._held = len(self._labels[0])
