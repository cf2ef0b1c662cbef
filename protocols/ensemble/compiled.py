"""What protocols with copies hand over to compiled rounds: functions with these signatures, and their numbers.

What a node knows of its copies is a vector: the fields of its state, a named tuple of arrays, one behind the other.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from kernelswarm.protocols.first_class import CUBE, MATRIX, NUMBERS, VECTOR_OUT, Compiled, at

Array = npt.NDArray[np.float64]

LEARN = types.void(NUMBERS, VECTOR_OUT, CUBE, NUMBERS, MATRIX, MATRIX, types.float64, types.int64)
"""``learn(numbers, state, values (K, b, C), losses (K,), mixture (b, C), gradients (b, C), curvature, regression)``
changes the state; the arguments are those of :class:`~kernelswarm.protocols.contract.Predictions`."""

RECEIVE = types.void(NUMBERS, VECTOR_OUT, MATRIX)
"""``receive(numbers, state, sent (deg, K))`` changes the state."""

SEND = types.void(NUMBERS, NUMBERS, VECTOR_OUT)
"""``send(numbers, state, sent (K,))`` fills the last with the numbers that neighbours receive."""

MIXTURE_WEIGHTS = types.void(NUMBERS, NUMBERS, VECTOR_OUT)
"""``mixture_weights(numbers, state, mixture_weights (K,))`` fills the last."""

learn_at, receive_at, send_at, mixture_weights_at = at(LEARN), at(RECEIVE), at(SEND), at(MIXTURE_WEIGHTS)


class CompiledStackedRule(NamedTuple):
    """A protocol with copies for compiled rounds."""

    learn: Compiled  # LEARN
    receive: Compiled  # RECEIVE
    send: Compiled  # SEND
    mixture_weights: Compiled  # MIXTURE_WEIGHTS
    numbers: Array
