"""The contract of a local learner, alone or in a network."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.schedules import Schedule
from kernelswarm.arrays import Array


class Evaluated(NamedTuple):
    """A function evaluated at some points: its values, and intermediate results that the step there needs."""

    points: Array  # (n, p)
    rows: Array  # (n, M) kernel rows, or the learner's own features
    values: Array  # (n, C)


def together(evaluations: Sequence[Evaluated]) -> Evaluated:
    """Join evaluations of one function."""
    if len(evaluations) == 1:
        return evaluations[0]
    return Evaluated(*(np.concatenate(part) for part in zip(*evaluations, strict=True)))


def parted_at(own: Evaluated, size: int) -> tuple[Evaluated, Evaluated | None]:
    """Return the evaluation at a node's samples, and that at the points that it replays, if it does."""
    if size == len(own.points):
        return own, None
    return Evaluated(*(part[:size] for part in own)), Evaluated(*(part[size:] for part in own))


class Info(NamedTuple):
    """The report of a step, beside the state."""

    compression_error: float  # Hilbert norm
    step_size: float


class Learner(Protocol):
    """A local learner: configuration only; ``init`` makes the state, and ``step`` advances that state in place."""

    @property
    def batch_size(self) -> int:
        """The samples b of a round."""
        ...

    @property
    def loss(self) -> Loss:
        """The loss of a sample."""
        ...

    @property
    def gain(self) -> float | None:
        """The move of the function at a sample for a weight of 1 there: kappa(x, x), or ``||phi(x)||^2``.

        Where that is about the same at all points, explicit steps of ``eta / b * gain * curvature >= 2`` diverge, and
        are refused; None where it may be anything.
        """
        ...

    @property
    def linear(self) -> bool:
        """Whether a weight moves the function as :meth:`inner` says wherever the function is.

        Where not, implicit steps are implicit in the coupling too: that of a neighbour far away could else throw it far
        beyond.
        """
        ...

    def init(self, inputs: int, outputs: int) -> Any:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        ...

    def eta(self, state: Any) -> float:
        """Return the step size of the step to come."""
        ...

    def evaluate(self, state: Any, points: Array) -> Evaluated:
        """Evaluate the current function at ``points`` (n, p)."""
        ...

    def inner(self, state: Any, at: Evaluated) -> Array:
        """Return how far a weight of 1 at each point moves the present function at each other, (n, n), symmetric.

        That is ``kappa(x_m, x_n)``, or the inner products of the features. What a learner leaves of it when it
        compresses may be less, never more.
        """
        ...

    def gradient(self, state: Any, own: Evaluated, targets: Array) -> Array:
        """Return the local risk's gradient coefficients at the node's own samples, (n, C), not averaged.

        The state stays as it is. The coefficients are the next step's.

        Where fewer than b samples are left, the caller multiplies them by n / b: a sample's step does not depend on how
        many come with it.
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

        All that a step takes comes with it: between the steps evaluations and gradients may be asked for at will. A
        learner may add to it updates from samples that it has kept, whatever the gradients are.

        Parameters
        ----------
        state
            Advanced in place; the evaluations must be of its present function.
        evaluations : sequence of Evaluated
            The node's own samples, where there are any, and, in the symmetric form, each neighbour's.
        gradients : sequence of Array
            The coefficients at the points of each evaluation, (n_k, C): the loss's derivatives plus the coupling's.
        curvatures : sequence of float, optional
            The second derivative of the terms at each evaluation's points; given, the step is implicit in the coupling
            and in a quadratic loss.
        targets : Array
            Those of the node's own samples, (n, q). Without rows, where its data is used up, all evaluations are
            neighbours': the step is along the coupling alone, and what else is learned from own samples stays.
        eta : float, optional
            The size of this step, to which regularization and compression are held too; that of the schedule by
            default. A node that listens to its neighbours may take a smaller one.
        """
        ...

    def function(self, state: Any) -> Function:
        """Return the current function; it may change with the state."""
        ...

    def function_from(self, arrays: Mapping[str, Array]) -> Function:
        """Rebuild a function from the arrays that it was saved as, for evaluation: the values have the same bits."""
        ...

    def snapshot(self, state: Any) -> dict[str, Array]:
        """Return copies of everything in the state that steps change: arrays of numbers, for a checkpoint."""
        ...

    def restore(self, state: Any, arrays: Mapping[str, Array]) -> None:
        """Restore a new state of ``init`` from a snapshot: all steps after it have the same bits."""
        ...


@runtime_checkable
class CompressingLearner(Learner, Protocol):
    """A learner that removes points from its dictionary whose effect is small; texts about a run name this."""

    def compression_budget(self, state: Any) -> float:
        """Return the Hilbert norm that the step to come may lose, 0 where nothing is to be removed yet."""
        ...


class PredictiveVariance(Protocol):
    """The variance of a function's values."""

    @property
    def noise(self) -> Array:
        """The variance of the targets' noise of each output, (C,), in the learner's units."""
        ...

    def variance(self, points: Array) -> Array:
        """Return the variance of the values at ``points`` (n, p), in units of the noise's: (n,)."""
        ...

    def thinned(self, times: float) -> "PredictiveVariance":
        """Return how certain it is where each sample was counted so many times, at least 1, and should count once."""
        ...

    def arrays(self) -> dict[str, Array]:
        """Return copies of its arrays beside the function, by names that begin with ``posterior_``."""
        ...


@runtime_checkable
class VaryingVariance(PredictiveVariance, Protocol):
    """A variance whose noise may depend on the input."""

    def following(self, points: Array, errors: Array) -> PredictiveVariance:
        """Return it with the noise that errors (n, C) before their steps show at ``points`` (n, p)."""
        ...


@runtime_checkable
class LearnerWithVariance(Protocol):
    """A learner that can say how certain its function is."""

    def posterior(self, state: Any) -> PredictiveVariance | None:
        """Return a copy of the posterior of the present function, or None if the loss or a key gives it no meaning."""
        ...

    def noise(self, state: Any) -> Array:
        """Return the state's estimate of the noise's variance, to be changed in place (`noise_variance`)."""
        ...


@runtime_checkable
class TeachableLearner(Learner, Protocol):
    """A learner that knows how certain its function is, and takes what surer neighbours taught as observations."""

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
        """Take one step; what was ``taught``, (N, 2 C + 1) at all points together, is described in
        :func:`~kernelswarm.agents.nodes.agent.learn_from_surer_in`."""
        ...


@runtime_checkable
class ValueLearner(Protocol):
    """A learner of a Markov chain's value function: the targets are rewards, and no values of its function."""

    @property
    def discount(self) -> float:
        """The weight of a reward one step ahead, between 0 and 1."""
        ...


@runtime_checkable
class FeatureLearner(Protocol):
    """A learner whose functions are ``W' phi(x)`` with features phi that stay as they are: W is all that it learns."""

    @property
    def regularization(self) -> float:
        """lambda."""
        ...

    def coefficients(self, state: Any) -> Array:
        """Return the weights W of the state's function, (L, C)."""
        ...

    def regularized(self, state: Any) -> int:
        """Return how many of the features, from the first, are regularised."""
        ...

    def place(self, state: Any, coefficients: Array, steps: int) -> None:
        """Set a state to the function with these weights (L, C), after ``steps`` steps."""
        ...


@runtime_checkable
class MixtureLearner(FeatureLearner, Protocol):
    """A learner that mixes functions of several kernels with features each: the weights W are (E, L, C)."""

    def shares(self, state: Any) -> Array:
        """Return how much each kernel's function counts, (E,)."""
        ...


@runtime_checkable
class ScheduledLearner(Protocol):
    """A learner whose steps have the sizes of a schedule."""

    @property
    def step_size(self) -> Schedule:
        """eta of every step."""
        ...
