"""Values of functions that are linear in features."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions import combination

Array = npt.NDArray[np.float64]


def combine(features: Array, coefficients: Array) -> Array:
    """Evaluate from the features (n, L) and their weights (L, C): (n, C)."""
    values = np.empty((len(features), coefficients.shape[1]))
    combination.combine(_ready(features), _ready(coefficients), len(coefficients), values)
    return values


def _ready(array: Array) -> Array:
    """Return an array as compiled code takes it; numpy's own ``require`` takes longer than the values of a line."""
    return array if array.flags.c_contiguous and array.flags.writeable else np.require(array, requirements=["C", "W"])
