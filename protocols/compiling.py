"""How functions are compiled: kept on disk, and each no more often than it must be.

What a function calls is linked into it and optimised once more, so that a chain of calls is compiled as often as it is
long. What has one caller, or is short, is therefore written into those that call it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

_numba: Any = numba  # its types do not know of all options


def jitted(function: Function) -> Function:
    """Compile a function; without the wrapper by which C would call it, which takes a tenth of the time."""
    dispatcher: Function = _numba.njit(cache=True, no_cfunc_wrapper=True)(function)
    return dispatcher


def inlined(function: Function) -> Function:
    """Have a function compiled as part of each that calls it, and alone only where Python calls it."""
    dispatcher: Function = _numba.njit(cache=True, no_cfunc_wrapper=True, inline="always")(function)
    return dispatcher


def absorbed(function: Function) -> Function:
    """Have a function written into its callers after both are compiled: for long ones with many arguments, whose
    references are else counted at every call."""
    dispatcher: Function = _numba.njit(cache=True, no_cfunc_wrapper=True, forceinline=True)(function)
    return dispatcher
