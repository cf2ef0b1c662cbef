"""Graphs in adjacency matrices, dense or sparse."""

from __future__ import annotations

import io
import warnings
import zlib
from pathlib import Path
from typing import Any, cast

import networkx as nx
import numpy as np
from scipy.sparse import coo_array, csr_array, issparse


def from_matrix(matrix: Any) -> nx.Graph[Any]:
    """Return the graph of an adjacency matrix, which is undirected if the matrix is symmetric.

    A nonzero entry in row i and column j is an edge; if the matrix is not symmetric, it means that i asks j. If entries
    differ from 0 and 1, they become the edges' attribute ``weight``.

    Parameters
    ----------
    matrix : array or sparse matrix, shape (V, V)

    Raises
    ------
    ValueError
        If the matrix is not square, or has entries that are not finite numbers.
    """
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        shape = " x ".join(map(str, matrix.shape))
        pairs = ": transpose edges, a pair in each row" if len(matrix.shape) == 2 and matrix.shape[0] == 2 else ""
        raise ValueError(f"an adjacency matrix has as many rows as columns, and this one is {shape}{pairs}")
    entries: Any = coo_array(matrix)
    if entries.dtype.kind not in "biuf" or not np.isfinite(entries.data).all():
        raise ValueError("an adjacency matrix holds finite numbers, and 0 between nodes without an edge")
    entries.sum_duplicates()
    entries.eliminate_zeros()
    turned = csr_array(entries, dtype=np.float64) - csr_array(entries.T, dtype=np.float64)
    symmetric = not turned.data.any()
    graph: nx.Graph[Any] = nx.Graph() if symmetric else nx.DiGraph()
    graph.add_nodes_from(range(matrix.shape[0]))
    rows, columns = entries.coords
    if not symmetric:
        warnings.warn(
            "the adjacency matrix is not symmetric: it is taken as that of a directed network, in which node i asks "
            "node j where row i has a number in column j; for an undirected one add the transpose",
            stacklevel=2,
        )
    if bool(np.all(entries.data == 1)):
        graph.add_edges_from(zip(rows.tolist(), columns.tolist(), strict=True))
    else:
        graph.add_weighted_edges_from(zip(rows.tolist(), columns.tolist(), entries.data.tolist(), strict=True))
    return graph


def is_sparse(value: object) -> bool:
    """Return whether something is a sparse matrix of scipy."""
    return bool(issparse(value))


# The arrays of a MATLAB file, whatever they are read for.

REMEDY = "save it with -v7"


def matlab_arrays(file: Path | bytes) -> dict[str, Any]:
    """Return the contents of a MATLAB file by name: arrays with two axes or more, and sparse matrices.

    Parameters
    ----------
    file : Path or bytes
        The file, or its contents.

    Raises
    ------
    ValueError
        If it is no MATLAB file of up to version 7; the message has the reason, without the remedy.
    """
    from scipy.io import loadmat  # a fifth of a second, which no other file should take
    from scipy.io.matlab import MatReadError

    opened: Any = io.BytesIO(file) if isinstance(file, bytes) else str(file)
    try:
        held = loadmat(cast("Any", opened), appendmat=False)
    except NotImplementedError as error:
        raise ValueError("it is written by MATLAB 7.3 in another form") from error
    except (MatReadError, ValueError, TypeError, IndexError, OSError, zlib.error) as error:
        raise ValueError(" ".join(str(error).split()) or "it is empty") from error
    return {name: value for name, value in held.items() if not name.startswith("__")}
