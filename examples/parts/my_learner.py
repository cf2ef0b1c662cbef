"""A learner that is linear in features of its own."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelswarm.agents.functions.kernel_sum import combine
from kernelswarm.agents.learners.linear_in_features import FeatureState, LinearInFeatures


class QuadraticFunction:
    """f(x) = W' phi(x), where phi(x) has the inputs, the products of any two of them, and a 1."""

    def __init__(self, coefficients, inputs):
        self.coefficients = self.weights = coefficients  # W, (L, C): the steps write to it
        self.inputs, self.outputs = inputs, coefficients.shape[1]
        self.order, self.shrunk = len(coefficients), len(coefficients) - 1  # the last, of the 1, is not regularised

    def features(self, points):  # (n, p) -> (n, L)
        first, second = np.triu_indices(self.inputs)
        return np.column_stack([points, points[:, first] * points[:, second], np.ones(len(points))])

    def values(self, points):
        return combine(self.features(points), self.coefficients)

    def arrays(self):
        return {"weights": self.coefficients.copy(), "inputs": np.array(float(self.inputs))}

    def distance(self, other):
        return float(np.linalg.norm(self.coefficients - other.coefficients))


@dataclass(frozen=True)
class Quadratic(LinearInFeatures):
    gain: ClassVar[None] = None  # ||phi(x)||^2 has no bound

    def init(self, inputs, outputs):
        return FeatureState(QuadraticFunction(np.zeros((inputs + inputs * (inputs + 1) // 2 + 1, outputs)), inputs))

    def function_from(self, arrays):
        return QuadraticFunction(arrays["weights"], int(arrays["inputs"]))
