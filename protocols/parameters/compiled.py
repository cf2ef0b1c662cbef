"""What protocols of vectors hand over to compiled rounds: functions with one signature, and their numbers.

What a node knows is a vector that the protocol lays out itself, field by field of its state: the weights (L, C) of the
node's function first.
"""

import math
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from numba import types

from kernelswarm.protocols.compiling import cached_njit
from kernelswarm.protocols.first_class import MATRIX, NUMBERS, VECTOR_OUT, Compiled, at

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

PHASE = types.void(NUMBERS, VECTOR_OUT, NUMBERS, MATRIX, NUMBERS, types.float64, VECTOR_OUT)
"""``phase(numbers, state, last_sent (n,), vectors (deg, n), counts (deg,), eta, weights (L C,))`` changes the state or
the weights.

``last_sent``, ``vectors`` and ``counts`` are those of
:class:`~kernelswarm.protocols.parameters.contract.Received`; before a node sends they have no rows."""

SEEING = types.void(NUMBERS, VECTOR_OUT, NUMBERS, MATRIX, NUMBERS, types.float64, NUMBERS, MATRIX, MATRIX, types.int64)
"""``phase(numbers, state, last_sent, vectors, counts, eta, lambdas (L,), features (n, L), targets (n, q), batch_size)``
changes the state of a protocol that learns from the samples itself.

The last four and ``eta`` are those of :class:`~kernelswarm.protocols.parameters.contract.Samples`: n is b, or less."""

phase_at, seeing_at = at(PHASE), at(SEEING)


class CompiledPhase(NamedTuple):
    """What a node does when it has seen its samples, or when it has heard its neighbours.

    Attributes
    ----------
    finish : function
        With the signature PHASE: changes the state, by the weights that the step led to where there is one.
    start : function, optional
        With the signature PHASE: fills the weights from which the learner steps on the samples; None for no step.
    seeing : bool
        Whether ``finish`` has the signature SEEING.
    """

    finish: Compiled
    start: Compiled | None = None
    seeing: bool = False


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
        Before a node speaks; None where nothing changes then.
    """

    receive: CompiledPhase
    sent: str
    numbers: Array
    adapt: CompiledPhase | None = None


def packed(state: Any) -> Array:
    """Write the fields of a node's state, a named tuple of arrays and numbers, one behind the other."""
    return np.concatenate([np.asarray(field, dtype=np.float64).reshape(-1) for field in state])


def unpacked(state: Any, vector: Array) -> Any:
    """Return a state whose fields have the shapes of another's and the numbers of a vector, copied."""
    fields: list[Any] = []
    begin = 0
    for field in state:
        shape = field.shape if isinstance(field, np.ndarray) else np.shape(field)
        size = math.prod(shape)
        fields.append(vector[begin : begin + size].copy().reshape(shape) if shape else float(vector[begin]))
        begin += size
    return type(state)(*fields)


def place_of(state: Any, name: str) -> slice:
    """Return where a field lies in the vector of a state."""
    begin = 0
    for field, value in zip(cast(tuple[str, ...], state._fields), state, strict=True):
        if field == name:
            return slice(begin, begin + int(np.size(value)))
        begin += int(np.size(value))
    raise ValueError(f"{type(state).__name__} has no field {name}: name one of {', '.join(state._fields)}")


@cached_njit
def from_weights(
    numbers: Array, state: Array, last_sent: Array, vectors: Array, counts: Array, eta: float, weights: Array
) -> None:
    """Step from the node's own weights."""
    for k in range(len(weights)):
        weights[k] = state[k]


@cached_njit
def to_second(
    numbers: Array, state: Array, last_sent: Array, vectors: Array, counts: Array, eta: float, weights: Array
) -> None:
    """Keep where the step led as the state's second field, of the size of the weights."""
    for k in range(len(weights)):
        state[len(weights) + k] = weights[k]
