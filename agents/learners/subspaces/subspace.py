"""A subspace of a Hilbert space that follows a stream of samples: online kernel feature extraction, with or without a
budget (OKFEB algorithms 2 to 5)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic import subspace_updates
from kernelswarm.agents.arithmetic.subspace_updates import Basis, Squares
from kernelswarm.agents.functions.features import ready
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.subspace_rules import Censoring, Normalized, SubspaceStep, Threshold
from kernelswarm.agents.plain.kernels import kernel_rows
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]

SMALLEST_CAPACITY = 32

ALL = 2**62
"""The budget where there is none."""


@dataclass(frozen=True)
class Tracking:
    """How a subspace follows its samples.

    Parameters
    ----------
    rank : int
        r, its dimension, at least 1.
    regularization : float
        lambda of the features and of the subspace, positive.
    step : SubspaceStep
        mu.
    censoring : Censoring
        Which samples make no update.
    update : str
        "nonparametric" (OKFEB algorithm 3) or "parametric" (algorithm 2).
    budget_size : int or None
        B, the points stored at most, at least the rank; None for all.
    recency : float
        beta in (0, 1]: 1 drops the point with the least row of A, small ones the oldest point.
    censoring_from : str
        "rank": samples are left out as soon as there is a basis; "budget": once the budget is full.
    """

    rank: int = 10
    regularization: float = 1e-3
    step: SubspaceStep = field(default=Normalized(), metadata={"part": "subspace_step"})
    censoring: Censoring = field(default=Threshold(), metadata={"part": "censoring", "scalar": "threshold"})
    update: Literal["nonparametric", "parametric"] = "nonparametric"
    budget_size: int | None = None
    recency: float = 1.0
    censoring_from: Literal["rank", "budget"] = "rank"

    ranges: ClassVar = {
        "rank": Range("[1, inf)", "5 to 50 are usual"),
        "regularization": Range("(0, inf)", "1e-3 is usual"),
        "recency": Range("(0, 1]", "1 keeps what matters most, 0.9 favours new points"),
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.budget_size is not None and self.budget_size < self.rank:
            raise RefusedKey(
                "rank",
                f"= {self.rank!r} must not be above budget_size = {self.budget_size!r}: "
                "budgets of 1.5 to 5 times the rank are usual",
            )
        if self.censoring_from == "budget" and self.budget_size is None:
            raise RefusedKey("censoring_from", '= "budget" needs a budget_size: without one no budget is ever full')

    @property
    def censored_from(self) -> int:
        """The number of stored points from which on samples are left out."""
        return self.budget_size or 0 if self.censoring_from == "budget" else self.rank


class Visit(NamedTuple):
    """What a subspace did with a sample."""

    fit: float  # ||phi(x) - L q||^2, before the update
    stored: bool
    cross: Array | None  # L_new' L_old, (r, r), of the update; None without one
    weights: Array | None  # of the function on the new features, (r, C); None without an update
    moved: float  # the Hilbert norm by which that function moved
    dropped: int = -1  # the place among the points, with the new one, of that which went; -1 where none did


class Subspace:
    """The span of ``L = Phi_S A``, with what its next update would otherwise compute again.

    Parameters
    ----------
    kernel : Kernel
        kappa.
    tracking : Tracking
        How it follows its samples.
    inputs : int
        p, the dimension of a point.
    own : int
        Numbers of the owner that stand before the subspace's in ``storage``.

    Attributes
    ----------
    order : int
        m, the number of stored points S.
    samples : int
        n, the samples visited.
    inner : Array
        ``M = A' K_SS A``, (r, r).
    mixing : Array
        ``G = inv(M + lambda I) C`` with ``C C' = M``, (r, r): the features of a point are ``G' A' k_S(x)``.
    compared : int
        The fits that were compared with the threshold.
    storage : Array
        The vector that all arrays lie in, as compiled steps want it.
    """

    def __init__(self, kernel: Kernel, tracking: Tracking, inputs: int, own: int = 0) -> None:
        self.kernel = kernel
        self.tracking = tracking
        self.inputs = inputs
        self.own = own
        self.order = self.samples = self.compared = 0
        capacity = SMALLEST_CAPACITY if tracking.budget_size is None else tracking.budget_size + 1
        self.lay_out(np.zeros(self.length(capacity)), capacity)

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy: its arrays must lie in its own storage."""
        counts = self.order, self.samples, self.compared, self.capacity
        return self.kernel, self.tracking, self.inputs, self.own, counts, self.storage

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take over the contents of a copy."""
        self.kernel, self.tracking, self.inputs, self.own, counts, storage = state
        self.order, self.samples, self.compared, capacity = counts
        self.lay_out(ready(storage), capacity)

    @property
    def capacity(self) -> int:
        """The number of points that there is room for."""
        return len(self._points)

    @property
    def points(self) -> Array:
        """The stored points S, (m, p), oldest first."""
        return self._points[: self.order]

    @property
    def factor(self) -> Array:
        """A, (m, r)."""
        return self._factor[: self.order]

    @property
    def gram(self) -> Array:
        """K_SS, (m, m)."""
        return self._gram[: self.order, : self.order]

    @property
    def recency(self) -> Array:
        """The recency factors eta_i of the stored points, (m,)."""
        return self._recency[: self.order]

    def products(self, points: Array) -> Array:
        """Compute ``A' k_S`` at ``points`` (n, p), their inner products with the basis: (n, r)."""
        found = np.empty((len(points), self.tracking.rank))
        subspace_updates.coordinates(kernel_rows(self.kernel, points, self.points), self._factor, self.order, found)
        return found

    def projections(self, points: Array) -> Array:
        """Compute ``q = inv(M + lambda I) A' k_S`` at ``points`` (n, p), the best coefficients of L: (n, r)."""
        columns: Array = np.ascontiguousarray(self.products(points).T)
        subspace_updates.solve(self._triangle, columns)
        return np.ascontiguousarray(columns.T)

    def features(self, points: Array) -> Array:
        """Compute ``z`` at ``points`` (n, p), with ``z(x).z(y) = q(x)' M q(y)``: (n, r).

        The published features are ``K_SS^(1/2) A q``, m numbers. Any z = R q with R'R = M has the same inner products,
        and with a Cholesky factor of M it has r numbers.
        """
        features: Array = subspace_updates.mix(self.products(points), self.mixing)
        return features

    def mixing_of_points(self) -> Array:
        """Compute ``inv(M + lambda I) A' K_SS^(1/2)``, (r, m): with it in G's place features are ``K_SS^(1/2) A q``.

        One for each stored point, the published ones (OKFEB section VI).
        """
        values, vectors = np.linalg.eigh(self.gram)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        mixing: Array = np.ascontiguousarray(self.factor.T @ root)
        subspace_updates.solve(self._triangle, mixing)
        return mixing

    def fits(self, points: Array) -> Array:
        """Compute ``||phi(x) - L q||^2`` at ``points`` (n, p), what the subspace leaves of them: (n,)."""
        products, projections = self.products(points), self.projections(points)
        lost = np.sum(products * projections, axis=1) + self.tracking.regularization * np.sum(projections**2, axis=1)
        fits: Array = np.maximum(self.kernel.diagonal(points) - lost, 0.0)
        return fits

    def visit(self, point: Array, weights: Array | None = None, follow: bool = False) -> Visit:
        """Follow one sample, (1, p), and carry the weights (r, C) of a function on the features along.

        The first r distinct points are the first basis, A = I. The published start is one point and one row of A; as q
        and all updates lie in the span of A's rows, only rounding errors, which grow, then lead to a rank above 1.

        Where a point is dropped, it is the one with the least ``eta_i ||a_i|| sqrt(kappa(x_i, x_i))``, the oldest of
        equals.
        """
        tracking, order = self.tracking, self.order
        self.samples += 1
        self.reserve(1)
        self._points[order] = point[0]
        row = kernel_rows(self.kernel, point, self._points[: order + 1])
        product, projection, fit, length = subspace_updates.project(
            row, order, self._factor, self._triangle, row[0, order], tracking.regularization
        )
        if order < tracking.rank:
            censored = bool(subspace_updates.holds(self._points, order, order))
        else:
            fits = self._fits if self.compared >= len(self._fits) else self._fits[: self.compared]
            censored = order >= tracking.censored_from and fit < tracking.censoring.bound(fits)
            self._compare(fit)
        if censored:
            return Visit(fit, False, None, None, 0.0)
        new = self._none if weights is None else weights.copy()
        self.order, cross, moved, dropped = subspace_updates.advance(
            self._basis,
            order,
            self._squares,
            row[0],
            product,
            projection,
            self._update,
            tracking.step.at(self.samples, length),
            self.samples,
            new,
            follow,
        )
        return Visit(fit, True, cross, None if weights is None else new, moved, dropped)

    def arrays(self) -> dict[str, Array]:
        """Return ``points`` (m, p), ``basis`` A (m, r) and ``mixing`` G (r, r), copied: what features are made of."""
        return {"points": self.points.copy(), "basis": self.factor.copy(), "mixing": self.mixing.copy()}

    def snapshot(self) -> dict[str, Array]:
        return {
            "points": self.points.copy(),
            "basis": self.factor.copy(),
            "gram": self.gram.copy(),
            "image": self._image[: self.order].copy(),
            "recency": self.recency.copy(),
            "fits": self._fits.copy(),
            "visits": np.array([self.samples, self.compared], dtype=np.float64),
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Become what :meth:`snapshot` was taken of; a subspace that has visited nothing yet."""
        order = len(arrays["points"])
        self.reserve(order)
        self.order = order
        self._points[:order] = arrays["points"]
        self._factor[:order] = arrays["basis"]
        self._gram[:order, :order] = arrays["gram"]
        self._image[:order] = arrays["image"]
        self._recency[:order] = arrays["recency"]
        self._fits[:] = arrays["fits"]
        self.samples, self.compared = (int(count) for count in arrays["visits"].tolist())
        subspace_updates.prepare(Basis(*self._basis), order, self.tracking.regularization, Squares(*self._squares))

    def _compare(self, fit: float) -> None:
        window = len(self._fits)
        if window:
            self._fits[self.compared % window] = fit
            self.compared += 1

    def reserve(self, points: int) -> None:
        needed, capacity = self.order + points, self.capacity
        if needed > capacity:
            capacity = max(needed, capacity + max(capacity // 8, 16))
            self.move(np.zeros(self.length(capacity)), capacity)

    def move(self, storage: Array, capacity: int) -> None:
        """Live in another vector, of the length for so many points, from now on."""
        order, before = self.order, (self._points, self._factor, self._image, self._recency, self._gram)
        first = self.own + 3 * self.tracking.rank**2 + len(self._fits)
        storage[:first] = self.storage[:first]
        self.lay_out(storage, capacity)
        for buffer, values in zip((self._points, self._factor, self._image, self._recency), before[:4], strict=True):
            buffer[:order] = values[:order]
        self._gram[:order, :order] = before[4][:order, :order]

    def length(self, capacity: int) -> int:
        """Return the numbers of the storage with room for so many points."""
        return self.own + sum(math.prod(shape) for shape in self._shapes(capacity))

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        rank = self.tracking.rank
        square, tall = (rank, rank), (capacity, rank)
        window = (self.tracking.censoring.window,)
        return [square, square, square, window, (capacity, self.inputs), tall, tall, (capacity,), (capacity, capacity)]

    def lay_out(self, storage: Array, capacity: int) -> None:
        """Have the arrays lie in a vector, as `subspace_steps` finds them there."""
        self.storage: Array = storage
        self._none: Array = np.zeros((self.tracking.rank, 0))
        found, first = [], self.own
        for shape in self._shapes(capacity):
            size = math.prod(shape)
            found.append(storage[first : first + size].reshape(shape))
            first += size
        self.inner, self._triangle, self.mixing, self._fits, self._points, self._factor = found[:6]
        self._image, self._recency, self._gram = found[6:]
        tracking = self.tracking
        most = ALL if tracking.budget_size is None else tracking.budget_size
        # `Basis`, `Squares` and `Update` as plain tuples: see `advance`.
        self._basis = (self._points, self._gram, self._factor, self._image, self._recency)
        self._squares = (self.inner, self._triangle, self.mixing)
        self._update = (tracking.regularization, tracking.update == "parametric", most, tracking.recency)
