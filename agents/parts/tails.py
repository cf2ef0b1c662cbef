"""Columns of a sample with heavy tails, and the gain in likelihood by their logarithms."""

import numpy as np
from scipy.special import ndtri

from kernelswarm.agents.parts.bandwidths import deviations, median_distance
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.sample import RIDGE
from kernelswarm.agents.parts.trends import least_surprise
from kernelswarm.arrays import Array

HEAVY = 8.0
"""A tail is heavy if the 99th percentile of distances from the median is more than this multiple of their median. The
multiple is 3.8 for a normal distribution, 6.6 for an exponential one, 15 for a log-normal one."""

ASKEW = 3.0
"""If a column extends this many times farther to one side of the median than to the other, logarithms start at the near
end."""

FEWEST, RARE = 60, 0.1
"""The smallest number of rows to detect tails, and the smallest fraction of rows that differ from the median; fewer
differing rows are rare events of any size."""

GAIN = 0.1
"""The least gain by logarithms in twice the log likelihood per row, which corresponds to a tenth of the noise variance.
For data with true logarithms the gain was .12 to .7, on other benchmark sets at most .09. For affine targets of inputs
with heavy tails it was up to .4, so that the leave-one-out error must also decrease."""

WIDTH = 0.6
"""The length of the kernel for this comparison, as a multiple of the median distance."""


def found(points: Array) -> tuple[Array, Array] | None:
    """Return the middle and the unit of each column's logarithm, (p,) each; None if no column has a heavy tail.

    A column with heavy tails is replaced by ``sign(d) log(1 + |d| / unit)`` with ``d = x - middle``. The unit is the
    median of the nonzero ``|d|``, so that the result does not depend on the unit of the data. It is 0 for other
    columns.
    """
    middle, unit = np.zeros((2, points.shape[1]))
    if len(points) < FEWEST:
        return None
    quantiles = np.quantile(points, [0.05, 0.5, 0.95], axis=0).T
    for k, (column, (low, center, high)) in enumerate(zip(points.T, quantiles, strict=True)):
        far = np.abs(column - center)
        far = far[far > 0.0]
        if len(far) < RARE * len(column):
            continue
        usual, largest = np.quantile(far, [0.5, 0.99])
        if not largest > HEAVY * usual:
            continue
        if high - center > ASKEW * (center - low):
            center = column.min()
        elif center - low > ASKEW * (high - center):
            center = column.max()
        far = np.abs(column - center)
        middle[k], unit[k] = center, np.median(far[far > 0.0])
    return (middle, unit) if unit.any() else None


def promise(points: Array, bent: Array, values: Array) -> float:
    """Compute the gain by logarithms in twice the log likelihood of values (n, C), per value.

    A Gaussian process with one length on standardised columns is compared for the original points (n, p) and the
    transformed points ``bent``. Its values are normal scores of the targets, which depend on their order alone.
    Otherwise the few largest of heavy-tailed targets would dominate the comparison.
    """
    scores = np.empty(values.shape)
    for c, column in enumerate(values.T):
        _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
        scores[:, c] = ndtri((np.cumsum(counts) - 0.5 * counts) / len(column))[places]
    surprises = []
    for each in (points, bent):
        deviation = deviations(each)
        scaled = (each - each.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
        kernel = Gaussian(WIDTH * median_distance(scaled))
        surprises.append(least_surprise(kernel.cross(scaled, scaled), scores))
    return (surprises[0] - surprises[1]) / values.size


def error_left_out(gram: Array, values: Array) -> float:
    """Compute the mean squared leave-one-out error of kernel ridge regression.

    The leave-one-out residuals are ``[inv(K + r I) Y]_n / [inv(K + r I)]_nn``.
    """
    inverse = np.linalg.inv(gram + RIDGE * np.mean(np.diag(gram)) * np.eye(len(gram)))
    return float(np.mean((inverse @ values / np.diag(inverse)[:, np.newaxis]) ** 2))
