"""Values of functions that are linear in features."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic import komp

Array = npt.NDArray[np.float64]


def combine(features: Array, coefficients: Array) -> Array:
    """Evaluate from the features (n, L) and their weights (L, C): (n, C)."""
    values = np.empty((len(features), coefficients.shape[1]))
    komp.combine(np.require(features, requirements=["C", "W"]), coefficients, len(coefficients), values)
    return values
