"""What protocols of vectors hand over to compiled rounds: functions with one signature, and their numbers.

What a node knows is a vector that the protocol lays out itself, field by field of its state: the weights (L, C) of the
node's function first.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from numba import types

from kernelswarm.protocols.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.core.contiguous import PassedTuple
from kernelswarm.protocols.first_class import MATRIX, NUMBERS, VECTOR_OUT, Compiled, at

Array = npt.NDArray[np.float64]
LONG_LOOPS = True


class PhaseArguments(NamedTuple):
    """The arguments of a phase of a protocol; the state and the weights may be written to."""

    numbers: ReadOnly  # the protocol's own
    state: Array  # the node's
    last_sent: ReadOnly  # (n,), these three as of `Received`; before a node sends they have no rows
    vectors: ReadOnly  # (deg, n)
    counts: ReadOnly  # (deg,)
    eta: float
    weights: Array  # (L C,) the end of the learner's step, or its begin
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
        With the signature PHASE: changes the state, by the weights after the step if there is one.
    start : function, optional
        With the signature PHASE: fills the weights from which the learner steps on the samples; None for no step.
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
        Before a node sends; None if nothing changes then.
    """

    receive: CompiledPhase
    sent: str
    numbers: Array
    adapt: CompiledPhase | None = None


def packed(state: Any) -> Array:
    """Return the fields of a node's state, a named tuple of arrays, numbers and such tuples, as one vector."""
    return np.concatenate([np.asarray(field, dtype=np.float64).reshape(-1) for _, field in _fields(state)])


def unpacked(state: Any, vector: Array) -> Any:
    """Return a state whose fields have the shapes of another's and the numbers of a vector, copied."""
    return _read(state, vector.copy(), 0)[0]


def place_of(state: Any, name: str) -> slice:
    """Return the place of a field in the vector of a state."""
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
    """Return a state filled from a place in a vector on, and the place behind it."""
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


@cached_njit
def from_weights(given: PhaseArguments) -> None:
    """Step from the node's own weights."""
    for k in range(len(given.weights)):
        given.weights[k] = given.state[k]


@cached_njit
def to_second(given: PhaseArguments) -> None:
    """Keep the weights after the step as the state's second field."""
    weights = given.weights
    for k in range(len(weights)):
        given.state[len(weights) + k] = weights[k]
