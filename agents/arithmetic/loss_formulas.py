"""The compiled formulas of the losses; `losses` contains the parts that users name.

Each loss has two functions, its values and its derivatives, with the signatures in `compiled`: first the loss's
numbers, then predictions (n, C), targets (n, q), and the array for the results. They make one pass, without temporary
arrays, since a round calls them for single samples.
"""

import math

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount


@njit_no_refcount
def squared_values(numbers: Array, predictions: Array, targets: Array, values: Array) -> None:
    """Evaluate sum_c (f_c - y_c)^2."""
    for i in range(predictions.shape[0]):
        total = 0.0
        for c in range(predictions.shape[1]):
            residual = predictions[i, c] - targets[i, c]
            total += residual * residual
        values[i] = total


@njit_no_refcount
def squared_derivatives(numbers: Array, predictions: Array, targets: Array, slopes: Array) -> None:
    """Evaluate 2 (f - y)."""
    for i in range(predictions.shape[0]):
        for c in range(predictions.shape[1]):
            slopes[i, c] = 2.0 * (predictions[i, c] - targets[i, c])


@njit_no_refcount
def absolute_values(numbers: Array, predictions: Array, targets: Array, values: Array) -> None:
    """Evaluate sum_c |f_c - y_c|."""
    for i in range(predictions.shape[0]):
        total = 0.0
        for c in range(predictions.shape[1]):
            total += abs(predictions[i, c] - targets[i, c])
        values[i] = total


@njit_no_refcount
def absolute_derivatives(numbers: Array, predictions: Array, targets: Array, slopes: Array) -> None:
    """Evaluate sign(f - y), 0 at 0."""
    for i in range(predictions.shape[0]):
        for c in range(predictions.shape[1]):
            residual = predictions[i, c] - targets[i, c]
            slopes[i, c] = 1.0 if residual > 0.0 else (-1.0 if residual < 0.0 else residual)


@njit_no_refcount
def huber_values(numbers: Array, predictions: Array, targets: Array, values: Array) -> None:
    """Evaluate the sum over c of ``r^2 / 2`` if ``|r| <= threshold``, else ``threshold (|r| - threshold / 2)``."""
    threshold = numbers[0]
    for i in range(predictions.shape[0]):
        total = 0.0
        for c in range(predictions.shape[1]):
            size = abs(predictions[i, c] - targets[i, c])
            total += 0.5 * size * size if size <= threshold else threshold * (size - 0.5 * threshold)
        values[i] = total


@njit_no_refcount
def huber_derivatives(numbers: Array, predictions: Array, targets: Array, slopes: Array) -> None:
    """Evaluate f - y clipped to [-threshold, threshold]."""
    threshold = numbers[0]
    for i in range(predictions.shape[0]):
        for c in range(predictions.shape[1]):
            residual = predictions[i, c] - targets[i, c]
            slopes[i, c] = threshold if residual > threshold else (-threshold if residual < -threshold else residual)


@njit_no_refcount
def huber_curvatures(numbers: Array, predictions: Array, targets: Array, values: Array) -> None:
    """Evaluate l'(r) / r, 1 inside and threshold / |r| outside, for the least |r| of a sample's outputs."""
    threshold = numbers[0]
    for i in range(predictions.shape[0]):
        values[i] = 0.0
        for c in range(predictions.shape[1]):
            size = abs(predictions[i, c] - targets[i, c])
            values[i] = max(values[i], 1.0 if size <= threshold else threshold / size)


@inline_always
def _signed(prediction: float, target: float) -> float:
    return prediction if target > 0.5 else -prediction


@inline_always
def _sigmoid(value: float) -> float:
    # The exponent is never positive: no overflow for any |f|.
    if value >= 0.0:
        return 1.0 / (1.0 + math.exp(-value))
    small = math.exp(value)
    return small / (1.0 + small)


@njit_no_refcount
def logistic_values(numbers: Array, predictions: Array, targets: Array, values: Array) -> None:
    """Evaluate log(1 + exp(-s f))."""
    for i in range(predictions.shape[0]):
        margin = _signed(predictions[i, 0], targets[i, 0])
        values[i] = max(0.0, -margin) + math.log1p(math.exp(-abs(margin)))


@njit_no_refcount
def logistic_derivatives(numbers: Array, predictions: Array, targets: Array, slopes: Array) -> None:
    """Evaluate -s / (1 + exp(s f))."""
    for i in range(predictions.shape[0]):
        margin = _signed(predictions[i, 0], targets[i, 0])
        slopes[i, 0] = -_signed(_sigmoid(-margin), targets[i, 0])


@njit_no_refcount
def _secant(margin: float) -> float:
    """Evaluate tanh(m / 2) / (2 m), 1/4 at 0: the quadratic of this curvature that touches log(1 + exp(-m)) at m and
    at -m lies above it everywhere (Jaakkola and Jordan, Statistics and Computing 10, 2000)."""
    size = abs(margin)
    # Below 1e-4 the next term of the series, m^2 / 48, is lost in rounding.
    return 0.25 if size < 1e-4 else math.tanh(0.5 * size) / (2.0 * size)


@njit_no_refcount
def logistic_curvatures(numbers: ReadOnly, predictions: ReadOnly, targets: ReadOnly, values: Array) -> None:
    """Evaluate tanh(f / 2) / (2 f)."""
    for i in range(predictions.shape[0]):
        values[i] = _secant(predictions[i, 0])


@cached_njit
def logistic_probabilities(predictions: ReadOnly) -> Array:
    """Evaluate 1 / (1 + exp(f)) and 1 / (1 + exp(-f))."""
    probabilities = np.empty((predictions.shape[0], 2))
    for i in range(predictions.shape[0]):
        probabilities[i, 0] = _sigmoid(-predictions[i, 0])
        probabilities[i, 1] = _sigmoid(predictions[i, 0])
    return probabilities


@njit_no_refcount
def hinge_values(numbers: Array, predictions: Array, targets: Array, values: Array) -> None:
    """Evaluate max(0, 1 - s f)."""
    for i in range(predictions.shape[0]):
        values[i] = max(0.0, 1.0 - _signed(predictions[i, 0], targets[i, 0]))


@njit_no_refcount
def hinge_derivatives(numbers: Array, predictions: Array, targets: Array, slopes: Array) -> None:
    """Evaluate -s if s f < 1, else 0."""
    slopes[:] = 0.0
    for i in range(predictions.shape[0]):
        if not _signed(predictions[i, 0], targets[i, 0]) >= 1.0:
            slopes[i, 0] = -_signed(1.0, targets[i, 0])


@inline_always
def _label(predictions: Array, targets: Array, i: int) -> int:
    label = int(targets[i, 0])
    if label < 0 or label >= predictions.shape[1]:
        # Compiled code would read and write outside the array.
        raise ValueError("class index outside 0 .. classes - 1: number the classes from 0")
    return label


@inline_always
def _best(predictions: Array, i: int, excluded: int) -> int:
    best = 1 if excluded == 0 else 0
    for c in range(best + 1, predictions.shape[1]):
        if c != excluded and predictions[i, c] > predictions[i, best]:
            best = c
    return best


@njit_no_refcount
def multiclass_logistic_values(numbers: Array, predictions: Array, targets: Array, values: Array) -> None:
    """Evaluate log(sum_c exp(f_c)) - f_y (POLK eq. 28)."""
    for i in range(predictions.shape[0]):
        label = _label(predictions, targets, i)
        top = _best(predictions, i, -1)
        others = 0.0
        for c in range(predictions.shape[1]):
            if c != top:
                others += math.exp(predictions[i, c] - predictions[i, top])
        # log(1 + others), not log of the sum: a confident right answer keeps its small positive loss.
        values[i] = (predictions[i, top] - predictions[i, label]) + math.log1p(others)


@inline_always
def _softmax(predictions: Array, probabilities: Array) -> None:
    """Evaluate exp(f_c) / sum_k exp(f_k)."""
    for i in range(predictions.shape[0]):
        top = predictions[i, _best(predictions, i, -1)]
        total = 0.0
        for c in range(predictions.shape[1]):
            probabilities[i, c] = math.exp(predictions[i, c] - top)
            total += probabilities[i, c]
        for c in range(predictions.shape[1]):
            probabilities[i, c] /= total


@cached_njit
def softmax(predictions: ReadOnly) -> Array:
    """Evaluate exp(f_c) / sum_k exp(f_k), the probability of each class."""
    probabilities = np.empty(predictions.shape)
    _softmax(predictions, probabilities)
    return probabilities


@njit_no_refcount
def multiclass_logistic_derivatives(numbers: Array, predictions: Array, targets: Array, slopes: Array) -> None:
    """Evaluate softmax(f) - e_y."""
    _softmax(predictions, slopes)
    for i in range(predictions.shape[0]):
        label = _label(predictions, targets, i)
        # q_y - 1 as minus the other probabilities: q_y rounds to 1 long before the slope vanishes.
        others = 0.0
        for c in range(predictions.shape[1]):
            if c != label:
                others += slopes[i, c]
        slopes[i, label] = -others


@njit_no_refcount
def multiclass_logistic_curvatures(numbers: ReadOnly, predictions: ReadOnly, targets: ReadOnly, values: Array) -> None:
    """Evaluate tanh(m / 2) / m with the log odds m of the sample's class against all others: twice the secant of m,
    since a step moves the class up and the others down."""
    for i in range(predictions.shape[0]):
        label = _label(predictions, targets, i)
        rival = _best(predictions, i, label)
        others = 0.0
        for c in range(predictions.shape[1]):
            if c != label:
                others += math.exp(predictions[i, c] - predictions[i, rival])
        values[i] = 2.0 * _secant((predictions[i, label] - predictions[i, rival]) - math.log(others))


@njit_no_refcount
def multiclass_hinge_values(numbers: Array, predictions: Array, targets: Array, values: Array) -> None:
    """Evaluate max(0, 1 + f_r - f_y), r the best wrong class (POLK eq. 26)."""
    for i in range(predictions.shape[0]):
        label = _label(predictions, targets, i)
        rival = _best(predictions, i, label)
        # The difference is computed first, as below, so that the loss is positive exactly if its derivative is not 0.
        values[i] = max(0.0, 1.0 - (predictions[i, label] - predictions[i, rival]))


@njit_no_refcount
def multiclass_hinge_derivatives(numbers: Array, predictions: Array, targets: Array, slopes: Array) -> None:
    """Evaluate e_r - e_y if f_y - f_r < 1, else 0."""
    slopes[:] = 0.0
    for i in range(predictions.shape[0]):
        label = _label(predictions, targets, i)
        rival = _best(predictions, i, label)
        if not predictions[i, label] - predictions[i, rival] >= 1.0:
            slopes[i, rival] = 1.0
            slopes[i, label] = -1.0
