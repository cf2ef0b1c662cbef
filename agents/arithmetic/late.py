"""Functions that steps call by address and few runs need; they are compiled only before a state needs them.

Compiling the forms of a step with matrix products takes longer than all other compilation of a first run. A step
therefore receives the address of a number, which holds the function's address once the function is compiled.
"""

from __future__ import annotations

import numpy as np

from kernelswarm.inside_numba import Signature
from kernelswarm.protocols.core.addresses import Compiled, address, numbers_at
from kernelswarm.protocols.core.compiling import inline_always

UNASKED, EXPECTED = -1.0, -2.0
"""Values of the number before the function is compiled: not requested, or requested."""


class LateFunction:
    """A function with a signature, for the lifetime of the process.

    Parameters
    ----------
    function : function
        A compiled function.
    signature : Signature
        Its signature.
    """

    def __init__(self, function: Compiled, signature: Signature) -> None:
        self._function, self._signature = function, signature
        self._found = np.full(1, UNASKED)

    @property
    def place(self) -> int:
        return int(self._found.ctypes.data)

    def expect(self) -> None:
        """Mark the function as requested, so that states request it before they need it."""
        if self._found[0] == UNASKED:
            self._found[0] = EXPECTED

    def prepare(self) -> None:
        """Compile or load the function if it is requested and missing."""
        if self._found[0] == EXPECTED:
            self._found[0] = float(address(self._function, self._signature))


@inline_always
def is_missing(place: int) -> bool:
    """Return whether a function is requested and not compiled yet."""
    return bool(numbers_at(place, 1)[0] == EXPECTED)


@inline_always
def found_at(place: int) -> int:
    """Return the address of a function, from the address of its number; raises RuntimeError if it is missing."""
    found = numbers_at(place, 1)[0]
    if found < 0.0:
        raise RuntimeError("a step on many points was to be taken before its function was prepared")
    return int(found)


# The minimum size for steps with matrix-matrix products.

BLOCKED_FROM_SAMPLES = 8
"""The minimum number of points of a step for matrix products."""
