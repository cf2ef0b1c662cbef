"""The names of the arrays in ``models.npz``: every function's own, with its node's label, and the dual variables."""

import hashlib
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_NAME = re.compile(r"(?!dual_)(\w+)_(-?\d+)")


class LearnedFunction(NamedTuple):
    """What is left of a node after the last round: its function's arrays, and its dual variables (deg,) if any."""

    arrays: dict[str, Array]
    duals: Array | None


LearnedFunctions = dict[int, LearnedFunction]


def model_arrays(functions: LearnedFunctions, neighbors: Mapping[int, tuple[int, ...]]) -> dict[str, Array]:
    """Name the arrays: ``<name>_<node>``, such as weights_3, and, for proximity, ``dual_<i>_<j>``."""
    models: dict[str, Array] = {}
    for node, (arrays, duals) in sorted(functions.items()):
        for name, array in arrays.items():
            models[f"{name}_{node}"] = array
        if duals is not None:
            for other, dual in zip(neighbors[node], duals, strict=True):
                models[f"dual_{node}_{other}"] = np.array(dual)
    return models


def function_arrays(models: Mapping[str, npt.NDArray[np.generic]]) -> dict[int, dict[str, Array]]:
    """Return the arrays of each node's function by their own names, the nodes in sorted order.

    Examples
    --------
    >>> function_arrays({"weights_7": np.zeros((2, 1)), "weights_-1": np.ones((1, 1)), "dual_7_3": np.array(0.5)})
    {-1: {'weights': array([[1.]])}, 7: {'weights': array([[0.],
           [0.]])}}
    """
    found: dict[int, dict[str, Array]] = {}
    for key, array in models.items():
        parts = _NAME.fullmatch(key)
        if parts:
            found.setdefault(int(parts[2]), {})[parts[1]] = array  # type: ignore[assignment]
    return dict(sorted(found.items()))


def digest(models: Mapping[str, Array]) -> str:
    """Compute the SHA-256 of all arrays: their names, types, shapes and bytes, in sorted order of the names."""
    total = hashlib.sha256()
    for name in sorted(models):
        array = np.ascontiguousarray(models[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()
