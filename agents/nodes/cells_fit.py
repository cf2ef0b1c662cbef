"""Fit of a node's function to all known cells, with a relation between nodes that is learned from the cells.

For a space with orthonormal features z, kappa(x, x') = z(x)'z(x'), node j's function is ``z'(w + d_j)`` with the priors
``w ~ N(0, a I)`` and ``d_j ~ N(0, t_j I)``; its cells are observations of this function with independent errors.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from kernelswarm.arrays import Array, Integers

RATIOS = np.logspace(-9.0, 4.0, 105)
"""Candidate variances of a sample's noise, relative to the function's variance."""

EXPECTED, DEVIATION = np.log(0.1), np.log(100.0)
"""The prior of the logarithm of that ratio; for few samples, the likelihood is nearly flat."""

DIFFERENCES = np.concatenate([[0.0], np.logspace(-3.0, 15.0, 73)])
"""Candidate variances of the difference of two nodes' functions, relative to a function's variance."""

UNSPANNED = 1e-9
"""The share of a difference outside the span of the features."""

EXPECTATIONS = 3
"""Number of expectation-maximisation steps for the distribution of all nodes' differences."""

PSEUDO_COUNT = 0.1
"""The count of each class before the first sample (alpha_epsilon of Milios et al. 2018)."""


class Observed(NamedTuple):
    """The cells of a node as observations of its function."""

    features: Array  # (N, M)
    targets: Array  # (N, C)
    variances: Array  # (N,)


class Gaussian(NamedTuple):
    """The posterior of the weights of a function in the features."""

    mean: Array  # (M, C)
    precision: Array  # (M, M)
    prior: float  # the prior variance of each weight


def noise_and_ratio(seen: Observed, weights: Array, spread: Array) -> tuple[Array, float]:
    """Return the noise variance of each output, (C,), and its ratio to the function's variance, at the posterior mode.

    Means y of n samples are ``N(0, v (Z Z' / r + 1 / n))``. Sums of squares within own cells are v times chi-square
    with ``sum(n - 1)`` degrees of freedom.

    Parameters
    ----------
    seen : Observed
        The cells; their variances are in units of v.
    weights, spread : Array
        n, (N,), and the sums of squares within the cells for each output, (C,); NaN if unknown.
    """
    squares, stretched = _by_ratio(seen)
    freedom, within = float(len(weights)), np.zeros(seen.targets.shape[1])
    if np.isfinite(spread).all():
        freedom, within = freedom + max(float(np.sum(weights - 1.0)), 0.0), spread
    noise = ((1.0 / stretched) @ squares + within) / freedom  # (R, C)
    noise = np.maximum(noise, 1e-12 * np.mean(seen.targets**2, axis=0) + 1e-300)
    score = freedom * np.log(noise).sum(axis=1) + seen.targets.shape[1] * np.log(stretched).sum(axis=1)
    score += ((np.log(RATIOS) - EXPECTED) / DEVIATION) ** 2
    best = int(score.argmin())
    return noise[best], float(RATIOS[best])


def scale_of(seen: Observed) -> float:
    """Return the variance of a function at its posterior mode, given the errors of its observations."""
    squares, stretched = _by_ratio(seen)
    score = seen.targets.shape[1] * np.log(stretched).sum(axis=1) + ((1.0 / stretched) @ squares).sum(axis=1)
    return 1.0 / float(RATIOS[int((score + ((np.log(RATIOS) - EXPECTED) / DEVIATION) ** 2).argmin())])


def _by_ratio(seen: Observed) -> tuple[Array, Array]:
    """Return the squares of the targets along the axes of their covariance, (N, C), and the variances along these axes
    for each ratio of noise to function variance, in units of the noise variance, (R, N).

    With fewer features than targets, the axes are those of the features, plus one for the orthogonal complement.
    """
    root = 1.0 / np.sqrt(seen.variances)[:, np.newaxis]
    rows, aims = seen.features * root, seen.targets * root
    if rows.shape[1] >= len(rows):
        values, vectors = np.linalg.eigh(_symmetric(rows @ rows.T))
        squares = (vectors.T @ aims) ** 2
    else:
        values, vectors = np.linalg.eigh(_symmetric(rows.T @ rows))
        values = np.maximum(values, 1e-12 * values[-1] + 1e-300)
        squares = (vectors.T @ (rows.T @ aims)) ** 2 / values[:, np.newaxis]
        beside = np.maximum((aims**2).sum(axis=0) - squares.sum(axis=0), 0.0)
        values, squares = np.append(values, 0.0), np.vstack([squares, beside])
    return squares, np.maximum(values, 0.0) / RATIOS[:, np.newaxis] + 1.0


def alike(groups: Sequence[Observed]) -> list[tuple[Integers, Observed]]:
    """Group nodes by similar numbers of cells; returns each group's node indices and cells in common arrays.

    A node with fewer cells than others has trailing rows of zeros, with variances of 1.
    """
    sizes = np.array([len(seen.targets) for seen in groups])
    found = []
    for length in np.unique(np.frexp(sizes)[1]).tolist():
        places = np.flatnonzero(np.frexp(sizes)[1] == length)
        shape, first = (len(places), int(sizes[places].max())), groups[0]
        common = Observed(
            np.zeros((*shape, first.features.shape[1])), np.zeros((*shape, first.targets.shape[1])), np.ones(shape)
        )
        for row, place in enumerate(places.tolist()):
            for part, own in zip(common, groups[place], strict=True):
                part[row, : len(own)] = own
        found.append((places, common))
    return found


def combined(groups: Sequence[Observed], differences: Sequence[float], prior: float) -> tuple[Array, Array]:
    """Return the precision (M, M) of w, and the precision times its mean (M, C), for nodes with given differences."""
    inputs = groups[0].features.shape[1]
    rows = []
    for places, seen in alike(groups):
        both = np.concatenate([seen.features, seen.targets], axis=2)
        each = np.asarray(differences)[places]
        apart = each > 0.0
        rows.append((both[~apart] / np.sqrt(seen.variances[~apart])[:, :, np.newaxis]).reshape(-1, both.shape[2]))
        if apart.any():
            some = Observed(*(part[apart] for part in seen))
            root = _inverse_root(_covariance(some, some.features, each[apart, np.newaxis, np.newaxis]))
            rows.append((root @ both[apart]).reshape(-1, both.shape[2]))
    whole = np.concatenate(rows)
    products = whole.T @ whole
    return _symmetric(products[:inputs, :inputs]) + np.eye(inputs) / prior, products[:inputs, inputs:].copy()


def likelihoods(groups: Sequence[Observed], mean: Array, spread: Array, prior: float) -> Array:
    """Return the log likelihoods of all `DIFFERENCES` between other nodes' functions and the own function, (J, D).

    Parameters
    ----------
    groups : sequence of Observed
        The cells of the other nodes.
    mean, spread : Array
        The weights of the own function (M, C), and a root of their covariance, (M, M).
    prior : float
        The variance of a function.
    """
    found = np.empty((len(groups), len(DIFFERENCES)))
    for places, seen in alike(groups):
        root = _inverse_root(_covariance(seen, seen.features @ spread, np.ones((1, 1, 1))))
        inner = seen.features @ seen.features.swapaxes(1, 2)
        np.einsum("jkk->jk", inner)[:] += UNSPANNED * seen.features.any(axis=2)
        values, vectors = np.linalg.eigh(_symmetric(root @ inner @ root.swapaxes(1, 2)))
        residuals = root @ (seen.targets - seen.features @ mean)
        squares = ((vectors.swapaxes(1, 2) @ residuals) ** 2).sum(axis=2)  # (J, L)
        stretched = 1.0 + prior * DIFFERENCES[:, np.newaxis] * np.maximum(values, 0.0)[:, np.newaxis]  # (J, D, L)
        score = seen.targets.shape[2] * np.log(stretched).sum(axis=2)
        found[places] = -0.5 * (score + ((1.0 / stretched) @ squares[:, :, np.newaxis])[:, :, 0])
    return found


def differences_of(logs: Array) -> Array:
    """Return the most probable variance of each node's difference, relative to a function's variance, (J,).

    The prior is the distribution of the differences of all nodes, estimated from the same data (empirical Bayes, by
    expectation-maximisation), so other nodes decide if a node's cells are not informative.

    Parameters
    ----------
    logs : Array
        The log likelihoods of `DIFFERENCES` given the cells of each node, (J, D).
    """
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = np.full(logs.shape[1], 1.0 / logs.shape[1])
    for _ in range(EXPECTATIONS):
        posterior = shares * prior
        prior = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    found: Array = DIFFERENCES[(shares * prior).argmax(axis=1)]
    return found


def fit(groups: Sequence[Observed], own: int, prior: float, learned: bool) -> Gaussian:
    """Return the posterior of the own function given the cells of all nodes.

    Parameters
    ----------
    groups : sequence of Observed
        The cells of each node.
    own : int
        The index of the node's own cells in ``groups``, -1 without own cells.
    prior : float
        a, the variance of a function.
    learned : bool
        Whether nodes have different functions.
    """
    if not learned or own < 0 or len(groups) == 1:
        precision, moments = combined(groups, [0.0] * len(groups), prior)
        return Gaussian(_solved(_lower(precision), moments), precision, prior)
    alone, moments = combined([groups[own]], [0.0], prior)
    root = _lower(alone)
    mean, spread = _solved(root, moments), _behind(root, np.eye(len(root))).T
    others = [seen for place, seen in enumerate(groups) if place != own]
    differences = prior * differences_of(likelihoods(others, mean, spread, prior))
    share = float(np.median(differences)) / 2.0
    precision, moments = combined(others, np.maximum(differences - share, 0.0).tolist(), prior)
    if share > 0.0:  # the own function's share is added to the covariance: inv(inv(P) + h I)
        middle = _solved(_lower(precision), moments)
        stretched = _lower(np.eye(len(precision)) + share * precision)
        precision = _symmetric(_solved(stretched, precision))
        moments = precision @ middle
    seen = groups[own]
    precision = precision + (seen.features / seen.variances[:, None]).T @ seen.features
    moments = moments + (seen.features / seen.variances[:, None]).T @ seen.targets
    return Gaussian(_solved(_lower(precision), moments), precision, prior + share)


def span(rows: Callable[[int], Array], diagonal: Array, most: int, tolerance: float) -> tuple[Integers, Array]:
    """Return the indices of points that span all points up to a share of the largest kappa(x, x), sorted, and the
    kernel between all points and these points, (N, M).

    The points are the pivots of an incomplete Cholesky factor of the Gram matrix, at most ``most``.

    Parameters
    ----------
    rows : callable
        Returns the row of the Gram matrix at an index, (N,).
    diagonal : Array
        kappa(x, x), (N,).
    most, tolerance
        The maximum number of points, and the share.
    """
    left = diagonal.copy()
    limit = tolerance * float(left.max(initial=0.0))
    factor, gram = (np.zeros((min(most, len(left)), len(left))) for _ in range(2))
    chosen: list[int] = []
    for k in range(len(factor)):
        pivot = int(left.argmax())
        if left[pivot] <= limit:
            break
        gram[k] = rows(pivot)
        factor[k] = (gram[k] - factor[:k, pivot] @ factor[:k]) / np.sqrt(left[pivot])
        left -= factor[k] ** 2
        left[pivot] = 0.0
        chosen.append(pivot)
    order = np.argsort(chosen)
    return np.array(chosen, dtype=np.int64)[order], gram[order].T


def logits(shares: Array, weights: Array) -> tuple[Array, Array]:
    """Return the mean and variance of each class's log gamma variable, from counts of labels, both (N, K).

    With alpha = n p + alpha_epsilon they are ``log alpha - s / 2`` and ``s = log(1 / alpha + 1)``, a Gaussian
    approximation of the logarithm of a gamma variable; normalised gamma variables have a Dirichlet distribution
    (Milios, Camoriano, Michiardi, Rosasco and Filippone, NeurIPS 2018).
    """
    counts = shares * weights[:, None] + PSEUDO_COUNT
    variances = np.log1p(1.0 / counts)
    return np.log(counts) - variances / 2.0, variances


def _covariance(seen: Observed, features: Array, differences: Array) -> Array:
    """Return the covariances of nodes' cells, (J, L, L), for functions with given differences, (J or 1, 1, 1)."""
    found = differences * (features @ features.swapaxes(1, 2))
    np.einsum("jkk->jk", found)[:] += seen.variances + UNSPANNED * differences[:, 0]
    return found


def _inverse_root(covariances: Array) -> Array:
    """Return ``inv(L)`` for the Cholesky factors L of matrices (J, L, L)."""
    return np.linalg.inv(np.linalg.cholesky(covariances))


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.swapaxes(-1, -2)) / 2.0


def _lower(matrix: Array) -> Array:
    """Return the Cholesky factor L of ``L L'``; raises LinAlgError for indefinite matrices."""
    factor, failed = lapack.dpotrf(matrix, lower=1, clean=1)
    if failed:
        raise np.linalg.LinAlgError(f"the leading minor {failed} of a covariance is not positive")
    found: Array = factor
    return found


def _behind(factor: Array, rows: Array) -> Array:
    """Return ``inv(L) rows``."""
    found: Array = lapack.dtrtrs(factor, rows, lower=1)[0]
    return found


def _solved(factor: Array, rows: Array) -> Array:
    """Return ``inv(L L') rows``."""
    found: Array = lapack.dpotrs(factor, rows, lower=1)[0]
    return found
