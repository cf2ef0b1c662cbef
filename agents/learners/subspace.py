"""Subspace tracking in a Hilbert space by online kernel feature extraction, with or without a budget.

OKFEB algorithms 2 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic import subspace_updates
from kernelswarm.agents.arithmetic.abi import (
    ALWAYS,
    CENSOR,
    KERNEL,
    NOTHING,
    ORDER,
    ROOM,
    SUBSPACE_STEP,
    StepArguments,
    censor_at,
    kernel_at,
    subspace_step_at,
)
from kernelswarm.agents.arithmetic.copying import copy_matrix, copy_vector
from kernelswarm.agents.arithmetic.subspace_updates import Basis, Squares, Update
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.kernel_sum import combine_into, ready
from kernelswarm.agents.learners.linear_in_features import CompiledLinear, descend_by, gram_of
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.plain_parts import kernel_form, kernel_rows
from kernelswarm.agents.parts.subspace_rules import Censoring, Normalized, SubspaceStep, Threshold
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey

SMALLEST_CAPACITY = 32

ALL = 2**62
"""The budget size of a subspace without a budget."""


@dataclass(frozen=True)
class Tracking:
    """The rules by which a subspace follows its samples.

    Parameters
    ----------
    rank : int
        r, the dimension of the subspace, at least 1.
    regularization : float
        lambda of the features and of the subspace, positive.
    step : SubspaceStep
        mu, the step size of the subspace.
    censoring : Censoring
        The rule for samples that cause no update.
    update : str
        "nonparametric" (OKFEB algorithm 3) or "parametric" (algorithm 2).
    budget_size : int or None
        B, the largest number of stored points, at least the rank; None stores all.
    recency : float
        beta, in (0, 1]. 1 removes the point with the smallest row of A, and small values remove the oldest point.
    censoring_from : str
        "rank": samples are censored as soon as there is a basis; "budget": only once the budget is full.
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
        """The number of stored points from which on samples are censored."""
        return self.budget_size or 0 if self.censoring_from == "budget" else self.rank


class Visit(NamedTuple):
    """The result of one sample's visit to a subspace."""

    fit: float  # ||phi(x) - L q||^2, before the update
    stored: bool
    cross: Array | None  # L_new' L_old, (r, r); None without an update
    weights: Array | None  # of the function on the new features, (r, C); None without an update
    moved: float  # the Hilbert norm by which that function moved
    dropped: int = -1  # the index of the dropped point, counting the new one; -1 for none


class Subspace:
    """The span of ``L = Phi_S A``, with intermediate results for its next update.

    Parameters
    ----------
    kernel : Kernel
        kappa.
    tracking : Tracking
        The rules by which it follows its samples.
    inputs : int
        p, the dimension of a point.
    own : int
        The number of the owner's numbers, which precede the subspace's in ``storage``.

    Attributes
    ----------
    order : int
        m, the number of stored points S.
    samples : int
        n, the number of samples so far.
    inner : Array
        ``M = A' K_SS A``, (r, r).
    mixing : Array
        ``G = inv(M + lambda I) C`` with ``C C' = M``, (r, r): the features of a point are ``G' A' k_S(x)``.
    compared : int
        The number of fits that were compared with the threshold.
    storage : Array
        The vector that contains all arrays, as compiled steps require.
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
        """Return the contents for a copy, whose arrays must lie in its own storage."""
        counts = self.order, self.samples, self.compared, self.capacity
        return self.kernel, self.tracking, self.inputs, self.own, counts, self.storage

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the contents of a copy."""
        self.kernel, self.tracking, self.inputs, self.own, counts, storage = state
        self.order, self.samples, self.compared, capacity = counts
        self.lay_out(ready(storage), capacity)

    @property
    def capacity(self) -> int:
        """The number of points that fit in the storage."""
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
        """Compute ``A' k_S`` at ``points`` (n, p), the inner products of points and basis: (n, r)."""
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

        The published features ``K_SS^(1/2) A q`` are m numbers. Any z = R q with R'R = M has the same inner products.
        Here R is a Cholesky factor of M, so that z has r numbers.
        """
        features: Array = subspace_updates.mix(self.products(points), self.mixing)
        return features

    def mixing_of_points(self) -> Array:
        """Compute ``inv(M + lambda I) A' K_SS^(1/2)``, (r, m).

        Used in place of G, it gives the published features ``K_SS^(1/2) A q``, one for each stored point (OKFEB section
        VI).
        """
        values, vectors = np.linalg.eigh(self.gram)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        mixing: Array = np.ascontiguousarray(self.factor.T @ root)
        subspace_updates.solve(self._triangle, mixing)
        return mixing

    def fits(self, points: Array) -> Array:
        """Compute the fitting errors ``||phi(x) - L q||^2`` at ``points`` (n, p): (n,)."""
        products, projections = self.products(points), self.projections(points)
        lost = np.sum(products * projections, axis=1) + self.tracking.regularization * np.sum(projections**2, axis=1)
        fits: Array = np.maximum(self.kernel.diagonal(points) - lost, 0.0)
        return fits

    def visit(self, point: Array, weights: Array | None = None, follow: bool = False) -> Visit:
        """Update the subspace with one sample, (1, p), and the weights (r, C) of a function on the features.

        The first r distinct points form the initial basis, A = I. The published algorithm starts with one point and one
        row of A. Since q and all updates lie in the span of A's rows, the rank would then exceed 1 only by growing
        rounding errors.

        If a point is dropped, it is the point with the smallest ``eta_i ||a_i|| sqrt(kappa(x_i, x_i))``, the oldest if
        several are equal.
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
        """Return copies of ``points`` (m, p), ``basis`` A (m, r) and ``mixing`` G (r, r), which define the features."""
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
        """Restore a new subspace, without samples, from the result of :meth:`snapshot`."""
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
        """Move all arrays to another vector, which has the length for ``capacity`` points."""
        order, before = self.order, (self._points, self._factor, self._image, self._recency, self._gram)
        first = self.own + 3 * self.tracking.rank**2 + len(self._fits)
        storage[:first] = self.storage[:first]
        self.lay_out(storage, capacity)
        for buffer, values in zip((self._points, self._factor, self._image, self._recency), before[:4], strict=True):
            buffer[:order] = values[:order]
        self._gram[:order, :order] = before[4][:order, :order]

    def length(self, capacity: int) -> int:
        """Return the size, in numbers, of a storage with room for ``capacity`` points."""
        return self.own + sum(math.prod(shape) for shape in self._shapes(capacity))

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        rank = self.tracking.rank
        square, tall = (rank, rank), (capacity, rank)
        window = (self.tracking.censoring.window,)
        return [square, square, square, window, (capacity, self.inputs), tall, tall, (capacity,), (capacity, capacity)]

    def lay_out(self, storage: Array, capacity: int) -> None:
        """Make the arrays views of a vector, in the layout that compiled steps use."""
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


# The step of learners on a subspace that follows the samples, in compiled code.

CAPACITY, SAMPLES, COMPARED = range(3, 6)
"""Indices among a state's integers, after the common ones."""

CROSS, AT, BOUND = range(3)
"""Indices among the addresses: the kernel, the step size of the subspace, and the threshold on fits."""

RANK, WINDOW, STEP, THRESHOLD, SHRINKAGE, RIDGE, PARAMETRIC, BUDGET_SIZE, RECENCY, FOLLOW, FULL, FIRST = range(12)
"""Indices among the numbers: the rank and the window; the counts of the numbers of the step and of the threshold; the
regularization of the weights and of the subspace; the rules of the update; and the number of points from which on
samples are censored. From `FIRST` on come the numbers of the step, the threshold and the kernel."""


@inline_always
def _kernel_numbers(numbers: Array) -> Array:
    first = FIRST + int(numbers[STEP]) + int(numbers[THRESHOLD])
    return line(numbers, first, len(numbers) - first)


@inline_always
def _squares(numbers: Array, storage: Array, outputs: int) -> Squares:
    """Return the arrays that define the features, in the layout of `Subspace`, after the weights."""
    rank = int(numbers[RANK])
    first, size = rank * outputs, rank * rank
    return Squares(
        inner=table(storage, first, rank, rank),
        triangle=table(storage, first + size, rank, rank),
        mixing=table(storage, first + 2 * size, rank, rank),
    )


@inline_always
def _points(numbers: Array, outputs: int) -> int:
    """Return the index of the first point, after the fits."""
    rank = int(numbers[RANK])
    return rank * (outputs + 3 * rank) + int(numbers[WINDOW])


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the features of points and the values of f."""
    order, rank = counts[ORDER], int(numbers[RANK])
    size, inputs, outputs = len(points), points.shape[1], values.shape[1]
    first = _points(numbers, outputs)
    dictionary = table(storage, first, order, inputs)
    factor = table(storage, first + counts[CAPACITY] * inputs, order, rank)
    mixing = _squares(numbers, storage, outputs).mixing
    known, products = np.empty((size, order)), np.empty((size, rank))
    kernel_at(tools[CROSS])(_kernel_numbers(numbers), points, dictionary, known)
    subspace_updates.coordinates(known, factor, order, products)
    copy_matrix(subspace_updates.mix(products, mixing), rows)
    combine_into(rows, table(storage, 0, rank, outputs), rank, values)


@cached_njit
def inner(
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    points: Array,
    rows: Array,
    values: Array,
    gram: Array,
) -> None:
    """Fill ``gram`` (N, N) with the inner products of the points' features."""
    gram_of(rows, int(numbers[RANK]), gram)


@cached_njit
def _visit(tools: Integers, numbers: Array, storage: Array, counts: Integers, point: Array, outputs: int) -> float:
    """Update the subspace with one sample (p,), as :meth:`Subspace.visit` does; returns the norm of f's change."""
    rank, window, inputs = int(numbers[RANK]), int(numbers[WINDOW]), len(point)
    order, capacity = counts[ORDER], counts[CAPACITY]
    squares = _squares(numbers, storage, outputs)
    first = _points(numbers, outputs)
    fits = line(storage, first - window, window)
    points = table(storage, first, capacity, inputs)
    first += capacity * inputs
    size = capacity * rank
    basis = Basis(
        points=points,
        factor=table(storage, first, capacity, rank),
        image=table(storage, first + size, capacity, rank),
        recency=line(storage, first + 2 * size, capacity),
        gram=table(storage, first + 2 * size + capacity, capacity, capacity),
    )
    counts[SAMPLES] += 1
    copy_vector(point, points[order])
    row = np.empty((1, order + 1))
    everything = table(points, 0, order + 1, inputs)
    kernel_at(tools[CROSS])(_kernel_numbers(numbers), table(points, order * inputs, 1, inputs), everything, row)
    ridge = numbers[RIDGE]
    product, projection, fit, length = subspace_updates.project(
        row, order, basis.factor, squares.triangle, row[0, order], ridge
    )
    if order < rank:
        censored = subspace_updates.holds(points, order, order)
    else:
        known = line(fits, 0, min(window, counts[COMPARED]))
        threshold = line(numbers, FIRST + int(numbers[STEP]), int(numbers[THRESHOLD]))
        censored = order >= numbers[FULL] and fit < censor_at(tools[BOUND])(threshold, known)
        if window:
            fits[counts[COMPARED] % window] = fit
            counts[COMPARED] += 1
    if censored:
        return 0.0
    most = int(numbers[BUDGET_SIZE])
    update = Update(
        regularization=ridge,
        parametric=numbers[PARAMETRIC] > 0.0,
        most=most if most > 0 else capacity,
        recency=numbers[RECENCY],
    )
    counts[ORDER], _, moved, _ = subspace_updates.advance(  # plain tuples, as from Python: compiled once
        basis[:],
        order,
        squares[:],
        line(row, 0, order + 1),
        product,
        projection,
        update[:],
        subspace_step_at(tools[AT])(line(numbers, FIRST, int(numbers[STEP])), counts[SAMPLES], length),
        counts[SAMPLES],
        table(storage, 0, rank, outputs),
        numbers[FOLLOW] > 0.0,
    )
    return moved


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step on the weights, then update the subspace with the node's own samples."""
    numbers, counts, points, outputs = given.numbers, given.counts, given.points, given.gradients.shape[1]
    rank, inputs = int(numbers[RANK]), points.shape[1]
    coefficients = table(given.storage, 0, rank, outputs)
    descend_by(given, coefficients, 1.0 - given.sizes[0] * numbers[SHRINKAGE], rank)
    moved = 0.0
    for n in range(len(given.targets)):
        moved += _visit(given.tools, numbers, given.storage, counts, line(points, n * inputs, inputs), outputs)
    if numbers[BUDGET_SIZE] == 0.0:
        counts[ROOM] = counts[CAPACITY] - counts[ORDER]
    return moved


class CompiledSubspace(CompiledLinear):
    """Functions and numbers of learners on a subspace for compiled rounds.

    Parameters
    ----------
    learner : SubspaceDescent
        The learner.

    Raises
    ------
    NotCompiledError
        If one of the subspace's rules has no compiled form.
    """

    evaluate = staticmethod(evaluate)
    inner = staticmethod(inner)
    gradient = None
    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        if learner.coordinates == "points":
            raise NotCompiledError('the learner with coordinates = "points"')
        tracking = learner.tracking()
        kernel, censoring = kernel_form(learner.kernel), handed_over(tracking.censoring, "censoring")
        following = handed_over(tracking.step, "subspace step")
        self.tools = (
            address(kernel.cross, KERNEL),
            address(following.at, SUBSPACE_STEP),
            address(censoring.bound, CENSOR),
        )
        self._bounded = tracking.budget_size is not None
        own = {
            RANK: tracking.rank,
            WINDOW: tracking.censoring.window,
            STEP: len(following.numbers),
            THRESHOLD: len(censoring.numbers),
            SHRINKAGE: learner.regularization,
            RIDGE: tracking.regularization,
            PARAMETRIC: tracking.update == "parametric",
            BUDGET_SIZE: tracking.budget_size or 0,
            RECENCY: tracking.recency,
            FOLLOW: learner.follow,
            FULL: tracking.censored_from,
        }
        first = [float(own[place]) for place in range(FIRST)]
        self._numbers: Array = np.concatenate([first, following.numbers, censoring.numbers, kernel.numbers])

    def numbers(self, state: Any) -> Array:
        return self._numbers

    def _room(self, state: Any, capacity: int) -> int:
        """Return the capacity of a subspace: with a budget its own, otherwise the common ``capacity``."""
        return int(state.subspace.capacity) if self._bounded else capacity

    def length(self, state: Any, capacity: int) -> int:
        return int(state.subspace.length(self._room(state, capacity)))

    def order(self, state: Any) -> int:
        """Return the number of stored points if it can grow; 0 with a budget, whose points always fit."""
        return 0 if self._bounded else int(state.subspace.order)

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points; returns the capacity."""
        if not self._bounded:
            state.subspace.reserve(points)
            state.refer()
        return int(state.subspace.capacity)

    def storage(self, state: Any) -> Array:
        vector: Array = state.subspace.storage
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        state.subspace.move(storage, self._room(state, capacity))
        state.refer()

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        subspace, room = state.subspace, self._room(state, capacity)
        free = ALWAYS if self._bounded else room - subspace.order
        return np.array([free, NOTHING, subspace.order, room, subspace.samples, subspace.compared], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        subspace = state.subspace
        subspace.order, subspace.samples, subspace.compared = (int(counts[k]) for k in (ORDER, SAMPLES, COMPARED))
        state.steps += steps
        state.refer()
