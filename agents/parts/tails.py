"""Columns of a sample that have heavy tails, and whether their logarithms make the targets likelier."""

import numpy as np
from scipy.special import ndtri

from kernelswarm.agents.parts.bandwidths import deviations, median_distance
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.sample import RIDGE
from kernelswarm.agents.parts.trends import least_surprise
from kernelswarm.arrays import Array

HEAVY = 8.0
"""The 99th percentile of distances from the median over their median, from which on a tail is heavy: 3.8 of a normal
distribution, 6.6 of an exponential one, 15 of a log-normal one."""

ASKEW = 3.0
"""So many times as far to one side of the median as to the other, and logarithms begin at the near end."""

FEWEST, RARE = 60, 0.1
"""Rows that tell of tails, and the share of them that differs from the median: fewer are rare events of any size."""

GAIN = 0.1
"""What logarithms must gain, in twice the logarithm of the likelihood of a row: a tenth of the noise's variance. Where
they are the truth it was .12 to .7, on other benchmark sets up to .09. Affine targets of inputs with heavy tails
reached .4, so that rows left out must err less as well."""

WIDTH = 0.6
"""Of the median distance: the length of the kernel that asks."""


def found(points: Array) -> tuple[Array, Array] | None:
    """Return where the logarithm of each column begins, and its unit, (p,) each; None where no column's tail is heavy.

    A column of heavy tails becomes ``sign(d) log(1 + |d| / unit)`` with ``d = x - middle``. The unit is the median of
    ``|d|`` over the rows where it is not 0, so that it changes with the data's, and 0 of other columns.
    """
    middle, unit = np.zeros((2, points.shape[1]))
    for k, column in enumerate(points.T if len(points) >= FEWEST else ()):
        low, center, high = np.quantile(column, [0.05, 0.5, 0.95])
        far = np.abs(column - center)
        far = far[far > 0.0]
        if len(far) < RARE * len(column) or not np.quantile(far, 0.99) > HEAVY * np.median(far):
            continue
        if high - center > ASKEW * (center - low):
            center = column.min()
        elif center - low > ASKEW * (high - center):
            center = column.max()
        far = np.abs(column - center)
        middle[k], unit[k] = center, np.median(far[far > 0.0])
    return (middle, unit) if unit.any() else None


def promise(points: Array, bent: Array, values: Array) -> float:
    """Compute what logarithms gain in twice the logarithm of the likelihood of values (n, C), for each of them.

    A Gaussian process of one length on columns of deviation 1 is compared at points (n, p) as they are and ``bent``.
    Its values are normal scores, which depend on the order alone: the few largest of heavy-tailed targets, which decide
    their variance, would else decide what inputs are likely.
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
    """Compute the mean squared error of kernel ridge regression at rows that are left out, ``[inv(K + r I) Y]_n`` over
    ``[inv(K + r I)]_nn``."""
    inverse = np.linalg.inv(gram + RIDGE * np.mean(np.diag(gram)) * np.eye(len(gram)))
    return float(np.mean((inverse @ values / np.diag(inverse)[:, np.newaxis]) ** 2))
