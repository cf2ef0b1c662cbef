"""Names of the arrays in ``models.npz``: the functions' arrays with their nodes' labels, and dual variables.

Posteriors of functions have names that begin with ``posterior_``, and conformal bands are ``conformal_band_<node>``.
These arrays are not part of the functions or their digest.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.certainty import PREFIX
from kernelswarm.agents.nodes.conformal_band import NAME
from kernelswarm.arrays import Array

_NAME = re.compile(r"(?!dual_)(\w+)_(-?\d+)")


class LearnedFunction(NamedTuple):
    """A node's result after the last round.

    The arrays of its function, its dual variables (deg,) if any, and the arrays of its variance and its conformal band.
    """

    arrays: dict[str, Array]
    duals: Array | None
    posterior: dict[str, Array]


LearnedFunctions = dict[int, LearnedFunction]


def model_arrays(functions: LearnedFunctions, neighbors: Mapping[int, tuple[int, ...]]) -> dict[str, Array]:
    """Name the arrays: ``<name>_<node>``, such as weights_3, and, for proximity, ``dual_<i>_<j>``."""
    models: dict[str, Array] = {}
    for node, (arrays, duals, posterior) in sorted(functions.items()):
        for name, array in (*arrays.items(), *posterior.items()):
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
    for node, name, array in _named(models):
        if not _of_no_function(name):
            found.setdefault(node, {})[name] = array
    return dict(sorted(found.items()))


def posterior_arrays(models: Mapping[str, npt.NDArray[np.generic]]) -> dict[int, dict[str, Array]]:
    """Return the arrays of variances, by node and their own names, for nodes that have them.

    Examples
    --------
    >>> posterior_arrays({"weights_7": np.zeros((2, 1)), "posterior_noise_7": np.array([0.5])})
    {7: {'posterior_noise': array([0.5])}}
    """
    found: dict[int, dict[str, Array]] = {}
    for node, name, array in _named(models):
        if name.startswith(PREFIX):
            found.setdefault(node, {})[name] = array
    return found


def band_arrays(models: Mapping[str, npt.NDArray[np.generic]]) -> dict[int, dict[str, Array]]:
    """Return the array of the conformal band by node and its own name, for nodes that have one."""
    return {node: {name: array} for node, name, array in _named(models) if name == NAME}


def _of_no_function(name: str) -> bool:
    """Tell whether an array, whose name may end with a node's label, belongs to a variance or a band."""
    return name == NAME or name.startswith((PREFIX, f"{NAME}_"))


def _named(models: Mapping[str, npt.NDArray[np.generic]]) -> Iterator[tuple[int, str, Array]]:
    """Yield the label of the node, the name and the array, of all arrays but dual variables."""
    for key, array in models.items():
        parts = _NAME.fullmatch(key)
        if parts:
            yield int(parts[2]), parts[1], array  # type: ignore[misc]


def digest(models: Mapping[str, Array]) -> str:
    """Compute the SHA-256 of the functions and dual variables: names, types, shapes and bytes, sorted by the names."""
    total = hashlib.sha256()
    for name in sorted(models):
        if _of_no_function(name):
            continue
        array = np.ascontiguousarray(models[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()
