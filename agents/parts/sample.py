"""A sample of the training data, from which the words in a learner's configuration are resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from kernelswarm.agents.parts.losses import IntegratedLoss, Loss
from kernelswarm.arrays import Array

# The noise of a sample's targets, by the marginal likelihood of a Gaussian process with the learner's kernel.


RIDGES = np.logspace(-8.0, 2.0, 41)
"""Candidate ratios of noise to signal, a factor of 1.8 apart; step sizes depend on the root of the ratio."""

USUAL, DOUBT = 0.1, 3.0
"""Median of the prior of r, and standard deviation of log r. A few dozen samples outweigh the prior, unless they are so
far apart in the kernel that noise cannot be distinguished from a rough function."""

SHARED = (1.0, 0.5, 0.0)
"""Candidate shares of the function that all nodes have in common; 1 is a common target, 0 a separate one per node."""

OWN = np.array([0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
"""Shares of the function that are individual to each node; the likelihood is interpolated between these."""

COMMON = 0.5
"""The prior probability of a common target; all positive individual shares are equally likely a priori."""

LEADING, SPANNED = 500, 1e-9
"""The largest number of eigenvectors used to estimate shares, divided equally among nodes; and the threshold, as a
multiple of the number n of samples, below which an eigenvalue's direction contains only noise."""


def noise_ratio(gram: Array, values: Array, owners: npt.NDArray[np.intp]) -> tuple[float, float]:
    """Estimate the ratio of noise variance to signal variance by the likelihood of a Gaussian process.

    Let K be the Gram matrix in units of its mean diagonal, and S_nm = 1 for two samples of one node, else 0, since
    nodes may have different targets. The values are modelled by

        N(0, a (C + r I))        C_nm = K_nm (t + (1 - t) S_nm)

    The parameters a, r and t maximise the likelihood (type II maximum likelihood; Rasmussen and Williams 2006, eq. 5.8)
    times a log-normal prior of r; r and t are searched on a grid, and a has a closed form. Unlike a leave-one-out
    error, r does not include the part of the function that more samples would reveal.

    Results are cached, because all runs of a comparison need the noise of the same sample.

    Parameters
    ----------
    gram : Array
        Inner products of the directions in which a learner moves, (n, n).
    values : Array
        Centred targets, (n, C).
    owners : Array
        The node of each sample, (n,).

    Returns
    -------
    float
        r, the ridge in units of samples, within the range of `RIDGES`.
    float
        The noise variance a r as a fraction of the targets' variance, in [0, 1]; 0 if all targets are equal.
    """
    found: tuple[float, float] = _remembered(_most_likely, gram, values, owners)
    return found


def difference_ratio(gram: Array, values: Array, owners: npt.NDArray[np.intp]) -> float:
    """Estimate the ratio of the nodes' individual parts of the function to the noise.

    In the process of :func:`noise_ratio`, u = 1 - t is the share that nodes do not have in common. Its prior has the
    probability 1/2 at u = 0, and is uniform on (0, 1] otherwise. The result is the mean of u / r under the posterior of
    u, with the most likely r for each u. Uncertainty therefore counts as a difference: few or noisy samples do not show
    that targets are equal.

    Each node's samples are projected on the leading eigenvectors of their own Gram matrix. The remainder contains only
    noise, and the matrix to decompose is as small as the number of these eigenvectors.

    Parameters
    ----------
    gram : Array
        Inner products of the directions in which a learner moves, (n, n).
    values : Array
        Centred targets, (n, C).
    owners : Array
        The node of each sample, (n,).
    """
    return float(_remembered(_expected_difference, gram, values, owners))


def errors_left_out(gram: Array, values: Array, ridge: float) -> int:
    """Count the samples that are misclassified by kernel ridge regression on all other samples.

    The leave-one-out residual has the closed form ``[inv(K + r I) Y]_n / [inv(K + r I)]_nn``. Results are cached, as in
    :func:`noise_ratio`.

    Parameters
    ----------
    gram : Array
        Inner products of the directions in which a learner moves, (n, n).
    values : Array
        Centred targets, (n, C); the largest entry of a row is at the sample's class.
    ridge : float
        r in units of the mean of the diagonal.
    """
    return int(_remembered(_errors_left_out, gram, values, np.array([ridge])))


_known: dict[tuple[str, bytes], Any] = {}
"""The results, by the function and a digest of its arrays."""


def _remembered(compute: Callable[..., Any], gram: Array, values: Array, beside: npt.NDArray[np.generic]) -> Any:
    """Return a function's result for some arrays, computed once and cached."""
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
        surprises, amplitudes = surprises_by_ridge(gram / scale * np.where(together, 1.0, share), values)
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
            surprises, _ = surprises_by_ridge(shape * np.where(together, 1.0, 1.0 - own), turned, rest, noise)
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
    """Find the leading eigenvectors of each node's Gram matrix, and the part that is noise alone.

    Returns
    -------
    tuple
        The eigenvectors (n, N), 0 at other nodes' samples; the node of each, (N,); the number of directions that
        contain only noise, and the values' sum of squares in these directions.
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


def surprises_by_ridge(matrix: Array, values: Array, rest: int = 0, noise: float = 0.0) -> tuple[Array, Array]:
    """Compute twice the negative log of likelihood times prior for each r of `RIDGES`, and the amplitude a for each.

    ``rest`` further values of each output, with the sum of squares ``noise``, contain only noise.
    """
    forms, logarithms = _ridged(matrix, values)
    count, outputs = len(values) + rest, values.shape[1]
    amplitudes = (forms + noise / RIDGES) / (count * outputs)
    doubts = (np.log(RIDGES / USUAL) / DOUBT) ** 2
    return outputs * (count * np.log(amplitudes) + (logarithms + rest * np.log(RIDGES))) + doubts, amplitudes


def _ridged(matrix: Array, values: Array) -> tuple[Array, Array]:
    """Compute tr(Y' inv(A + r I) Y) and log det(A + r I) for each r of `RIDGES`, A symmetric and positive semidefinite.

    With a tridiagonal T, A = Q T Q', both take O(n) per ridge. Computing T takes three eighths of the time of
    eigenvectors.

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
        # Q leaves the first row alone; for the others its reflections are stored as in a QR decomposition.
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


RIDGE = 0.1
"""Ridge of the pilot fit, relative to kappa(x, x); from 0.01 to 1 it has little effect on an error rate."""

PILOT = 500
"""The number of points of the pilot fit; its time grows with the cube, and is 20 milliseconds for these."""


FIRST_SHARE = 0.4
"""The fraction of the error that a step corrects at its sample without noise; see `Auto`."""

ROWS = 1000
"""The number of points used for the difference of nodes, which takes up to an eighth of a second."""

FEW = 16
"""The number of points whose Gram matrix takes little longer than the call itself."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Training points and targets of a learner, with its inner products.

    Parameters
    ----------
    points, targets : Array
        (n, p) and (n, q), n >= 1; the samples of a node are consecutive, so that neighbouring rows form a batch.
    loss : Loss
        The learner's loss.
    outputs : int
        C, the number of outputs.
    batch_size : int
        b, the number of samples per step.
    gram : callable
        The inner products of the learner's step directions: points (m, p) give (m, m); kappa for kernel learners.
    owners : Array, optional
        The node of each sample, (n,); a single node by default.
    diagonal : callable, optional
        The diagonal of ``gram`` alone, (m, p) to (m,); by default it is computed from small Gram matrices.
    on_trial : bool
        Whether the learner's function predicts the targets with one kernel, so that kernels can be compared by errors.
    multiples : bool
        Whether to try multiples of a kernel's width; False for learners that mix kernels of several widths.
    steps : int
        The number of steps per round; V for a learner that takes one step for each of V nodes.
    settles : bool
        Whether the first steps may be larger; False for a learner that divides by its step size.
    certain : bool
        Whether pulls count like samples, for learners with posterior variances.
    neighbors : float
        The mean number of neighbours per node.
    """

    points: Array
    targets: Array
    loss: Loss
    outputs: int
    batch_size: int
    gram: Callable[[Array], Array]
    owners: npt.NDArray[np.intp] | None = None
    diagonal: Callable[[Array], Array] | None = None
    on_trial: bool = True
    multiples: bool = True
    steps: int = 1
    settles: bool = True
    certain: bool = False
    neighbors: float = 1.0

    @property
    def tells(self) -> bool:
        """Whether kernels can be compared by errors on held-out targets; False for events, which have no targets."""
        return self.on_trial and not isinstance(self.loss, IntegratedLoss)

    @property
    def classes(self) -> bool:
        return self.loss.task != "regression"

    @cached_property
    def values(self) -> Array:
        """The targets of a pilot fit, (n, C'): centred targets, or centred class indicators."""
        targets = self.targets
        if self.classes:
            targets = (targets == np.unique(targets)).astype(np.float64)
        centred: Array = targets - targets.mean(axis=0)
        return centred

    @cached_property
    def spread(self) -> float:
        """The scale of the targets: their standard deviation, ``sqrt(mean ||y - mean y||^2)``.

        If all targets are equal, it is their distance from 0, or 1 if that is 0 too.
        """
        found = float(np.sqrt(np.mean(np.sum(self.values**2, axis=1))))
        if found > 0.0 or self.classes:
            return found or 1.0
        return float(np.linalg.norm(self.targets[0])) or 1.0

    @cached_property
    def slope(self) -> float:
        """The size of the loss's derivative at the start of learning, ``sqrt(mean ||l'(c, y)||^2)``.

        c is 0 for classes and the mean of the targets for numbers, because a common offset of the targets is learned
        quickly. For the squared loss it is twice the targets' standard deviation.
        """
        center = np.zeros(self.outputs)
        if not self.classes and np.any(self.values):
            center[:] = self.targets.mean(axis=0)
        predictions = np.tile(center, (len(self.points), 1))
        slopes = np.asarray(self.loss.derivatives(predictions, self.targets.copy()))
        if slopes.shape != predictions.shape:
            raise ValueError(
                f"{type(self.loss).__name__}.derivatives returned an array of shape {slopes.shape}, and "
                f"{predictions.shape} is asked for"
            )
        if not np.isfinite(slopes).all():
            wrong = slopes[~np.isfinite(slopes)][0]
            raise ValueError(f"{type(self.loss).__name__}.derivatives returned {wrong} and must return finite numbers")
        return float(np.sqrt(np.mean(np.sum(slopes**2, axis=1)))) or 1.0

    @property
    def unit(self) -> float:
        """The scale of differences between functions: `spread`; 1 for classes and for events."""
        return 1.0 if self.classes or isinstance(self.loss, IntegratedLoss) else self.spread

    @property
    def typical_curvature(self) -> float:
        """The loss's slope divided by the spread of the targets: 2 for the squared loss in any unit.

        It is about the second derivative of a parabola that connects f = 0 with the targets, also for losses without a
        second derivative. It is 2 for classes and for events.
        """
        return 2.0 if self.classes or isinstance(self.loss, IntegratedLoss) else self.slope / self.spread

    @cached_property
    def largest_gain(self) -> float:
        """The largest kappa(x, x): the largest change of f at a sample for a weight of 1 there."""
        return float(self._gains.max()) if len(self.points) else 1.0

    @cached_property
    def mean_gain(self) -> float:
        """The mean of kappa(x, x)."""
        return float(np.mean(self._gains))

    @property
    def gain(self) -> float:
        """The kappa(x, x) by which step sizes are scaled: the mean, but at least two fifths of the largest.

        If kappa(x, x) is constant, it is that constant. Otherwise the noise in steps is proportional to the mean, as
        for least mean squares (Widrow and Hoff). A step that corrects two fifths of the error for this kappa(x, x)
        corrects at most the whole error for the largest kappa(x, x).
        """
        return max(self.mean_gain, FIRST_SHARE * self.largest_gain)

    @cached_property
    def _gains(self) -> Array:
        """kappa(x, x) of each sample, (n,); without ``diagonal``, from Gram matrices of a few samples at a time."""
        if self.diagonal is not None:
            return self.diagonal(self.points)
        starts = range(0, len(self.points), FEW)
        return np.concatenate([np.zeros(0), *(self.gram(self.points[k : k + FEW]).diagonal() for k in starts)])

    @cached_property
    def stiffness(self) -> float:
        """The largest eigenvalue of a batch's Gram matrix, divided by b: the effect of a batch relative to one sample.

        It is the maximum over up to eight batches of neighbouring rows. If the sample is smaller than a batch, the
        whole sample is used.
        """
        size = min(self.batch_size, len(self.points))
        starts = range(0, len(self.points) - size + 1, size)
        chosen = [starts[place] for place in np.linspace(0, len(starts) - 1, min(8, len(starts))).astype(int)]
        found = [float(np.linalg.eigvalsh(self.gram(self.points[start : start + size]))[-1]) for start in chosen]
        return max(found, default=1.0) / size

    @cached_property
    def noise(self) -> tuple[float, float]:
        """The ratio of noise to signal, and the noise's fraction of the targets' variance; see `noise_ratio`.

        Both are rounded to two digits, so that they are equal on all machines.
        """
        chosen = spaced(len(self.points), PILOT)
        owners = np.zeros(len(self.points), np.intp) if self.owners is None else self.owners
        gram = self.gram(np.ascontiguousarray(self.points[chosen]))
        ratio, share = noise_ratio(gram, self.values[chosen], owners[chosen])
        return float(f"{ratio:.1e}"), float(f"{share:.1e}")

    @cached_property
    def difference(self) -> float | None:
        """Ratio of the nodes' individual parts of the function to the noise; see `difference_ratio`.

        None for learners with first-order steps, whose pulls are in units of these steps.
        """
        if not self.certain:
            return None
        chosen = spaced(len(self.points), ROWS)
        owners = np.zeros(len(self.points), np.intp) if self.owners is None else self.owners
        gram = self.gram(np.ascontiguousarray(self.points[chosen]))
        return difference_ratio(gram, self.values[chosen], owners[chosen])

    @cached_property
    def error_rate(self) -> float:
        """The fraction of samples that are misclassified by kernel ridge regression on all other samples.

        At least one error is counted.
        """
        chosen = spaced(len(self.points), PILOT)
        gram, values = self.gram(np.ascontiguousarray(self.points[chosen])), self.values[chosen]
        return max(errors_left_out(gram, values, RIDGE), 1) / len(chosen)


def spaced(count: int, most: int) -> npt.NDArray[np.intp]:
    """Return the indices of up to ``most`` evenly spaced rows among ``count`` rows."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.intp)
