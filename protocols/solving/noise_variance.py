"""The variance of the targets' noise as a node learns it from its own samples, in compiled code.

Each step tells the mean square of what samples differ by from their predictions, in units in which a right model leaves
the noise's variance. The first ones differ by the function too, which is not known yet, so that later ones count more:
the mean of n steps has weights that grow as 1, 2, ..., n. Rows that come again differ by less than the noise from a
function that knows them: where finite data are seen several times the first time counts alone.
"""

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, cached_njit, inline_always

Array = npt.NDArray[np.float64]

MEAN, STEPS, MOST = 0, 1, 2
"""The rows of the estimate, (3, C): the mean so far; in its first entry the number of steps in the mean; and likewise
the largest such number, 0 where no row is repeated."""

ROWS = 3


@inline_always
def all_learned(carried: ReadOnly) -> bool:
    """Tell whether steps no longer count for the noise, since their rows are repeated."""
    return bool(0.0 < carried[MOST, 0] <= carried[STEPS, 0])


@cached_njit
def learn_noise(noise: Array, errors: ReadOnly, scales: ReadOnly, forgotten: float) -> None:
    """Take the errors (n, C) of one step into the mean; nothing happens without any.

    Parameters
    ----------
    noise : Array
        (3, C), changed.
    errors : Array
        (n, C), each over its deviation for noise of variance 1.
    scales : Array
        (n,), divisors of the squares of the errors.
    forgotten : float
        The least weight of a step in the mean; 0 without forgetting.
    """
    count = len(scales)
    if count == 0 or all_learned(noise):
        return
    noise[STEPS, 0] += 1.0
    share = max(2.0 / (noise[STEPS, 0] + 1.0), forgotten)
    for c in range(noise.shape[1]):
        total = 0.0
        for n in range(count):
            total += errors[n, c] * errors[n, c] / scales[n]
        noise[MEAN, c] += share * (total / count - noise[MEAN, c])


@cached_njit
def take_over(noise: Array, recent: ReadOnly) -> None:
    """Replace the mean by one of fewer steps, unless rows are repeated; the number of steps left does not change."""
    if all_learned(noise):
        return
    if noise[MOST, 0] > 0.0:
        noise[MOST, 0] += recent[STEPS, 0] - noise[STEPS, 0]
    noise[STEPS, 0] = recent[STEPS, 0]
    for c in range(noise.shape[1]):
        noise[MEAN, c] = recent[MEAN, c]


def learn_at_most(carried: Array, steps: float) -> None:
    """Set the number of steps, at least 1, that count for the noise; infinity sets no bound."""
    carried[MOST, 0] = max(steps, 1.0) if steps < np.inf else 0.0


def noise_of(carried: ReadOnly) -> Array:
    """Return the noise's variance of each output, (C,); NaN before the first step."""
    return carried[MEAN].copy() if carried[STEPS, 0] > 0.0 else np.full(carried.shape[1], np.nan)
