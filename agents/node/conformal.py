"""A conformal band around a node's predictions, which its own stream keeps at the level that is asked for.

Scores are ``|y - f(x)|`` before the step. The band at round t is ``f(x) +- s_t exp(u_t)``, with s_t a running mean of
the scores, that follows the function as it gets better and the target as it moves, and u_t adapted as in adaptive
conformal inference (Gibbs and Candes 2021), by what share e_t of the round's samples lay outside:

    u_{t+1} = u_t + g_t (e_t - (1 - level))

Summed up, the share outside differs from 1 - level by ``(u_T - u_1) / (g T)`` once g_t is constant. That vanishes
whatever the targets do, as long as scores stay within bounds of their mean.
"""

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, cached_njit

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

SCALE, LOGARITHM, INSIDE, SAID, SEEN = range(5)
"""The columns of a band, (C, 5), one row for each output: s_t, u_t, the samples that lay inside, all of which something
was said before they came, and all that came."""

LEAST_GAIN, LARGEST_GAIN, GAIN = 0.03, 0.3, 3.0
"""g_t is GAIN / t within these: the slope of the share outside by u_t is about 1/3 at the level 0.9 of Gaussian scores,
so that this is the fastest way to a constant, and the least of them follows what moves within some hundred rounds."""

LEAST_SHARE = 0.02
"""What a round counts in s_t at least; at first 2 / (t + 1)."""


def nothing_said(outputs: int) -> Array:
    """Return the band before the first round, (C, 5)."""
    return np.zeros((outputs, 5))


def first_logarithm(level: float) -> float:
    """Return u_1, for which the band is right where scores are Gaussian: half width over mean score."""
    return math.log(NormalDist().inv_cdf(0.5 + 0.5 * level) / math.sqrt(2.0 / math.pi))


def radii(band: Array) -> Array:
    """Return half the width of the band of each output, (C,), in the learner's units; NaN before the first round."""
    said = band[:, SAID] + band[:, SCALE] > 0.0
    return np.where(said, band[:, SCALE] * np.exp(band[:, LOGARITHM]), np.nan)


def coverage(band: Array) -> float:
    """Return what share of all samples so far lay within the band that was said before they came; NaN without any."""
    said = float(band[:, SAID].sum())
    return float(band[:, INSIDE].sum()) / said if said else math.nan


@cached_njit
def follow(
    band: Array, values: ReadOnly, targets: ReadOnly, level: float, first: float, new: float, rounds: int
) -> None:
    """Take the samples of one round, or of several, into the band.

    Parameters
    ----------
    band : Array
        (C, 5), changed.
    values, targets : Array
        (n, C) predictions before the step, and what came; of several rounds those of as many samples each, one behind
        the other.
    level : float
        The share of samples that should lie inside.
    first : float
        u_1.
    new : float
        The samples of the node that differ. Rows that come again say nothing: a function that knows them errs less
        there than elsewhere, and the band stays as the first time left it.
    rounds : int
        How many rounds these are.
    """
    size = len(values) // rounds
    for t in range(rounds):
        for c in range(band.shape[0]):
            row = band[c]
            radius = row[SCALE] * math.exp(row[LOGARITHM])
            outside, total = 0, 0.0
            for n in range(t * size, (t + 1) * size):
                score = abs(targets[n, c] - values[n, c])
                total += score
                outside += score > radius
            begun = row[SAID] > 0.0 or row[SCALE] > 0.0
            row[SEEN] += size
            if row[SEEN] > new:
                continue
            step = row[SAID] / size + 1.0  # the rounds of which something was said, and this one
            if begun:
                gain = min(max(GAIN / step, LEAST_GAIN), LARGEST_GAIN)
                row[LOGARITHM] += gain * (outside / size - (1.0 - level))
                row[INSIDE] += size - outside
                row[SAID] += size
                row[SCALE] += max(2.0 / (step + 2.0), LEAST_SHARE) * (total / size - row[SCALE])
            else:
                row[LOGARITHM], row[SCALE] = first, total / size
