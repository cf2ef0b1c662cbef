"""Conformal band around a node's predictions, kept at a requested level by the node's own stream.

Scores are ``|y - f(x)|`` before the step. The band at round t is ``f(x) +- s_t exp(u_t)``. s_t is a running mean of the
scores, so it follows the improving function and a moving target. u_t is adapted as in adaptive conformal inference
(Gibbs and Candes 2021), with e_t the share of the round's samples outside:

    u_{t+1} = u_t + g_t (e_t - (1 - level))

Summed over rounds, the share outside differs from 1 - level by ``(u_T - u_1) / (g T)`` once g_t is constant. For any
targets this vanishes, as long as scores stay within bounds of their mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit

LONG_LOOPS = True

SCALE, LOGARITHM, INSIDE, BANDED, SEEN = range(5)
"""The columns of a band, (C, 5), with one row per output: s_t, u_t, the samples inside, the samples with a band before
their step, and all samples."""

RATIO, SQUARE, WEIGHTS, OFFSET, AGREED_SCALE, AGREED_LOGARITHM, COMPARED = range(5, 12)
"""Seven more columns of a pooled band, see :mod:`kernelswarm.agents.nodes.pooled_bands`: the means of own scores over
s_t and of their squares, the sum of the squared weights of these means, d_t, s_t and u_t at the last average, and the
number of rounds in these means. All are 0, and the band is the node's own, until a message of a neighbour arrives."""

LEAST_GAIN, LARGEST_GAIN, GAIN = 0.03, 0.3, 8.0
"""g_t is GAIN / t within these limits. At level 0.9 and for Gaussian scores, the derivative of the share outside by u_t
is about 1/3, so 3 / t converges fastest to a constant. But while a function learns, s_t lags behind its errors and u_t
falls. When u_t rises again, each step of 1 costs 1 / g_t samples outside, and 3 / t is at the minimum by then."""

LEAST_SHARE = 0.02
"""Minimum weight of a round in s_t; at first the weight is 3 / (t + 3), since a mean with weights 1 / t lags twice as
far behind shrinking errors."""

LEAST_OWN_SHARE, LEAST_ROUNDS, ERRORS = 0.005, 5.0, 2.0
"""Minimum weight of a round in the means of own scores over s_t, at first 3 / (t + 2); minimum number of rounds, by
equal weights, and of standard errors from 1, for using these means. With weights 1 / t, nodes with different noise
would hold on to early errors, which are similar at all nodes: off by .065 instead of .035 after 100 rounds."""

OWN_GAIN = 0.1
"""The gain of d_t relative to the gain of u_t."""


def empty_band(outputs: int, level: float, pooled: bool = False) -> Array:
    """Return the band before the first round, (C, 5), or (C, 12) if pooled."""
    band = np.zeros((outputs, 12 if pooled else 5))
    band[:, LOGARITHM] = first_logarithm(level)
    return band


def first_logarithm(level: float) -> float:
    """Return u_1, the logarithm of half width over mean score for Gaussian scores."""
    return math.log(NormalDist().inv_cdf(0.5 + 0.5 * level) / math.sqrt(2.0 / math.pi))


def radii(band: Array) -> Array:
    """Return the half width of the band of each output, (C,), in the learner's units; NaN before the first round."""
    known = band[:, BANDED] + band[:, SCALE] > 0.0
    band = band.copy()
    if band.shape[1] > SEEN + 1:  # the node's last step is in its next message, not yet in its band
        agreed = band[:, AGREED_SCALE] > 0.0
        band[agreed, SCALE], band[agreed, LOGARITHM] = band[agreed, AGREED_SCALE], band[agreed, AGREED_LOGARITHM]
    return np.where(known, [radius(row) for row in band], np.nan)


def coverage(band: Array) -> float:
    """Return the share of samples so far that were inside the band before their step; NaN without samples."""
    banded = float(band[:, BANDED].sum())
    return float(band[:, INSIDE].sum()) / banded if banded else math.nan


@cached_njit
def radius(row: ReadOnly) -> float:
    """Compute the half width of the band of one output: ``s exp(u)``, or ``s r exp(u + d)`` if pooled."""
    if len(row) == SEEN + 1:
        return float(row[SCALE]) * math.exp(row[LOGARITHM])
    return float(row[SCALE]) * own_ratio(row) * math.exp(row[LOGARITHM] + row[OFFSET])


@cached_njit
def own_ratio(row: ReadOnly) -> float:
    """Compute r, the ratio of own scores to the network's; 1 if the difference is not significant."""
    weights = row[WEIGHTS] if len(row) > SEEN + 1 else 0.0
    if weights == 0.0 or weights * LEAST_ROUNDS > 1.0:
        return 1.0
    variance = max(0.0, row[SQUARE] - row[RATIO] * row[RATIO])
    error = math.sqrt(variance * weights / (1.0 - weights))
    return row[RATIO] if abs(row[RATIO] - 1.0) > ERRORS * error else 1.0


@cached_njit
def follow(band: Array, values: ReadOnly, targets: ReadOnly, level: float, new: float, rounds: int) -> None:
    """Update the band with the samples of one or several rounds.

    Parameters
    ----------
    band : Array
        (C, 5) or (C, 12), changed.
    values, targets : Array
        (n, C) predictions before the step, and targets; several rounds, with equal numbers of samples, are
        concatenated.
    level : float
        The nominal share of samples inside.
    new : float
        The number of the node's different samples. Repeated samples do not count, since the function has learned from
        them and has smaller errors there.
    rounds : int
        The number of rounds.
    """
    size = len(values) // rounds
    for t in range(rounds):
        for c in range(band.shape[0]):
            row = band[c]
            half = radius(row)
            outside, total = 0, 0.0
            for n in range(t * size, (t + 1) * size):
                score = abs(targets[n, c] - values[n, c])
                total += score
                outside += score > half
            begun = row[BANDED] > 0.0 or row[SCALE] > 0.0
            row[SEEN] += size
            if row[SEEN] > new:
                continue
            step = row[BANDED] / size + 1.0  # the number of rounds with a band before their samples, with this round
            if begun:
                change = min(max(GAIN / step, LEAST_GAIN), LARGEST_GAIN) * (outside / size - (1.0 - level))
                ratio = own_ratio(row)
                row[LOGARITHM] += change
                if len(row) > SEEN + 1 and row[AGREED_SCALE] > 0.0:
                    row[OFFSET] += OWN_GAIN * change
                    _follow_ratio(row, total / size)
                row[INSIDE] += size - outside
                row[BANDED] += size
                row[SCALE] += max(3.0 / (step + 3.0), LEAST_SHARE) * (total / size / ratio - row[SCALE])
            else:
                row[SCALE] = total / size


@cached_njit
def _follow_ratio(row: Array, score: float) -> None:
    """Update the means of own scores over s_t with the mean score of a round."""
    if row[SCALE] <= 0.0:
        return
    row[COMPARED] += 1.0
    share, ratio = max(3.0 / (row[COMPARED] + 2.0), LEAST_OWN_SHARE), score / row[SCALE]
    row[RATIO] += share * (ratio - row[RATIO])
    row[SQUARE] += share * (ratio * ratio - row[SQUARE])
    row[WEIGHTS] = (1.0 - share) ** 2 * row[WEIGHTS] + share * share


# The conformal band of a fixed model: its level and constant width.

NAME = "conformal_band"
"""The name of a band's array in model files."""


@dataclass(frozen=True, eq=False)
class ConstantBand:
    """A band ``f(x) +- radius`` of constant width.

    Parameters
    ----------
    level : float
        The share of targets inside, between 0 and 1.
    radii : Array
        The half width for each output, (C,), in the learner's units.
    """

    level: float
    radii: Array

    def arrays(self) -> dict[str, Array]:
        """Return the level followed by the radii, (1 + C,), by its name in models."""
        return {NAME: np.array([self.level, *self.radii])}

    @classmethod
    def from_arrays(cls, outputs: int, arrays: Mapping[str, Array]) -> ConstantBand:
        """Rebuild the band of a function with ``outputs`` outputs from the result of :meth:`arrays`.

        Raises
        ------
        ValueError
            The array does not have the function's size, or is not a band.

        Examples
        --------
        >>> ConstantBand.from_arrays(1, ConstantBand(0.9, np.array([0.5])).arrays())
        ConstantBand(level=0.9, radii=array([0.5]))
        """
        found = np.asarray(arrays[NAME], dtype=np.float64)
        if found.shape != (1 + outputs,):
            raise ValueError(f"{NAME} has shape {found.shape}, must be {(1 + outputs,)}: a level, and {outputs} radii")
        level, least = float(found[0]), float(found[1:].min())
        if not (0.0 < level < 1.0 and least >= 0.0 and math.isfinite(found.sum())):
            raise ValueError(f"{NAME} = {found.tolist()} must be a level between 0 and 1, and radii of at least 0")
        return cls(level, found[1:])
