"""What a method is given, for it to keep, and what it returns, put where compiled code looks for it."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def kept(array: Array) -> Array:
    """Return an array that a method may keep: the given copy, or a new one where the array is a view of other memory,
    as without compilation."""
    return array if array.base is None else array.copy()


def fill(found: Array, answer: Any, method: str) -> None:
    """Copy what a method returned into an array.

    Raises
    ------
    ValueError
        When it has another shape, dimensions of length 1 may be missing, or holds no real numbers.
    """
    if type(answer) is not np.ndarray or answer.dtype != np.float64:
        answer = _numbers(answer, found.shape, method)
    if answer.shape != found.shape:
        if [count for count in answer.shape if count != 1] != [count for count in found.shape if count != 1]:
            raise ValueError(f"{method} returned an array of shape {answer.shape}, and {found.shape} is asked for")
        answer = answer.reshape(found.shape)
    found[...] = answer


def _numbers(answer: Any, shape: tuple[int, ...], method: str) -> Array:
    """Return what a method returned as an array of float64; raises ValueError where it holds no real numbers."""
    must = f"return an array of real numbers of shape {shape}"
    if answer is None:
        raise ValueError(f"{method} returned None: {must}")
    try:
        found = np.asarray(answer)
        numbers = found.astype(np.float64) if found.dtype.kind in "biufO" else None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{method} returned what holds no numbers ({error}): {must}") from error
    if numbers is None:
        raise ValueError(f"{method} returned entries of type {found.dtype}: {must}")
    return numbers
