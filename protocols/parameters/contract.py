"""The interface of protocols whose nodes send vectors of a fixed size: weights of features that all nodes share.

In a round a node draws its samples, may change its state, sends one vector to all its neighbours, receives their
vectors, and computes its new weights. A rule holds only its configuration; a node's memory is passed in and returned as
its state.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numba import types

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Exchange, Neighborhood, Rule, SendsVectors, StackedRule
from kernelswarm.protocols.core.addresses import MATRIX, NUMBERS, VECTOR_OUT, Compiled, at
from kernelswarm.protocols.core.compiling import ReadOnly
from kernelswarm.protocols.core.contiguous import PassedTuple
from kernelswarm.protocols.summaries import SummaryRule
from kernelswarm.ranges import Range, Ranged


class Samples(Protocol):
    """The samples of a node's round, as an argument of rules."""

    features: Array
    """phi(x_k), (n, L); n is b, or less at the end of the data."""
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
        """Return the weights (L, C) after a step of the learner on the samples; implicit if the rule's step is."""
        ...

    def gradient(self, weights: Array) -> Array:
        """Return ``(weights - descend(weights)) / eta``, (L, C).

        This is the gradient of the mean loss plus the regularization; for an implicit step, at the end of the step.
        """
        ...


class Received(NamedTuple):
    """The vectors that a node receives in a round.

    Attributes
    ----------
    last_sent : Array
        The vector that the node sent last, (n,).
    vectors : Array
        The neighbours' vectors, (deg, n).
    counts : Array
        The weight of each vector, (deg,): 1; less if links damp old messages; 0 if nothing has arrived.
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
        """Whether the rule mixes weights of several kernels; all weights are then (E, L, C).

        Samples then have the concatenated features of all kernels, (n, E L), and no steps of a learner.
        """
        ...

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Any:
        """Return a node's state before the first round, from its weights (L, C).

        Raises
        ------
        ValueError
            If the rule cannot work in this neighbourhood.
        """
        ...

    def adapt(self, state: Any, samples: Samples) -> Any:
        """Return a node's state after it has used its samples, before it sends."""
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
        Averages over the nodes, (M,), in the layout of `least_squares`.
    ridge : float
        The number added to the diagonal of the features' products, in addition to the learner's lambda.
    noise : Array
        The estimate of the noise variance, (3, C); see `noise_variance`.
    """

    sums: Array
    ridge: float
    noise: Array


@runtime_checkable
class InformedRule(Protocol):
    """A protocol of vectors that solves least squares, so that its function has a posterior variance."""

    def information(self, state: Any) -> Information:
        """Return a node's least squares."""
        ...


@runtime_checkable
class AddressedRule(Protocol):
    """A protocol of vectors, in plain Python, that does not send to every neighbour in every round."""

    def receivers(self, state: Any) -> int:
        """Return the number of neighbours to which the node sends in a round, after :meth:`ParameterRule.adapt`.

        All neighbours can read the vector; a neighbour that is no receiver ignores it, and its message is not counted.
        """
        ...


@dataclass(frozen=True)
class Vectors(SendsVectors, Ranged):
    """The defaults of such protocols: any loss, and the features of one kernel.

    Parameters
    ----------
    every : int
        The number of rounds from one message to the next, at least 1. Nodes learn alone in the rounds between.
    """

    every: int = dataclasses.field(default=1, kw_only=True)

    quadratic: ClassVar[bool] = False
    mixes: ClassVar[bool] = False

    ranges: ClassVar = {"every": Range("[1, inf)", "1 sends in every round")}


AnyRule = Rule | ParameterRule | StackedRule | SummaryRule
"""A protocol of any family."""


# The compiled form of protocols of vectors: functions with one signature, and their numbers.
#
# A node's state is one vector, which holds the fields of the protocol's state in order: first the weights (L, C) of the
# node's function.

LONG_LOOPS = True


class PhaseArguments(NamedTuple):
    """The arguments of a phase of a protocol; the state and the weights may be written to."""

    numbers: ReadOnly  # the protocol's own
    state: Array  # the node's
    last_sent: ReadOnly  # (n,), the next three are the fields of `Received`; no rows before a node sends
    vectors: ReadOnly  # (deg, n)
    counts: ReadOnly  # (deg,)
    eta: float
    weights: Array  # (L C,) after the learner's step, or before it
    lambdas: ReadOnly  # (L,) the learner's regularization of each feature
    features: ReadOnly  # (n, L) of the samples, which are b or fewer
    targets: ReadOnly  # (n, q)
    batch_size: int


PHASE = types.void(
    PassedTuple(
        [
            NUMBERS,
            VECTOR_OUT,
            NUMBERS,
            MATRIX,
            NUMBERS,
            types.float64,
            VECTOR_OUT,
            NUMBERS,
            MATRIX,
            MATRIX,
            types.int64,
        ],
        PhaseArguments,
    )
)
"""``phase(given)`` changes the state or the weights in its :class:`PhaseArguments`."""

phase_at = at(PHASE)


class CompiledPhase(NamedTuple):
    """A phase of a node's round: with its samples, or with its neighbours' vectors.

    Attributes
    ----------
    finish : function
        With the signature PHASE; updates the state, using the weights after the learner's step if there is one.
    start : function, optional
        With the signature PHASE; fills in the weights from which the learner steps on the samples. None for no step.
    """

    finish: Compiled
    start: Compiled | None = None


class CompiledParameterRule(NamedTuple):
    """A protocol of vectors for compiled rounds.

    Attributes
    ----------
    receive : CompiledPhase
        The end of a round.
    sent : str
        The field of the state that is sent.
    numbers : Array
        The protocol's own numbers.
    adapt : CompiledPhase, optional
        The phase before a node sends; None if nothing changes then.
    """

    receive: CompiledPhase
    sent: str
    numbers: Array
    adapt: CompiledPhase | None = None


def packed(state: Any) -> Array:
    """Return the fields of a node's state, a named tuple of arrays, numbers and such tuples, as one vector."""
    return np.concatenate([np.asarray(field, dtype=np.float64).reshape(-1) for _, field in _fields(state)])


def unpacked(state: Any, vector: Array) -> Any:
    """Return a state with the shapes of another state's fields and a copy of a vector's numbers."""
    return in_vector(state, vector.copy())


def in_vector(state: Any, vector: Array) -> Any:
    """Return a state with the shapes of another state's fields; its arrays are views of a vector."""
    return _read(state, vector, 0)[0]


def holds_numbers(state: Any) -> bool:
    """Return whether a field of a state is a number, which cannot be a view."""
    return any(not np.shape(field) for _, field in _fields(state))


def place_of(state: Any, name: str) -> slice:
    """Return the slice of a field in the vector of a state."""
    begin = 0
    for field, value in _fields(state):
        if field == name:
            return slice(begin, begin + int(np.size(value)))
        begin += int(np.size(value))
    raise ValueError(f"{type(state).__name__} has no field {name}: name one of {', '.join(state._fields)}")


def _fields(state: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a state's fields, and of the fields of tuples in it."""
    for name, field in zip(cast(tuple[str, ...], state._fields), state, strict=True):
        if isinstance(field, tuple):
            yield from _fields(field)
        else:
            yield name, field


def _read(state: Any, own: Array, begin: int) -> tuple[Any, int]:
    """Return a state read from a vector from ``begin`` on, and the index after it."""
    fields = list[Any]()
    for field in state:
        if isinstance(field, tuple):
            found, begin = _read(field, own, begin)
            fields.append(found)
            continue
        shape = field.shape if isinstance(field, np.ndarray) else ()
        end = begin + math.prod(shape)
        fields.append(own[begin:end].reshape(shape) if shape else float(own[begin]))
        begin = end
    return type(state)(*fields), begin
