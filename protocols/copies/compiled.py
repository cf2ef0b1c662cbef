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

HEAR = types.void(NUMBERS, VECTOR_OUT, MATRIX)
"""``hear(numbers, state, said (deg, K))`` changes the state."""

SAY = types.void(NUMBERS, NUMBERS, VECTOR_OUT)
"""``say(numbers, state, said (K,))`` fills the last with what neighbours hear."""

SHARES = types.void(NUMBERS, NUMBERS, VECTOR_OUT)
"""``shares(numbers, state, shares (K,))`` fills the last."""

learn_at, hear_at, say_at, shares_at = at(LEARN), at(HEAR), at(SAY), at(SHARES)


class CompiledStackedRule(NamedTuple):
    """A protocol with copies for compiled rounds."""

    learn: Compiled  # LEARN
    hear: Compiled  # HEAR
    say: Compiled  # SAY
    shares: Compiled  # SHARES
    numbers: Array
