"""Values of functions that are linear in features."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions import combination

Array = npt.NDArray[np.float64]


def combine(features: Array, coefficients: Array) -> Array:
    """Evaluate from the features (n, L) and their weights (L, C): (n, C)."""
    values = np.empty((len(features), coefficients.shape[1]))
    combination.combine(ready(features), ready(coefficients), len(coefficients), values)
    return values


def ready(array: Array) -> Array:
    """Return an array as compiled code takes it: in memory of its own where it is mapped, or may not be written.

    What is read back from a file that is mapped, or comes from another process, may not be written.
    """
    flags = array.flags  # numpy's own ``require`` takes longer than the values of a line
    return array if type(array) is np.ndarray and flags.c_contiguous and flags.writeable else np.array(array, order="C")
