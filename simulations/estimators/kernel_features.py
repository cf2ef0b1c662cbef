"""Online kernel feature extraction as scikit-learn transformers: features of a subspace that tracks the samples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kernelswarm.agents.learners.resolving import automatic_keys
from kernelswarm.agents.learners.subspace import Subspace, Tracking
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.estimators import polk_estimator
from kernelswarm.simulations.estimators.polk_estimator import kernel_for, refuse_other_inputs
from kernelswarm.simulations.estimators.rows import Points, Samples, dense, points_of, refuse_wide, spans, threads
from kernelswarm.simulations.experiment.parts import fill


class SubspaceTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Base class of `OnlineKernelFeatures` and `BudgetedKernelFeatures`, which document the parameters."""

    rank: int
    kernel: Any
    bandwidth: Any
    regularization: float
    step: Any
    update: str
    censoring: Any
    first: int

    @property
    def points_(self) -> Array:
        """The stored points S, (m, p), oldest first."""
        return self.subspace_.points.copy()

    @property
    def basis_(self) -> Array:
        """A, (m, r): the subspace is the span of Phi_S A."""
        return self.subspace_.factor.copy()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Reset the subspace and track the rows of X (n, p), which may be sparse, once and in their order."""
        samples = _unlabelled(points_of(self, X, reset=True))
        self._begin(samples)
        self._first_rows = None
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continue tracking with the rows of X (n, p), which may be sparse, in their order."""
        with polk_estimator.untouched_where_refused(self):
            samples = _unlabelled(points_of(self, X, reset=not self.__sklearn_is_fitted__()))
            polk_estimator.learn_on(self, samples, self._begin, self._visit)
        return self

    def transform(self, X: Any) -> Array:
        """Compute the features of the rows of X (n, p) in the present subspace: (n, rank).

        Their inner products are the projections', ``Z Z' = Q' A'K A Q``.
        """
        check_is_fitted(self)
        points = points_of(self, X, reset=False)
        return np.concatenate([self.subspace_.features(dense(points[start:stop])) for start, stop in spans(points)])

    def residuals(self, X: Any) -> Array:
        """Compute ``||phi(x) - L q||^2``, the squared distances of the rows of X (n, p) from the subspace: (n,)."""
        check_is_fitted(self)
        points = points_of(self, X, reset=False)
        return np.concatenate([self.subspace_.fits(dense(points[start:stop])) for start, stop in spans(points)])

    def _begin(self, samples: Samples) -> None:
        """Make the subspace, with the length scale measured on the first rows, and track these rows."""
        points = samples.points
        tracking: Tracking = fill(Tracking, self._keys(), "", title="the transformer")
        kernel = kernel_for(self.kernel, self.bandwidth, points)
        if getattr(kernel, "bandwidth", None) == "relevance":
            raise InputError(
                'bandwidth = "relevance" needs targets to tell which columns matter, and a transformer sees none: use '
                '"median" or "scale", or one length for each column'
            )
        refuse_wide(points, samples.size)
        if automatic_keys(kernel):
            unknown = np.zeros((samples.size, 1))
            seen = Sample(dense(points), unknown, Squared(), 1, 1, lambda chosen: np.eye(len(chosen)))
            kernel = kernel.resolved(seen)  # type: ignore[attr-defined]
        refuse_other_inputs(kernel, points.shape[1])
        self.subspace_ = Subspace(kernel, tracking, points.shape[1])
        self._n_features_out = tracking.rank
        polk_estimator.remember(self)
        self._visit(samples)

    def _keys(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("rank", "regularization", "step", "update", "censoring")}

    def _visit(self, samples: Samples) -> None:
        with threads(1):
            for points, _, _ in samples.blocks():
                for n in range(len(points)):
                    self.subspace_.visit(points[n : n + 1])

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the subspace exists."""
        return hasattr(self, "subspace_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _unlabelled(points: Points) -> Samples:
    return Samples(points, np.zeros((points.shape[0], 0)), None)


class OnlineKernelFeatures(SubspaceTransformer):
    """Features of a subspace of the Hilbert space that tracks the samples, expanded in all of them (OK-FE).

    For a sample x the best coefficients are q = inv(A'KA + lambda I) A'k(x); then a step on A moves L q closer to
    phi(x), L = Phi_S A, and x is stored (OKFEB algorithms 2 and 3). The features z satisfy Z Z' = Q'A'KAQ, an
    approximation of the kernel matrix of rank r.

    Parameters
    ----------
    rank : int
        r, the number of features.
    kernel : str, mapping or Kernel
        "gaussian", "laplacian", "matern", "student_t", "polynomial", "linear", a mapping with ``name`` and the
        kernel's keys, or a kernel part.
    bandwidth : float, sequence of floats, "median" or "scale"
        Length scale of the kernel if ``kernel`` does not give one, see `PolkRegressor`.
    regularization : float
        lambda > 0.
    step : str, mapping or SubspaceStep
        "normalized", for tracking without end, or ``{"name": "power", "initial": m, "offset": n, "exponent": p}``.
    update : str
        "nonparametric" (algorithm 3) or "parametric" (algorithm 2).
    censoring : float, str, mapping or Censoring
        A threshold on ``||phi(x) - L q||^2`` below which samples are not used, or "moving_average".
    first : int
        Number of rows on which `partial_fit` measures the length scale, see `PolkRegressor`.

    Attributes
    ----------
    points_ : array of shape (m, p)
        The stored points.
    basis_ : array of shape (m, rank)
        A.
    subspace_ : Subspace
        The subspace.
    n_features_in_ : int
        The number of inputs, p.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> features = OnlineKernelFeatures(rank=12, bandwidth=2.0).fit(x)
    >>> features.transform(x).shape, bool(features.residuals(x).mean() < 0.01)
    ((300, 12), True)
    """

    def __init__(
        self,
        rank: int = 10,
        *,
        kernel: Any = "gaussian",
        bandwidth: Any = "scale",
        regularization: float = 1e-3,
        step: Any = "normalized",
        update: str = "nonparametric",
        censoring: Any = 0.0,
        first: int = polk_estimator.FIRST,
    ) -> None:
        self.rank = rank
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.step = step
        self.update = update
        self.censoring = censoring
        self.first = first


class BudgetedKernelFeatures(SubspaceTransformer):
    """Features of a subspace of the Hilbert space that tracks the samples, expanded in few of them (OK-FEB).

    Like `OnlineKernelFeatures`, but with more than ``budget_size`` points, the point with the least
    ``recency^age ||a_i||`` is dropped, with a_i its row of A (OKFEB algorithms 4 and 5).

    Parameters
    ----------
    rank : int
        r, the number of features, at most ``budget_size``.
    budget_size : int
        B, the maximum number of stored points; 1.5 to 5 times the rank is usual.
    recency : float
        beta in (0, 1]: 1 drops the least important point, small values the oldest.
    kernel, bandwidth, regularization, step, update, censoring, first
        See `OnlineKernelFeatures`.

    Attributes
    ----------
    points_, basis_, subspace_, n_features_in_
        See `OnlineKernelFeatures`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> features = BudgetedKernelFeatures(rank=12, budget_size=24, bandwidth=2.0).fit(x)
    >>> features.points_.shape, bool(features.residuals(x).mean() < 0.01)
    ((24, 2), True)
    """

    def __init__(
        self,
        rank: int = 10,
        budget_size: int = 30,
        *,
        recency: float = 1.0,
        kernel: Any = "gaussian",
        bandwidth: Any = "scale",
        regularization: float = 1e-3,
        step: Any = "normalized",
        update: str = "nonparametric",
        censoring: Any = "moving_average",
        first: int = polk_estimator.FIRST,
    ) -> None:
        self.rank = rank
        self.budget_size = budget_size
        self.recency = recency
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.step = step
        self.update = update
        self.censoring = censoring
        self.first = first

    def _keys(self) -> dict[str, Any]:
        return super()._keys() | {"budget_size": self.budget_size, "recency": self.recency}
