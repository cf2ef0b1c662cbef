"""A function that is linear in the features of a subspace of a Hilbert space."""

import math

import numpy as np

from kernelswarm.agents.arithmetic.subspace_updates import coordinates, mix
from kernelswarm.agents.functions.kernel_sum import combine
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.plain_parts import kernel_rows
from kernelswarm.arrays import Array


class SubspaceFunction:
    """The function ``f(x) = w' z(x)`` with ``z(x) = G' A' k_S(x)``: ``sum_s alpha_s kappa(s, x)`` with alpha = A G w.

    Parameters
    ----------
    kernel : Kernel
        kappa.
    points : Array
        S, (m, p).
    basis : Array
        A, (m, r).
    mixing : Array
        G, (r, w); w is r, or m if there is a feature for each point.
    coefficients : Array
        The weights, (w, C).
    """

    __slots__ = ("basis", "coefficients", "inputs", "kernel", "mixing", "outputs", "points")

    def __init__(self, kernel: Kernel, points: Array, basis: Array, mixing: Array, coefficients: Array) -> None:
        self.kernel = kernel
        self.points = points
        self.basis = basis
        self.mixing = mixing
        self.coefficients = coefficients
        self.inputs = int(points.shape[1])
        self.outputs = int(coefficients.shape[1])

    @property
    def order(self) -> int:
        return len(self.points)

    @property
    def shrunk(self) -> int:
        """All features are regularised."""
        return len(self.coefficients)

    @property
    def weights(self) -> Array:
        """The weights ``alpha = A G w`` of the stored points, (m, C)."""
        weights: Array = self.basis @ (self.mixing @ self.coefficients)
        return weights

    def features(self, points: Array) -> Array:
        """Compute z at ``points`` (n, p): (n, w)."""
        products = np.empty((len(points), self.basis.shape[1]))
        coordinates(kernel_rows(self.kernel, points, self.points), self.basis, len(self.basis), products)
        features: Array = mix(products, self.mixing)
        return features

    def values(self, points: Array) -> Array:
        """Evaluate f at ``points`` (n, p): (n, C)."""
        values: Array = combine(self.features(points), self.coefficients)
        return values

    def arrays(self) -> dict[str, Array]:
        """Return ``points`` (m, p), ``basis`` (m, r), ``mixing`` (r, w) and ``coefficients`` (w, C), copied."""
        names = ("points", "basis", "mixing", "coefficients")
        return {name: getattr(self, name).copy() for name in names}

    def inner(self, other: "SubspaceFunction") -> float:
        """Compute the Hilbert inner product ``<f, g>``, summed over the outputs."""
        return float(np.sum(self.weights * (kernel_rows(self.kernel, self.points, other.points) @ other.weights)))

    def distance(self, other: object) -> float:
        """Compute the Hilbert distance ``||f - g||`` of functions on any two subspaces; NaN if the kernels differ."""
        if not isinstance(other, SubspaceFunction) or self.kernel != other.kernel:
            return math.nan
        return math.sqrt(max(self.inner(self) - 2.0 * self.inner(other) + other.inner(other), 0.0))
