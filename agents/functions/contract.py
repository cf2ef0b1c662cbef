"""The contract of a learned function: it is evaluated, saved and compared."""

from collections.abc import Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from kernelswarm.arrays import Array


class Function(Protocol):
    """A function of ``inputs`` numbers with ``outputs`` values, whatever it is made of."""

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
        """The model order: how many dictionary points, features or inputs the function is a combination of."""
        ...

    @property
    def weights(self) -> Array:
        """The weights of the combination, one row for each of them, (order, C)."""
        ...

    def values(self, points: Array) -> Array:
        """Evaluate the function at ``points`` (n, p): (n, C)."""
        ...

    def arrays(self) -> dict[str, Array]:
        """Return all that the function is made of beside its learner's configuration, by the names it is saved under.

        Saved arrays must not change when the learner goes on, so arrays that it writes to are copied.
        """
        ...

    def distance(self, other: Any) -> float:
        """Compute ``||f - g||`` in the space of both functions; NaN where they have no space in common."""
        ...


@runtime_checkable
class Featured(Function, Protocol):
    """A function that is linear in features, which others may have too."""

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
    """A function of a linear space: a weighted mean of several is again one of its kind."""

    def averaged(self, others: "Sequence[Self]", shares: Array) -> Function:
        """Return ``q_0 f + sum_k q_k g_k`` with the shares q (1 + K,) and the K others, which no step changes."""
        ...


def dictionary(function: Function) -> Array:
    """Return the points that a function is written in, (M, p); none, (0, p), where it is written in features."""
    points: Array | None = getattr(function, "points", None)
    return np.zeros((0, function.inputs)) if points is None else points
