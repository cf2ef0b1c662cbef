"""The protocols (structural types) of local learners, alone or in a network."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.schedules import Schedule
from kernelswarm.arrays import Array


class Evaluated(NamedTuple):
    """A function evaluated at some points: its values, and intermediate results for a step at these points."""

    points: Array  # (n, p)
    rows: Array  # (n, M) kernel rows, or the learner's own features
    values: Array  # (n, C)


def together(evaluations: Sequence[Evaluated]) -> Evaluated:
    """Join evaluations of one function."""
    if len(evaluations) == 1:
        return evaluations[0]
    return Evaluated(*(np.concatenate(part) for part in zip(*evaluations, strict=True)))


def parted_at(own: Evaluated, size: int) -> tuple[Evaluated, Evaluated | None]:
    """Split an evaluation into the part at a node's ``size`` samples and the part at replayed points, or None."""
    if size == len(own.points):
        return own, None
    return Evaluated(*(part[:size] for part in own)), Evaluated(*(part[size:] for part in own))


class Info(NamedTuple):
    """The compression error and the step size of one step."""

    compression_error: float  # Hilbert norm
    step_size: float


class Learner(Protocol):
    """A local learner: a configuration whose ``init`` creates a state and whose ``step`` updates it in place."""

    @property
    def batch_size(self) -> int:
        """b, the number of samples per round."""
        ...

    @property
    def loss(self) -> Loss:
        """The loss of a sample."""
        ...

    @property
    def gain(self) -> float | None:
        """The change of f at a sample for a weight of 1 there: kappa(x, x), or ``||phi(x)||^2``.

        If it is about the same at all points, explicit steps with ``eta / b * gain * curvature >= 2`` diverge, and are
        refused. None if it has no known bound.
        """
        ...

    @property
    def linear(self) -> bool:
        """Whether :meth:`inner` is the effect of a weight for every current function.

        If not, the coupling is also limited by its own implicit step, since the pull of a distant neighbour could
        otherwise overshoot.
        """
        ...

    def init(self, inputs: int, outputs: int) -> Any:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        ...

    def eta(self, state: Any) -> float:
        """Return the step size of the next step."""
        ...

    def evaluate(self, state: Any, points: Array) -> Evaluated:
        """Evaluate the current function at ``points`` (n, p)."""
        ...

    def inner(self, state: Any, at: Evaluated) -> Array:
        """Return the change of the current function at point m for a weight of 1 at point n: (n, n), symmetric.

        The entries are ``kappa(x_m, x_n)``, or the inner products of the features. Compression may reduce the change,
        but not increase it.
        """
        ...

    def gradient(self, state: Any, own: Evaluated, targets: Array) -> Array:
        """Return the gradient coefficients of the local risk at the node's own samples, (n, C), not averaged.

        The state does not change. The coefficients are those of the next step.

        If fewer than b samples remain, the caller multiplies the coefficients by n / b, so that the step on a sample
        does not depend on the number of samples in the batch.
        """
        ...

    def step(
        self,
        state: Any,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)``.

        A step depends on the state and its arguments only: evaluations and gradients between steps have no effect. A
        learner may add updates from samples that it has kept, independently of ``gradients``.

        Parameters
        ----------
        state
            Updated in place; ``evaluations`` must be evaluations of its current function.
        evaluations : sequence of Evaluated
            The evaluation at the node's own samples, if any, and, in the symmetric form, at each neighbour's samples.
        gradients : sequence of Array
            The coefficients at the points of each evaluation, (n_k, C): the derivatives of the loss plus those of the
            coupling.
        curvatures : sequence of float, optional
            The second derivatives of the terms at each evaluation's points. If given, the step is implicit in the
            coupling and in a quadratic loss.
        targets : Array
            The targets of the node's own samples, (n, q). It has no rows once the node's data is used up: then all
            evaluations are at neighbours' samples, the step follows the coupling alone, and statistics of own samples
            do not change.
        eta : float, optional
            The step size, which also scales regularization and compression. The default is the schedule's. A node with
            neighbours may take a smaller step.
        """
        ...

    def function(self, state: Any) -> Function:
        """Return the current function; it may change with the state."""
        ...

    def function_from(self, arrays: Mapping[str, Array]) -> Function:
        """Rebuild a function for evaluation from its saved arrays; its values are equal to the bit."""
        ...

    def snapshot(self, state: Any) -> dict[str, Array]:
        """Return copies of all arrays of the state that steps change, for a checkpoint."""
        ...

    def restore(self, state: Any, arrays: Mapping[str, Array]) -> None:
        """Restore a new state of ``init`` from a snapshot; all later steps are equal to the bit."""
        ...


@runtime_checkable
class CompressingLearner(Learner, Protocol):
    """A learner that removes dictionary points of small effect; the reports of a run mention this."""

    def compression_budget(self, state: Any) -> float:
        """Return the largest compression error of the next step, a Hilbert norm; 0 if nothing may be removed yet."""
        ...


class PredictiveVariance(Protocol):
    """The variance of a function's values."""

    @property
    def noise(self) -> Array:
        """The noise variance of each output's targets, (C,), in the learner's units."""
        ...

    def variance(self, points: Array) -> Array:
        """Return the variance of the values at ``points`` (n, p), in units of the noise's: (n,)."""
        ...

    def thinned(self, times: float) -> "PredictiveVariance":
        """Return the variance for samples that were counted ``times`` times each, at least 1, and should count once."""
        ...

    def arrays(self) -> dict[str, Array]:
        """Return copies of its arrays, without the function's, by names that begin with ``posterior_``."""
        ...


@runtime_checkable
class VaryingVariance(PredictiveVariance, Protocol):
    """A variance whose noise may depend on the input."""

    def following(self, points: Array, errors: Array) -> PredictiveVariance:
        """Return a copy whose noise is fitted to prediction errors (n, C), before their steps, at ``points`` (n, p)."""
        ...


@runtime_checkable
class LearnerWithVariance(Protocol):
    """A learner with a posterior variance of its function."""

    def posterior(self, state: Any) -> PredictiveVariance | None:
        """Return a copy of the posterior of the current function; None if the loss or a key makes it undefined."""
        ...

    def noise(self, state: Any) -> Array:
        """Return the state's estimate of the noise variance, which may be changed in place (`noise_variance`)."""
        ...


@runtime_checkable
class TeachableLearner(Learner, Protocol):
    """A learner with posterior variances that accepts values from more certain neighbours as observations."""

    @property
    def reach(self) -> float:
        """The ratio of :meth:`inner` to the variance, in the unit of the inverse of the loss's curvature."""
        ...

    def step(
        self,
        state: Any,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
        taught: Array = ...,
    ) -> Info:
        """Take one step with taught observations.

        ``taught``, (N, 2 C + 1) for all points together, is described in
        :func:`~kernelswarm.agents.nodes.agent.learn_from_surer_in`.
        """
        ...


@runtime_checkable
class ValueLearner(Protocol):
    """A learner of a Markov chain's value function: the targets are rewards, not values of the function."""

    @property
    def discount(self) -> float:
        """The discount factor, between 0 and 1."""
        ...


@runtime_checkable
class FeatureLearner(Protocol):
    """A learner of functions ``W' phi(x)`` with fixed features phi: it learns only W."""

    @property
    def regularization(self) -> float:
        """lambda."""
        ...

    def coefficients(self, state: Any) -> Array:
        """Return the weights W of the state's function, (L, C)."""
        ...

    def regularized(self, state: Any) -> int:
        """Return the number of regularised features; they come first."""
        ...

    def place(self, state: Any, coefficients: Array, steps: int) -> None:
        """Set a state to the function with these weights (L, C), after ``steps`` steps."""
        ...


@runtime_checkable
class MixtureLearner(FeatureLearner, Protocol):
    """A learner that mixes the functions of E kernels with L features each: the weights W are (E, L, C)."""

    def shares(self, state: Any) -> Array:
        """Return the share of each kernel's function in the mixture, (E,)."""
        ...


@runtime_checkable
class ScheduledLearner(Protocol):
    """A learner whose step sizes follow a schedule."""

    @property
    def step_size(self) -> Schedule:
        """eta, the schedule of step sizes."""
        ...
