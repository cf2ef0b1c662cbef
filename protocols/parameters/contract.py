"""The contract of protocols whose nodes send vectors of a fixed size: weights of features that all nodes share.

In a round a node draws its samples, may change its state, sends one vector to all its neighbours, receives theirs, and
then has its new weights. A rule holds only its configuration; what a node knows goes in and comes out as its state.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.contract import Exchange, Neighborhood, Rule, SendsVectors, StackedRule
from kernelswarm.protocols.summaries import SummaryRule
from kernelswarm.ranges import Range, check_ranges

Array = npt.NDArray[np.float64]


class Samples(Protocol):
    """The samples of a node's round, as a rule gets them."""

    features: Array
    """phi(x_k), (n, L); n is b, or less where the data ends."""
    targets: Array
    """y_k, (n, q)."""
    batch_size: int
    """b."""
    eta: float
    """The learner's step size."""

    @property
    def lambdas(self) -> Array:
        """The learner's regularization of each feature, (L,): lambda, and 0 of an intercept."""
        ...

    def descend(self, weights: Array) -> Array:
        """Return the weights (L, C) after a step of the learner on the samples: implicit where the rule's step is."""
        ...

    def gradient(self, weights: Array) -> Array:
        """Return ``(weights - descend(weights)) / eta``, (L, C).

        That is the gradient of the mean loss and the regularization: for an implicit step, at its end.
        """
        ...


class Received(NamedTuple):
    """The vectors that a node receives in a round.

    Attributes
    ----------
    last_sent : Array
        The vector that the node sent last, (n,).
    vectors : Array
        Theirs, (deg, n).
    counts : Array
        The weight of each, (deg,): 1, less where links damp old messages, 0 where nothing has arrived.
    """

    last_sent: Array
    vectors: Array
    counts: Array


@runtime_checkable
class ParameterRule(Exchange, Protocol):
    """A protocol of vectors, as one node runs it."""

    @property
    def quadratic(self) -> bool:
        """Whether the rule solves least squares, and needs the squared loss."""
        ...

    @property
    def mixes(self) -> bool:
        """Whether the weights are those of several kernels, which it mixes: then they are (E, L, C) everywhere.

        Samples then have the features of one kernel behind those of the other, (n, E L), and no steps of a learner.
        """
        ...

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Any:
        """Return a node's state before the first round, from its weights (L, C).

        Raises
        ------
        ValueError
            The rule cannot work in this neighbourhood.
        """
        ...

    def adapt(self, state: Any, samples: Samples) -> Any:
        """Return a node's state with its samples, before it sends."""
        ...

    def send(self, state: Any) -> Array:
        """Return the vector that is sent to all neighbours, (n,), of the same length in all rounds."""
        ...

    def receive(self, state: Any, received: Received, samples: Samples) -> Any:
        """Return a node's state at the end of the round."""
        ...

    def weights(self, state: Any) -> Array:
        """Return the weights of the node's function, (L, C)."""
        ...


class Information(NamedTuple):
    """A node's least squares on the samples of the network.

    Attributes
    ----------
    sums : Array
        (M,), as `least_squares` has them, averages over the nodes.
    ridge : float
        The number added to the diagonal of the features' products, beside the learner's lambda.
    noise : Array
        The estimate of the noise's variance, (3, C), as of `noise_variance`.
    """

    sums: Array
    ridge: float
    noise: Array


@runtime_checkable
class InformedRule(Protocol):
    """A protocol of vectors that solves least squares, and so knows its function's variance."""

    def information(self, state: Any) -> Information:
        """Return a node's least squares."""
        ...


@runtime_checkable
class AddressedRule(Protocol):
    """A protocol of vectors that does not send to each neighbour in each round; one in plain Python."""

    def receivers(self, state: Any) -> int:
        """Return to how many neighbours the node sends in a round, after :meth:`ParameterRule.adapt`.

        Its vector is seen by all. Those that receive none leave it out by themselves, and it is not counted there.
        """
        ...


@dataclass(frozen=True)
class Vectors(SendsVectors):
    """The defaults of such protocols: any loss, and the features of one kernel.

    Parameters
    ----------
    every : int
        The rounds from one message to the next, at least 1. In those between, nodes learn alone.
    """

    every: int = field(default=1, kw_only=True)

    quadratic: ClassVar[bool] = False
    mixes: ClassVar[bool] = False

    ranges: ClassVar = {"every": Range("[1, inf)", "1 sends in every round")}

    def __post_init__(self) -> None:
        check_ranges(self)


AnyRule = Rule | ParameterRule | StackedRule | SummaryRule
"""A protocol of any family."""
