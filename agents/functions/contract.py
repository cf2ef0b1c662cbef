"""The interface of learned functions: evaluation, saving and comparison."""

from collections.abc import Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from kernelswarm.arrays import Array


class Function(Protocol):
    """A function of ``inputs`` numbers with ``outputs`` values, in any representation."""

    @property
    def inputs(self) -> int:
        """The dimension p of a point."""
        ...

    @property
    def outputs(self) -> int:
        """The number C of values."""
        ...

    @property
    def order(self) -> int:
        """The model order: the number of dictionary points, features or inputs that the function combines."""
        ...

    @property
    def weights(self) -> Array:
        """The weights of the combination, (order, C)."""
        ...

    def values(self, points: Array) -> Array:
        """Evaluate the function at ``points`` (n, p): (n, C)."""
        ...

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that define the function together with its learner's configuration, by their saved names.

        Saved arrays must not change when the learner continues, so arrays that it writes to are copied.
        """
        ...

    def distance(self, other: Any) -> float:
        """Compute ``||f - g||`` in the space of both functions; NaN if they have no common space."""
        ...


@runtime_checkable
class Featured(Function, Protocol):
    """A function that is linear in features, which it may share with other functions."""

    def shares_features(self, other: Any) -> bool:
        """Return whether another function is linear in the same features."""
        ...

    def features(self, points: Array) -> Array:
        """Compute the features of ``points`` (n, p): (n, L)."""
        ...

    def combined(self, features: Array) -> Array:
        """Compute the values (n, C) of points with these features, (n, L)."""
        ...


@runtime_checkable
class Averageable(Function, Protocol):
    """A function of a linear space: a weighted mean of such functions is again such a function."""

    def averaged(self, others: "Sequence[Self]", shares: Array) -> Function:
        """Return ``q_0 f + sum_k q_k g_k`` with shares q (1 + K,) and K other functions; no step changes the result."""
        ...


def dictionary(function: Function) -> Array:
    """Return the dictionary points of a function, (M, p); (0, p) for a function of features."""
    points: Array | None = getattr(function, "points", None)
    return np.zeros((0, function.inputs)) if points is None else points
