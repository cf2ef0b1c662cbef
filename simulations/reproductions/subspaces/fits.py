"""How well features in a subspace stand for samples: fits over time, the batch solver's, and kernel matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.subspaces import batch_subspace
from kernelswarm.agents.learners.subspaces.subspace import Subspace, Tracking
from kernelswarm.agents.parts.kernels import Kernel

Array = npt.NDArray[np.float64]

LAMBDA, WINDOW = 1e-3, 100


def fits_over_time(points: Array, kernel: Kernel, tracking: Tracking) -> Array:
    """Compute ``||phi(x_n) - L[n-1] q_n||^2`` of every sample, (n,)."""
    subspace = Subspace(kernel, tracking, points.shape[1])
    return np.array([subspace.visit(points[n : n + 1]).fit for n in range(len(points))])


def batch_fits(gram: Array, rank: int, generator: np.random.Generator) -> Array:
    """Compute the same with the batch solver's subspace of all points at once."""
    factor = batch_subspace.extract(gram, rank, LAMBDA, generator).factor
    image = gram @ factor
    inner = factor.T @ image
    q = np.linalg.solve(inner + LAMBDA * np.eye(rank), image.T).T
    fits: Array = np.diag(gram) - 2.0 * np.sum(image * q, axis=1) + np.sum((q @ inner) * q, axis=1)
    return fits


def inverse_root(gram: Array) -> Array:
    """Compute a B with ``B B' = inv(gram)``, (m, m)."""
    values, vectors = np.linalg.eigh(gram)
    root: Array = vectors / np.sqrt(np.maximum(values, 1e-12))
    return root


def mismatches(
    points: Array,
    gram: Callable[[slice], Array],
    ends: Sequence[int],
    fixed: Mapping[str, Callable[[slice], Array]],
    following: Mapping[str, Tracking],
    kernel: Kernel,
) -> dict[str, float]:
    """Compute each method's mean of ``||K_w - Z_w Z_w'||_F / 100`` over windows of 100 samples.

    ``fixed`` features are those of a window, ``gram`` is its kernel matrix; subspaces follow the samples to its end.
    """
    windows = {end: slice(end - WINDOW, end) for end in ends}
    found = {
        name: [batch_subspace.mismatch(gram(window), features(window)) for window in windows.values()]
        for name, features in fixed.items()
    }
    for name, tracking in following.items():
        subspace = Subspace(kernel, tracking, points.shape[1])
        line = found[name] = []
        for end in range(1, len(points) + 1):
            subspace.visit(points[end - 1 : end])
            if end in windows:
                line.append(batch_subspace.mismatch(gram(windows[end]), subspace.features(points[windows[end]])))
    return {name: float(np.mean(line)) for name, line in found.items()}
