"""The noise of a sample's targets, by the marginal likelihood of a Gaussian process with the learner's kernel."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

Array = npt.NDArray[np.float64]

RIDGES = np.logspace(-8.0, 2.0, 41)
"""Ratios of noise to signal that are tried, a factor of 1.8 apart: steps go with the root of what is found."""

USUAL, DOUBT = 0.1, 3.0
"""The middle and the deviation of log r, of what is believed of the ratio beforehand: a few dozen samples outweigh it,
unless they are so far apart for the kernel that noise cannot be separated from a function of that roughness."""

SHARED = (1.0, 0.5, 0.0)
"""Shares of what is learned that all nodes have in common that are tried: from one target to one of each node's own."""

OWN = np.array([0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
"""Shares of what is learned that are each node's own, between which their likelihood is interpolated."""

COMMON = 0.5
"""What is believed beforehand of one target for all; beyond it all shares are as likely."""

LEADING, SPANNED = 500, 1e-9
"""The most eigenvectors that are looked at for shares, of each node as many; where an eigenvalue of n samples is at
most n times the latter, no function is learned."""


def noise_ratio(gram: Array, values: Array, owners: npt.NDArray[np.intp]) -> tuple[float, float]:
    """Compute the ratio of the noise's variance to that of the function beneath it, most likely for a Gaussian process.

    With K the Gram matrix in units of its mean diagonal, and S_nm = 1 for two samples of one node, else 0, since nodes
    may have targets of their own, the values are taken to be drawn from

        N(0, a (C + r I))        C_nm = K_nm (t + (1 - t) S_nm)

    and a, r and t are those that maximise the likelihood (type II maximum likelihood; Rasmussen and Williams 2006,
    eq. 5.8) times a log-normal belief about r, r and t on a grid and a in closed form. Other than a leave-one-out error
    it does not count as noise what more samples would show.

    What was found is remembered: the runs of a comparison all ask for the noise of one sample.

    Parameters
    ----------
    gram : Array
        Inner products of what a learner moves along, (n, n).
    values : Array
        Centred targets, (n, C).
    owners : Array
        The node of each sample, (n,).

    Returns
    -------
    float
        r, of the process: what a ridge is in samples, between the ends of `RIDGES`.
    float
        The variance a r of the noise as a share of the targets' variance, in [0, 1]; 0 where all targets are equal.
    """
    found: tuple[float, float] = _remembered(_most_likely, gram, values, owners)
    return found


def difference_ratio(gram: Array, values: Array, owners: npt.NDArray[np.intp]) -> float:
    """Compute how much of the functions beneath the values is each node's own, over the noise.

    With the process of :func:`noise_ratio`, u = 1 - t is the share that nodes do not have in common. It has a belief of
    its own: that it is 0 is as likely as all of (0, 1], and there all values are as likely. The result is the mean of
    u / r under the posterior of u, r at each u the most likely one. So doubt counts as a difference: few samples, or
    noisy ones, do not show that targets are the same.

    Each node's samples are turned into the leading eigenvectors of their own Gram matrix. What these leave is noise
    alone, and what is left to decompose is as large as the functions are rich.

    Parameters
    ----------
    gram : Array
        Inner products of what a learner moves along, (n, n).
    values : Array
        Centred targets, (n, C).
    owners : Array
        The node of each sample, (n,).
    """
    return float(_remembered(_expected_difference, gram, values, owners))


def errors_left_out(gram: Array, values: Array, ridge: float) -> int:
    """Count the samples whose class kernel ridge regression on all others gets wrong.

    The leave-one-out residual has the closed form ``[inv(K + r I) Y]_n / [inv(K + r I)]_nn``. What was found is
    remembered, as by :func:`noise_ratio`.

    Parameters
    ----------
    gram : Array
        Inner products of what a learner moves along, (n, n).
    values : Array
        Centred targets, (n, C), the largest at the class.
    ridge : float
        r in units of the mean of the diagonal.
    """
    return int(_remembered(_errors_left_out, gram, values, np.array([ridge])))


_known: dict[tuple[str, bytes], Any] = {}
"""The results, by the function and a digest of its arrays."""


def _remembered(compute: Callable[..., Any], gram: Array, values: Array, beside: npt.NDArray[np.generic]) -> Any:
    """Return what a function computes of some arrays, once for each."""
    asked = blake2b(repr(values.shape).encode())
    for array in (gram, values, beside):
        asked.update(np.ascontiguousarray(array).data)
    key = compute.__name__, asked.digest()
    if key not in _known:
        _known[key] = compute(gram, values, beside)
    return _known[key]


def _errors_left_out(gram: Array, values: Array, ridge: Array) -> int:
    inverse = np.linalg.inv(gram + ridge * np.mean(np.diag(gram)) * np.eye(len(gram)))
    left_out = values - (inverse @ values) / np.diag(inverse)[:, None]
    return int(np.count_nonzero(left_out.argmax(axis=1) != values.argmax(axis=1)))


def _most_likely(gram: Array, values: Array, owners: npt.NDArray[np.intp]) -> tuple[float, float]:
    scale = float(np.mean(np.diag(gram)))
    total = float(np.mean(values**2))
    if not (scale > 0.0 and total > 0.0):
        return float(RIDGES[0]), 0.0
    together = owners[:, None] == owners[None, :]
    least, found = np.inf, (float(RIDGES[0]), 0.0)
    for share in (1.0,) if together.all() else SHARED:
        surprises, amplitudes = _surprises(gram / scale * np.where(together, 1.0, share), values)
        best = int(np.argmin(surprises))
        if surprises[best] < least:
            least = float(surprises[best])
            found = float(RIDGES[best]), min(1.0, float(RIDGES[best] * amplitudes[best] / total))
    return found


def _expected_difference(gram: Array, values: Array, owners: npt.NDArray[np.intp]) -> float:
    scale = float(np.mean(np.diag(gram)))
    if not (scale > 0.0 and np.any(values)):
        return 0.0
    leading, owning, rest, noise = _by_node(gram / scale, values, owners)
    shape, turned = leading.T @ gram @ leading / scale, leading.T @ values
    together = owning[:, None] == owning[None, :]
    likelihoods, ridges = np.empty(len(OWN)), np.empty(len(OWN))
    for place, own in enumerate(OWN):
        with np.errstate(invalid="ignore"):  # a kernel of few bits is not positive semidefinite at the least ridges
            surprises, _ = _surprises(shape * np.where(together, 1.0, 1.0 - own), turned, rest, noise)
        surprises = np.where(np.isfinite(surprises), surprises, np.inf)
        best = int(np.argmin(surprises))
        likelihoods[place], ridges[place] = -0.5 * surprises[best], RIDGES[best]
    steps = np.diff(OWN)
    weights = 0.5 * (np.append(steps, 0.0) + np.append(0.0, steps)) * (1.0 - COMMON)
    weights[0] += COMMON
    weights *= np.exp(likelihoods - likelihoods.max())
    return float(np.sum(weights * OWN / ridges) / np.sum(weights))


def _by_node(
    gram: Array, values: Array, owners: npt.NDArray[np.intp]
) -> tuple[Array, npt.NDArray[np.intp], int, float]:
    """Find the leading eigenvectors of each node's Gram matrix, and what is noise alone.

    Returns
    -------
    tuple
        The eigenvectors (n, N), 0 at other nodes' samples; the node of each, (N,); the number of directions in which no
        function reaches, and the values' sum of squares there.
    """
    nodes = np.unique(owners)
    most, columns, owning, rest, noise = max(1, LEADING // len(nodes)), [], [], 0, 0.0
    for node in nodes:
        rows = np.flatnonzero(owners == node)
        found, vectors = np.linalg.eigh(gram[np.ix_(rows, rows)])
        beyond = int(np.count_nonzero(found <= SPANNED * len(rows)))  # ascending
        kept = vectors[:, max(beyond, len(rows) - most) :]
        column = np.zeros((len(gram), kept.shape[1]))
        column[rows] = kept
        columns.append(column)
        owning.append(np.full(kept.shape[1], node))
        rest += beyond
        noise += float(np.sum((vectors[:, :beyond].T @ values[rows]) ** 2))
    return np.hstack(columns), np.concatenate(owning), rest, noise


def _surprises(matrix: Array, values: Array, rest: int = 0, noise: float = 0.0) -> tuple[Array, Array]:
    """Compute twice the negative logarithm of likelihood times belief for each r of `RIDGES`, and each's amplitude a.

    ``rest`` more values of each output have the sum of squares ``noise``, and the process does not reach them.
    """
    forms, logarithms = _ridged(matrix, values)
    count, outputs = len(values) + rest, values.shape[1]
    amplitudes = (forms + noise / RIDGES) / (count * outputs)
    doubts = (np.log(RIDGES / USUAL) / DOUBT) ** 2
    return outputs * (count * np.log(amplitudes) + (logarithms + rest * np.log(RIDGES))) + doubts, amplitudes


def _ridged(matrix: Array, values: Array) -> tuple[Array, Array]:
    """Compute tr(Y' inv(A + r I) Y) and log det(A + r I) for each r of `RIDGES`, A symmetric and positive semidefinite.

    With A = Q T Q', T tridiagonal, both take O(n) steps a ridge. T takes three eighths of the time of eigenvectors.

    Parameters
    ----------
    matrix : Array
        A, (n, n).
    values : Array
        Y, (n, C).
    """
    size = len(matrix)
    turned = np.asfortranarray(values, dtype=np.float64)
    diagonal, beside = matrix.diagonal().copy(), np.zeros(0)
    if size > 1:
        room, _ = lapack.dsytrd_lwork(size, lower=1)
        reflectors, diagonal, beside, scales, _ = lapack.dsytrd(matrix, lower=1, lwork=int(room))
        # Q leaves the first row alone; for the others its reflections are stored as those of a QR decomposition are.
        turned = np.vstack([values[:1], _turned_back(reflectors[1:, :-1], scales, values[1:])])
    forms, logarithms = np.empty(len(RIDGES)), np.empty(len(RIDGES))
    for place, ridge in enumerate(RIDGES):
        pivots, _, solved, _ = lapack.dptsv(diagonal + ridge, beside, turned)
        forms[place], logarithms[place] = np.sum(turned * solved), np.sum(np.log(pivots))
    return forms, logarithms


def _turned_back(reflectors: Array, scales: Array, values: Array) -> Array:
    """Compute Q' Y from the reflections whose product is Q, as LAPACK stores them."""
    _, work, _ = lapack.dormqr("L", "T", reflectors, scales, values, -1)
    turned: Array = lapack.dormqr("L", "T", reflectors, scales, values, int(work[0]))[0]
    return turned
