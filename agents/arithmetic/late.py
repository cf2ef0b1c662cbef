"""Functions that steps call by address and few runs need: compiled when a state is about to need them, not before.

To compile matrix products' forms of a step takes longer than all else that a first run compiles. What a step is given
is therefore the address of a number, which is the function's address once that is there.
"""

from __future__ import annotations

import numpy as np

from kernelswarm.inside_numba import Signature
from kernelswarm.protocols.core.addresses import Compiled, address, numbers_at
from kernelswarm.protocols.core.compiling import inline_always

UNASKED, EXPECTED = -1.0, -2.0
"""In place of the address: the function was not requested for steps, or it was."""


class LateFunction:
    """A function with a signature, for as long as the process lives.

    Parameters
    ----------
    function : function
        A compiled function.
    signature : Signature
        How it is called.
    """

    def __init__(self, function: Compiled, signature: Signature) -> None:
        self._function, self._signature = function, signature
        self._found = np.full(1, UNASKED)

    @property
    def place(self) -> int:
        return int(self._found.ctypes.data)

    def expect(self) -> None:
        """Have states ask for it before they need it."""
        if self._found[0] == UNASKED:
            self._found[0] = EXPECTED

    def prepare(self) -> None:
        """Compile it, or load it, where it is expected and not there."""
        if self._found[0] == EXPECTED:
            self._found[0] = float(address(self._function, self._signature))


@inline_always
def is_missing(place: int) -> bool:
    """Tell whether a function is requested and not compiled yet."""
    return bool(numbers_at(place, 1)[0] == EXPECTED)


@inline_always
def found_at(place: int) -> int:
    """Return the address of a function, given its number's; raises RuntimeError if it is missing."""
    found = numbers_at(place, 1)[0]
    if found < 0.0:
        raise RuntimeError("a step on many points was to be taken before its function was prepared")
    return int(found)


# From which sizes on a step is taken with matrix-matrix products.

BLOCKED_FROM_SAMPLES = 8
"""Points of a step."""
