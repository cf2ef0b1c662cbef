"""The contract of a local learner: what a node needs from it, alone or in a network."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.expansion import Expansion
from kernelswarm.agents.losses import Loss

Array = npt.NDArray[np.float64]


class Evaluation(NamedTuple):
    """A function's values at some points, with what the step at those points would otherwise compute again."""

    points: Array  # (n, p)
    rows: Array  # (n, M) kernel rows, or the learner's own features
    values: Array  # (n, C)


class Info(NamedTuple):
    """What a step reports beside the state."""

    compression_error: float  # Hilbert norm
    step_size: float


class Learner(Protocol):
    """A local learner: configuration only; ``init`` makes the state, and ``step`` advances that state in place."""

    batch_size: int
    loss: Loss

    def init(self, inputs: int, outputs: int) -> Any:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        ...

    def eta(self, state: Any) -> float:
        """Return the step size of the step to come."""
        ...

    def evaluate(self, state: Any, points: Array) -> Evaluation:
        """Evaluate the current function at ``points`` (n, p)."""
        ...

    def gradient(self, state: Any, own: Evaluation, targets: Array) -> Array:
        """Return the local risk's gradient coefficients at the node's own samples, (n, C), not averaged."""
        ...

    def step(
        self,
        state: Any,
        evaluations: Sequence[Evaluation],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)``.

        With ``curvatures``, one for each set of points, the step is implicit in the coupling and in a quadratic loss.
        """
        ...

    def expansion(self, state: Any) -> Expansion:
        """Return the current function."""
        ...
