"""The variance of the targets' noise as a node learns it from its own samples, in compiled code.

Each step tells the mean square of what samples differ by from their predictions, in units in which a right model leaves
the noise's variance. The first ones differ by the function too, which is not known yet, so that later ones count more:
the mean of n steps has weights that grow as 1, 2, ..., n.
"""

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, cached_njit

Array = npt.NDArray[np.float64]

MEAN, STEPS = 0, 1
"""The rows of what is carried, (2, C): the mean so far, and, in its first entry, the steps that it is of."""


@cached_njit
def learn_noise(noise: Array, errors: ReadOnly, scales: ReadOnly, forgotten: float) -> None:
    """Take the errors (n, C) of one step into the mean; nothing happens without any.

    Parameters
    ----------
    noise : Array
        (2, C), changed.
    errors : Array
        (n, C), each over the deviation that it has for noise of variance 1.
    scales : Array
        (n,), what the squares of the errors are divided by.
    forgotten : float
        What a step takes from those before it, at least; 0 where nothing is forgotten.
    """
    count = len(scales)
    if count == 0:
        return
    noise[STEPS, 0] += 1.0
    share = max(2.0 / (noise[STEPS, 0] + 1.0), forgotten)
    for c in range(noise.shape[1]):
        total = 0.0
        for n in range(count):
            total += errors[n, c] * errors[n, c] / scales[n]
        noise[MEAN, c] += share * (total / count - noise[MEAN, c])


def noise_of(carried: ReadOnly) -> Array:
    """Return the noise's variance of each output, (C,); NaN before the first step."""
    return carried[MEAN].copy() if carried[STEPS, 0] > 0.0 else np.full(carried.shape[1], np.nan)
