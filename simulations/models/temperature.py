"""Probabilities of classifiers whose loss gives none: the softmax of f over a temperature that samples tell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.loss_formulas import logistic_probabilities, softmax

Array = npt.NDArray[np.float64]

COLDEST, HOTTEST = 1e-3, 1e3
"""The range of temperatures."""

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


def fitted(values: Array, labels: Array, weights: Array) -> float:
    """Return the temperature of least log loss (Guo, Pleiss, Sun and Weinberger 2017).

    One sample more, of weight 1, is taken to lie at the margin, 1 for a class and -1 for all others, and to be of any
    class alike: n samples that are all classified rightly do not show that errors never happen, nor tiny values what
    those of size 1 mean.

    Parameters
    ----------
    values : Array
        f at samples that it was not learned from, (n, C), in the unit of its margin.
    labels, weights : Array
        Their class indices and weights, (n,).
    """
    from scipy.optimize import brentq

    count, outputs = values.shape
    classes = max(outputs, 2)
    margin = np.full((1, outputs), -1.0)
    margin[0, 0] = 1.0
    values = np.concatenate([values, margin])
    wanted = np.full((count + 1, classes), 1.0 / classes)
    wanted[:count] = 0.0
    wanted[np.arange(count), labels.astype(np.intp)] = 1.0
    weighed = np.append(weights, 1.0)[:, np.newaxis]
    scores = np.hstack([np.zeros_like(values), values]) if outputs == 1 else values

    def slope(logarithm: float) -> float:
        """Return the derivative by 1 / T of the log loss, which is convex in it."""
        return float(np.sum((probabilities(values, np.exp(logarithm)) - wanted) * scores * weighed))

    coldest, hottest = np.log(COLDEST), np.log(HOTTEST)
    if slope(hottest) >= 0.0:
        return HOTTEST  # f tells nothing of the classes
    if slope(coldest) <= 0.0:
        return COLDEST
    return float(np.exp(brentq(slope, coldest, hottest, xtol=1e-6)))


class ProgressiveValues:
    """Predictions of samples before their steps, and the temperature that fits them.

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
        self._labels = [np.empty((0, 2))]  # with their weights
        self._found = 0, 1.0  # after so many samples

    def add(self, values: Array, labels: Array, weights: Array | float = 1.0) -> None:
        """Take notice of further samples: f at them, (n, C), their class indices and weights, (n,), 1 as a rule."""
        self._values.append(values[-ROOM:].copy())
        self._labels.append(np.column_stack(np.broadcast_arrays(labels, weights))[-ROOM:])
        self.seen += len(values)
        self._held += len(self._labels[-1])
        if self._held > 2 * ROOM:
            self._join()

    def kept(self) -> tuple[Array, Array, Array]:
        """Return values, class indices and weights of the samples that tell the temperature."""
        self._join()
        end = self._held - (self.seen - self._counted)
        begin = end - min(MOST, (self._counted + 1) // 2)
        return self._values[0][begin:end], *self._labels[0][begin:end].T

    @property
    def temperature(self) -> float:
        """T; 1 before any sample has come."""
        if self._found[0] != self._counted:
            self._found = self._counted, fitted(*self.kept())
        return self._found[1]

    @property
    def _counted(self) -> int:
        """The samples that count by now, by those seen alone: T does not depend on when it is asked for."""
        return self.seen - self.seen % min(LATEST, 1 << max(0, (self.seen // 64).bit_length() - 1))

    def _join(self) -> None:
        """Put what is held in one piece, without what no longer counts."""
        values, labels = np.concatenate(self._values), np.concatenate(self._labels)
        self._values, self._labels = [values[-ROOM:]], [labels[-ROOM:]]
        self._held = len(self._labels[0])
