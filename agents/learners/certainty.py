"""The common parts of second-order learners: the ridge, the terms of a step, and the posterior variance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular

from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.learners import information
from kernelswarm.agents.learners.contract import PredictiveVariance
from kernelswarm.agents.learners.descent import Descent
from kernelswarm.agents.learners.varying_noise import calibrated, varying_noise
from kernelswarm.agents.learners.weighted_loss import Weighted
from kernelswarm.agents.parts.losses import grid_of
from kernelswarm.agents.parts.plain_parts import kernel_diagonal, kernel_rows
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey

RIDGE_OF_NUMBERS, RIDGE_OF_CLASSES, RIDGE_OF_MARGINS = 0.1, 0.005, 0.2
"""Ridges for "auto". For numbers the first is the lower bound, and noisier targets get more. For classes the second is
the lower bound, since separable classes need functions of large norm; overlapping classes get more. Squared hinges,
whose margin bounds the norm, always get the third: among .05 to .8 it had the smallest or second smallest error on ten
data sets (docs/estimators.md)."""

OVERLAP = 0.25
"""The ridge of logistic losses as a multiple of the noise-to-signal ratio. Their curvature is small where a class is
nearly certain, so that samples weigh less than in a squared regression on class indicators. Among .06 to 1 this value
had the smallest risk, or one within 5% of it."""


class CertainDescent(Descent):
    """A learner that stores the factor of a regularised least-squares problem, and so the posterior of its function."""

    ridge: float | Literal["auto"]
    forgetting: float | Literal["auto"]
    tuned_by: ClassVar[tuple[str, ...]] = ("ridge",)
    batch_size: int
    kernel: Any

    ranges: ClassVar = {
        "ridge": Range("(0, inf)", "", "auto"),
        "forgetting": Range("(0, 1]", "1 forgets nothing", "auto"),
        "batch_size": Range("[1, inf)"),
    }

    @property
    def automatic(self) -> tuple[str, ...]:
        """The keys to be resolved from data: the ridge if it is "auto", except for squared hinges."""
        return ("ridge",) if self.ridge == "auto" and not self._margins else ()

    @property
    def _margins(self) -> bool:
        """Whether the loss is a squared hinge, whose margin determines the size of the function."""
        return self.loss.task != "regression" and self.loss.curvature > 1.0

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with the ridge computed from the noise in a sample of the data.

        If function and noise are Gaussian processes whose variances have the ratio 1 to r, kernel ridge regression with
        the ridge r is the best predictor (`noise_ratio`). The ridge has a lower bound: with a smaller one the function
        is so certain that neighbours no longer change it. For classes, r is estimated by regression on the class
        indicators, and logistic losses use a quarter of r. The lower bound is in units of the kernel without its trend,
        because the trend is almost certain after a few samples.
        """
        kernel = self.kernel
        seen = replace(
            sample, gram=lambda chosen: kernel_rows(kernel, chosen, chosen), diagonal=partial(kernel_diagonal, kernel)
        )
        ratio, _ = seen.noise
        least, ratio = (RIDGE_OF_CLASSES, OVERLAP * ratio) if seen.classes else (RIDGE_OF_NUMBERS, ratio)
        gain: float = seen.mean_gain
        ridge = max(least * getattr(kernel, "remainder", gain), ratio * gain)
        return replace(self, ridge=ridge)  # type: ignore[type-var]

    @property
    def adaptive(self) -> bool:
        """Whether the forgetting factor is adapted during the run."""
        return self.forgetting == "auto"

    @property
    def share(self) -> float:
        """beta; 0 if it is adapted during the run."""
        return 0.0 if self.forgetting == "auto" else float(self.forgetting)

    @property
    def linear(self) -> bool:
        """False, because the effect of a sample depends on the posterior variance at its point."""
        return False

    @property
    def penalty(self) -> float:
        """lambda, in units of the loss."""
        ridge = self.ridge
        if ridge == "auto":
            of_classes = RIDGE_OF_MARGINS if self._margins else RIDGE_OF_CLASSES
            ridge = RIDGE_OF_NUMBERS if self.loss.task == "regression" else of_classes
        return ridge * self.loss.curvature

    @property
    def of_weight_one(self) -> float:
        """The curvature of a sample of weight 1 if the loss is weighted, otherwise 0."""
        return self.loss.curvature if isinstance(self.loss, Weighted) else 0.0

    @property
    def reach(self) -> float:
        """The factor that turns the weight ``eta / b`` of a pull into 1, the weight of a sample in the sum."""
        return self.batch_size / self.step_size.largest

    @property
    def gaussian(self) -> bool:
        """Whether the function is the posterior mean of a Gaussian process: squared loss of numbers and a ridge."""
        return self.loss.task == "regression" and self.loss.quadratic and self.penalty > 0.0


def check_certain(learner: CertainDescent) -> None:
    """Refuse keys out of their ranges, and losses that do not suit them."""
    check_ranges(learner)
    loss = learner.loss
    if learner.ridge == 0.0 and not loss.quadratic:
        raise RefusedKey("loss", "is not quadratic, and its curvature can vanish: with it ridge must be positive", loss)
    if not loss.curvature > 0.0:
        other = "polk" if grid_of(loss) is None else "spppot"  # the only learner for losses with an integral
        raise RefusedKey(
            "loss",
            "has no curvature, and second-order steps divide by it: use squared, huber, "
            f'logistic, multiclass_logistic, squared_hinge or multiclass_squared_hinge, or learner.name = "{other}"',
            loss,
        )
    if learner.forgetting == "auto" and (loss.task != "regression" or not loss.quadratic):
        other = 'loss = "squared", or ' if loss.task == "regression" else ""
        raise RefusedKey(
            "forgetting",
            f'= "auto" compares likelihoods, which the squared loss of numbers has: take {other}a number, such as 0.99',
        )


# The posterior variance of the values of a second-order learner's function.

LONG_LOOPS = True

ROWS = 1024
"""The number of points whose kernel rows are computed at a time."""


class Seen(NamedTuple):
    """``kappa(x, .)`` at points, in the span of a dictionary and beyond it."""

    images: Array  # (n, M), in an orthonormal basis of the span
    known: Array  # (M, n), inv(R') k of the kernel rows k
    rest: Array  # (n,), the squared distance from the span


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior variance of a function's values, and the variance of the targets' noise.

    The function is the posterior mean of a Gaussian process whose prior has the covariance kappa / ridge, in units of
    the noise's variance. With the kernel rows k of the dictionary, H the curvature of the risk so far, and z the image
    of kappa(x, .) in the span of the dictionary,

        v(x) = scale (k' inv(H) k + (kappa(x, x) - z'z) / lambda)

    Far from all samples v(x) is the prior variance. For a function of features phi, ``v(x) = scale phi' inv(H) phi``.
    The function's values have the variance ``v(x) noise``, and targets have the variance ``(1 + v(x)) noise``
    (Rasmussen and Williams 2006, eq. 2.26 and 8.14).

    Parameters
    ----------
    function : Any
        The function: a sum of kernels, or one that is linear in ``features``.
    root : Array
        R, (M, M) upper triangular, with ``R'R = H``.
    factor : Array or None
        U, (M, M) lower triangular, with ``U'U = inv(K_DD)``; None for a function of features.
    ridge : float
        lambda, above 0.
    scale : float
        The second derivative of the loss, which converts inverse curvatures into units of the noise variance.
    noise : Array
        The noise variance of each output, (C,), in the learner's units. It is NaN for a node without samples of its
        own, even if neighbours taught it values: then only v is known.
    levels : Array, optional
        The noise as a function of the input, (3 + M, C): a shift, the smallest and the largest allowed log ratio, and
        weights. The logarithm of the noise variance over ``noise`` is the shift plus ``rows(x) @ weights``, clipped to
        the two bounds; see `varying_noise`.
    beyond : Array, optional
        (3,): the excess of the prior variance, the level of the remaining share at points like the samples, and the
        ridge of the function; see `apart_from`.
    """

    function: Any
    root: Array
    factor: Array | None
    ridge: float
    scale: float
    noise: Array
    levels: Array | None = None
    beyond: Array | None = None

    def variance(self, points: Array) -> Array:
        """Return v at ``points`` (n, p), in units of the noise's variance: (n,), not negative."""
        found = np.empty(len(points))
        for start in range(0, len(points), ROWS):
            some = np.ascontiguousarray(points[start : start + ROWS])
            part = found[start : start + len(some)]
            rows = np.require(self._rows(some), requirements=["C", "W"])
            if self.factor is None:
                of_features(self.root, rows, part)
            else:
                of_kernels(self.root, self.factor, rows, kernel_diagonal(self.function.kernel, some), self.ridge, part)
            part *= self.scale
            if self.beyond is not None:
                excess, level, ridge = self.beyond.tolist()
                part += excess * np.maximum(self._left(self.seen(some), ridge) - level, 0.0)
        return found

    def seen(self, points: Array) -> Seen:
        """Return the images of ``points`` (n, p) in the span of the dictionary, by matrix products of all together."""
        assert self.factor is not None
        rows = self._rows(points)
        images = rows @ np.tril(self.factor).T
        rest = kernel_diagonal(self.function.kernel, points) - np.sum(images**2, axis=1)
        return Seen(images, solve_triangular(self.root, rows.T, trans=1), np.maximum(rest, 0.0))

    def variance_of(self, seen: Seen) -> Array:
        """Return v of :meth:`variance`; here, other than there, the last bits depend on the number of points."""
        found: Array = self.scale * (np.sum(seen.known**2, axis=0) + seen.rest / self.ridge)
        return found

    def apart_from(self, seen: Seen, times: float = 1.0) -> Posterior:
        """Return a copy with the function's own prior variance far from the points seen, some or all of the samples.

        The ridge has a lower bound. With little noise the prior that corresponds to it therefore has a smaller variance
        than the function. Let g be an eigenvalue of the samples' Gram operator S. In its direction, samples reduce the
        prior to the fraction ``r = lambda / (l'' g + lambda)``, and a function whose prior variance is P times the
        noise variance has the expected squared norm

            E ||f||^2 / noise = P tr((1 - r)^2) + tr((1 - r)^2 / g)

        P is computed from this equation. The mean squared error of f at x is then larger by
        ``(P - l'' / lambda) q(x)`` with ``q(x) = ||r kappa(x, .)||^2``. The noise estimate already contains
        this excess at points like the samples. So only the part of q above its 95% quantile at ``points`` counts.
        """
        assert self.factor is not None
        ridge, weights = self.ridge / times, self.function.weights
        if not len(weights) or not (self.noise > 0.0).all():
            return self
        below = np.tril(self.factor)
        inverse = solve_triangular(self.root, solve_triangular(below, np.eye(len(below)), lower=True), trans=1)
        known = inverse.T @ inverse  # the inverse of H in an orthonormal basis
        share = np.eye(len(known)) - ridge * known
        own = solve_triangular(below, weights, trans=1, lower=True)
        norm = float(np.mean(np.sum(own * own, axis=0) / self.noise))
        prior = (norm - self.scale * np.sum(share * known)) / np.sum(share * share)
        if not prior > self.scale / self.ridge:
            return self
        level = float(np.quantile(self._left(seen, ridge), 0.95))
        return replace(self, beyond=np.array([prior - self.scale / self.ridge, level, ridge]))

    def _left(self, seen: Seen, ridge: float) -> Array:
        """Return q, (n,)."""
        assert self.factor is not None
        inside = solve_triangular(self.root, seen.known)
        inside = solve_triangular(np.tril(self.factor), inside, trans=1, lower=True)
        found: Array = ridge * ridge * np.sum(inside * inside, axis=0) + seen.rest
        return found

    def noise_ratio(self, points: Array) -> Array:
        """Return the noise variance at ``points`` (n, p) divided by ``noise``, (n, C); 1 if the noise is constant."""
        if self.levels is None:
            return np.ones((len(points), len(self.noise)))
        shift, least, greatest = self.levels[:3]
        found: Array = np.exp(shift + np.clip(self._rows(points) @ self.levels[3:], least, greatest))
        return found

    @property
    def knows_noise(self) -> bool:
        """Whether the noise is known, so that v can be converted into variances of values and targets."""
        return bool(np.isfinite(self.noise).all())

    def thinned(self, times: float) -> Posterior:
        """Return the variance for samples that were counted ``times`` times each, at least 1, and should count once.

        With the curvature S of the distinct samples, ``inv(S + lambda K)`` is approximated by
        ``inv(S + lambda K / times)`` in the dictionary's span. The approximation is never smaller, and hardly larger
        near samples.
        """
        return self if times == 1.0 else replace(self, root=self.root / math.sqrt(times))

    def following(self, points: Array, errors: Array) -> Posterior:
        """Return a copy whose noise is fitted to the newest errors (n, C), before their steps, at ``points`` (n, p)."""
        levels = varying_noise(self, self.images(points), self.variance(points), errors, np.ones(len(points)))
        if levels is None:
            return self
        return replace(self, levels=calibrated(replace(self, levels=levels), points, errors))

    def leverage(self, seen: Seen, weights: Array) -> Array:
        """Return the leverages of the samples, (n,), in [0, 1).

        With the image z_i of sample i in the span of the dictionary, and its weight w_i,

            h_i = w_i z_i' inv(sum_n w_n z_n z_n' + lambda / scale I) z_i

        The leave-one-out residual of sample i is ``(y_i - f(x_i)) / (1 - h_i)``. H itself is not used, because for a
        point that entered late it contains only the projections of earlier samples.
        """
        images = np.sqrt(weights)[:, np.newaxis] * seen.images
        known = images.T @ images
        known.flat[:: len(known) + 1] += self.ridge / self.scale
        found: Array = np.sum(solve_triangular(np.linalg.cholesky(known), images.T, lower=True) ** 2, axis=0)
        return found

    def images(self, points: Array) -> Array:
        """Return the coordinates of projected ``kappa(x, .)`` in an orthonormal basis, (n, M), or the features."""
        rows = self._rows(points)
        return rows if self.factor is None else rows @ np.tril(self.factor).T

    def ignorance(self, points: Array) -> Array:
        """Return the ratio of posterior to prior standard deviation at ``points`` (n, p), (n,); 1 far from samples."""
        if self.factor is None:
            features = self._rows(points)
            prior = np.sum(features * features, axis=1) / self.ridge
        else:
            prior = kernel_diagonal(self.function.kernel, points) / self.ridge
        found: Array = np.sqrt(np.clip(self.variance(points) / np.maximum(self.scale * prior, 1e-300), 0.0, 1.0))
        return found

    def _rows(self, points: Array) -> Array:
        """Return the features or the kernel rows of points, (n, M), to which R refers."""
        function = self.function
        found: Array = function.features(points) if hasattr(function, "features") else function.rows(points)
        return found

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, without the function's, by their names in models.

        ``posterior_root`` and ``posterior_factor`` are the triangles, row by row, (M (M + 1) / 2,); the second is empty
        for a function of features. ``posterior_units`` holds ridge and scale, ``posterior_noise`` the noise (C,). If
        present, ``levels`` and ``beyond`` are ``posterior_levels`` and ``posterior_beyond``.
        """
        upper = np.triu_indices(len(self.root))
        factor = np.zeros(0) if self.factor is None else self.factor.T[upper]
        units = np.array([self.ridge, self.scale])
        own = {"root": self.root[upper], "factor": factor, "units": units, "noise": self.noise.copy()}
        own |= {name: each.copy() for name in ("levels", "beyond") if (each := getattr(self, name)) is not None}
        return {f"{PREFIX}{name}": array for name, array in own.items()}

    @classmethod
    def from_arrays(cls, function: Any, arrays: Mapping[str, Array]) -> Posterior:
        """Rebuild the posterior of a function from the result of :meth:`arrays`.

        Raises
        ------
        ValueError
            If an array is missing, or does not have the function's size.
        """
        missing = [name for name in NAMES if name not in arrays]
        if missing:
            raise ValueError(f"{', '.join(missing)} is missing beside the other arrays of the variance")
        packed, below, units, noise = (np.asarray(arrays[name], dtype=np.float64) for name in NAMES)
        in_points = hasattr(function, "rows")
        order = function.order if in_points else len(function.coefficients)  # an intercept is a feature too
        of_kernel = in_points and (below.size > 0 or not order)  # else the points are fixed, and their kernel features
        entries = order * (order + 1) // 2
        wanted = ((entries,), (entries,) if of_kernel else (0,), (2,), (function.outputs,))
        for name, array, shape in zip(NAMES, (packed, below, units, noise), wanted, strict=True):
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}, must be {shape} beside {order} points or features")
        ridge, scale = units.tolist()
        if not (0.0 < ridge < math.inf and 0.0 < scale < math.inf):
            raise ValueError(f"{NAMES[2]} = {[ridge, scale]} must be above 0")
        if not (np.isnan(noise).all() or (np.isfinite(noise) & (noise >= 0.0)).all()):
            raise ValueError(f"{NOISE} = {noise.tolist()} must be finite and not negative, or all NaN: not known")
        factor = _triangle(below, order).T.copy() if of_kernel else None
        levels = None
        if LEVELS in arrays:
            levels = np.asarray(arrays[LEVELS], dtype=np.float64)
            if levels.shape != (3 + order, function.outputs) or not np.isfinite(levels).all():
                raise ValueError(f"{LEVELS} must be {(3 + order, function.outputs)} finite numbers")
        beyond = np.asarray(arrays[BEYOND], dtype=np.float64) if BEYOND in arrays else None
        if beyond is not None and (beyond.shape != (3,) or factor is None or not (beyond >= 0.0).all()):
            raise ValueError(f"{BEYOND} must be 3 numbers that are not negative, beside the points of a kernel")
        return cls(function, _triangle(packed, order), factor, ridge, scale, noise, levels, beyond)


def target_variance(known: PredictiveVariance, points: Array) -> Array:
    """Return the variance of targets at ``points`` (n, p): value variance plus noise variance, (n, C)."""
    ratio = known.noise_ratio(points) if isinstance(known, Posterior) else 1.0
    found: Array = (ratio + known.variance(points)[:, np.newaxis]) * known.noise
    return found


PREFIX = "posterior_"
"""The prefix of the names of a posterior's arrays."""

NAMES = tuple(f"{PREFIX}{name}" for name in ("root", "factor", "units", "noise"))
NOISE = NAMES[-1]
LEVELS, BEYOND = f"{PREFIX}levels", f"{PREFIX}beyond"


def _triangle(packed: Array, order: int) -> Array:
    found = np.zeros((order, order))
    found[np.triu_indices(order)] = packed
    return found


@cached_njit
def of_kernels(root: Array, factor: Array, rows: Array, diagonal: ReadOnly, ridge: float, variances: Array) -> None:
    """Fill in the uncertainty of each point, (n,), from the points' kernel rows, ``rows`` (n, M)."""
    order, own = len(root), np.empty((1, 1))
    for n in range(len(variances)):
        own[0, 0] = diagonal[n]
        information.uncertainty(root, factor, order, table(rows, n * order, 1, order), ridge, own)
        variances[n] = own[0, 0]


@cached_njit
def of_features(root: Array, rows: Array, variances: Array) -> None:
    """Fill in ``phi' inv(R'R) phi``, (n,), for features (n, M); the features are overwritten."""
    order = len(root)
    for n in range(len(variances)):
        row = line(rows, n * order, order)
        information.forward(root, order, row)
        variances[n] = dot(rows, n * order, row, order)
