"""The smooth end of the graph Laplacian's spectrum: its smallest nonzero eigenvalues and their eigenvectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, cg, eigsh, splu

from kernelswarm.graphs.adjacency import Array

DENSE_NODES = 500  # 0.1 s; the dense solver's time grows with the cube
FACTORED_NODES = 10_000  # with many neighbors each; sparse factors of 30,000 such nodes take minutes
FACTORED_DEGREE = 4.5  # mean of rings, trees and grids, whose factors stay small
LARGEST_NODES = 200_000  # beyond that either way takes minutes
ITERATIONS = 300  # of conjugate gradients; ring of 10,000 would need 5,000, a random graph of degree 10 needs 60


def laplacian_eigenpairs(adjacency: csr_array, count: int, seed: int = 0) -> tuple[Array, Array]:
    """Return the smallest nonzero eigenvalues of ``L = diag(degrees) - A`` of a connected graph, with eigenvectors.

    Up to 500 nodes by a dense solver, beyond that by Lanczos iterations on the pseudoinverse of L. Its systems are
    solved by conjugate gradients where these are quick, in networks that mix fast (most random ones), and otherwise by
    sparse factors, which stay small where few edges separate the network's halves (rings, grids, trees).

    Parameters
    ----------
    adjacency : csr_array, shape (V, V)
        Symmetric, of a connected graph with V > count.
    count : int
        How many.
    seed : int
        Starts the iterations; it only affects the vectors where eigenvalues coincide.

    Returns
    -------
    values : array, shape (count,)
        Ascending.
    vectors : array, shape (V, count)
    """
    nodes = adjacency.shape[0]
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
    if nodes <= DENSE_NODES:
        values, vectors = eigh(np.diag(degrees) - adjacency.toarray(), subset_by_index=(1, count))
        return np.asarray(values, dtype=np.float64), np.asarray(vectors, dtype=np.float64)
    solve = _pseudoinverse(csr_array(diags_array(degrees) - adjacency), degrees)
    start = np.random.default_rng(seed).standard_normal(nodes)
    operator = LinearOperator(adjacency.shape, matvec=solve, dtype=np.float64)
    values, vectors = eigsh(operator, k=count, which="LA", v0=start - start.mean(), tol=1e-9)
    order = np.argsort(-values)
    return 1 / values[order], vectors[:, order]


def tractable(adjacency: csr_array) -> bool:
    """Tell whether :func:`laplacian_eigenpairs` takes seconds.

    Not of a huge network, nor of a large one that is dense and mixes slowly.
    """
    nodes = adjacency.shape[0]
    if nodes > LARGEST_NODES:
        return False
    if nodes <= FACTORED_NODES or adjacency.nnz <= FACTORED_DEGREE * nodes:
        return True
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
    return _mixes_fast(csr_array(diags_array(degrees) - adjacency), degrees)


def _mixes_fast(laplacian: csr_array, degrees: Array) -> bool:
    trial = np.random.default_rng(0).standard_normal(len(degrees))
    return _iterate(laplacian, degrees, trial - trial.mean())[1] == 0


def _iterate(laplacian: csr_array, degrees: Array, centered: Array) -> tuple[Array, int]:
    return cg(laplacian, centered, rtol=1e-11, maxiter=ITERATIONS, M=diags_array(1 / degrees))


def _pseudoinverse(laplacian: csr_array, degrees: Array) -> Callable[[Array], Array]:
    """Return the map from b to the solution x of mean zero of ``L x = b - mean(b)``."""
    sparse = degrees.sum() <= 2 * len(degrees)  # a tree, or one cycle with trees: its factors are as sparse
    quick = not sparse and _mixes_fast(laplacian, degrees)
    # With node 0 held at zero, L is positive definite.
    factors = None if quick else splu(laplacian[1:, 1:].tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)

    def solve(vector: Array) -> Array:
        centered = vector.ravel() - vector.mean()
        if factors is None:
            solution = _iterate(laplacian, degrees, centered)[0]
        else:
            solution = np.append(0.0, factors.solve(centered[1:]))
        return np.asarray(solution - solution.mean(), dtype=np.float64)

    return solve
