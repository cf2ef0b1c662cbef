"""Values of functions that are linear in features."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions import combination

Array = npt.NDArray[np.float64]


def combine(features: Array, coefficients: Array) -> Array:
    """Evaluate from the features (n, L) and their weights (L, C): (n, C)."""
    values = np.empty((len(features), coefficients.shape[1]))
    features, coefficients = (np.require(array, requirements=["C", "W"]) for array in (features, coefficients))
    combination.combine(features, coefficients, len(coefficients), values)
    return values
