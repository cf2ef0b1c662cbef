"""Subspace tracking in a Hilbert space by online kernel feature extraction, with or without a budget.

OKFEB algorithms 2 to 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
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
from kernelswarm.agents.functions.kernel_sum import OWN, Dictionary, combine_into
from kernelswarm.agents.learners.descent import CAPACITY, packed, part_of
from kernelswarm.agents.learners.linear_in_features import CompiledLinear, descend_by, gram_of
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.plain_parts import censoring_form, kernel_form, step_form
from kernelswarm.agents.parts.subspace_rules import Censoring, Normalized, SubspaceStep, Threshold
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.compiled import NotCompiledError
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.callbacks import array_of, called
from kernelswarm.protocols.core.compiling import ReadOnly, ReadOnlyIntegers, cached_njit, inline_always
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey

SMALLEST_CAPACITY = 32


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
    moved: float  # the Hilbert norm by which the function moved
    dropped: int = -1  # the index of the dropped point, counting the new one; -1 for none


class Subspace(Dictionary):
    """The span of ``L = Phi_S A``, with intermediate results for its next update, and a function on its features.

    Parameters
    ----------
    kernel : Kernel
        kappa.
    tracking : Tracking
        The rules by which it follows its samples.
    inputs : int
        p, the dimension of a point.
    outputs : int
        C, the number of outputs of the function; 0 without a function.
    follow : bool
        Whether the function's weights are refitted when the subspace changes.

    Attributes
    ----------
    order : int
        m, the number of stored points S.
    coefficients : Array
        The weights of the function, (r, C).
    inner : Array
        ``M = A' K_SS A``, (r, r).
    mixing : Array
        ``G = inv(M + lambda I) C`` with ``C C' = M``, (r, r): the features of a point are ``G' A' k_S(x)``.
    """

    parts: ClassVar = {
        "coefficients": "LC",
        "inner": "LL",
        "triangle": "LL",
        "mixing": "LL",
        "past_fits": "W",
        "points": "Mp",
        "factor": "ML",
        "image": "ML",
        "recency": "M",
        "gram": "MM",
    }
    coefficients: Array
    inner: Array
    triangle: Array
    mixing: Array
    past_fits: Array
    factor_buffer: Array
    image_buffer: Array
    recency_buffer: Array
    gram_buffer: Array

    def __init__(self, kernel: Kernel, tracking: Tracking, inputs: int, outputs: int = 0, follow: bool = False) -> None:
        self.tracking = tracking
        self.follow = follow
        super().__init__(kernel, inputs, outputs)
        self.reserve(SMALLEST_CAPACITY if tracking.budget_size is None else tracking.budget_size + 1)

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy."""
        return *super().__getstate__(), self.tracking, self.follow

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the contents of a copy."""
        *others, self.tracking, self.follow = state
        super().__setstate__(tuple(others))

    def _dimensions(self, capacity: int) -> dict[str, int]:
        tracking = self.tracking
        return {**super()._dimensions(capacity), "L": tracking.rank, "W": tracking.censoring.window}

    @property
    def samples(self) -> int:
        """n, the number of samples so far."""
        return int(self.storage[SAMPLES])

    @property
    def factor(self) -> Array:
        """A, (m, r)."""
        return self.factor_buffer[: self.order]

    @property
    def gram(self) -> Array:
        """K_SS, (m, m)."""
        return self.gram_buffer[: self.order, : self.order]

    def products(self, points: Array) -> Array:
        """Compute ``A' k_S`` at ``points`` (n, p), the inner products of points and basis: (n, r)."""
        found = np.empty((len(points), self.tracking.rank))
        subspace_updates.coordinates(self.rows(points), self.factor_buffer, self.order, found)
        return found

    def projections(self, points: Array) -> Array:
        """Compute ``q = inv(M + lambda I) A' k_S`` at ``points`` (n, p), the best coefficients of L: (n, r)."""
        columns: Array = np.ascontiguousarray(self.products(points).T)
        subspace_updates.solve(self.triangle, columns)
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
        subspace_updates.solve(self.triangle, mixing)
        return mixing

    def fits(self, points: Array) -> Array:
        """Compute the fitting errors ``||phi(x) - L q||^2`` at ``points`` (n, p): (n,)."""
        products, projections = self.products(points), self.projections(points)
        lost = np.sum(products * projections, axis=1) + self.tracking.regularization * np.sum(projections**2, axis=1)
        fits: Array = np.maximum(self.kernel.diagonal(points) - lost, 0.0)
        return fits

    @cached_property
    def rules(self) -> tuple[Integers, Array]:
        """The addresses and numbers for :func:`visit`."""
        tools, numbers = rules_of(self.kernel, self.tracking, self.follow)
        return array_of(tools), numbers

    def visit(self, point: Array) -> Visit:
        """Update the subspace with one sample, (1, p), and the weights of its function.

        The first r distinct points form the initial basis, A = I. The published algorithm starts with one point and one
        row of A. Since q and all updates lie in the span of A's rows, the rank would then exceed 1 only by growing
        rounding errors.

        If a point is dropped, it is the point with the smallest ``eta_i ||a_i|| sqrt(kappa(x_i, x_i))``, the oldest if
        several are equal.
        """
        self.reserve(1)
        counts = np.array([0, NOTHING, self.order, len(self.points_buffer)], dtype=np.int64)
        point = np.require(point[0], requirements=["C", "W"])
        found = called(visit, *self.rules, self.storage, counts, point, self.outputs)
        fit, stored, cross, moved, dropped = found
        self.order = int(counts[ORDER])
        return Visit(fit, stored, cross if stored else None, moved, dropped)

    def _saved(self) -> dict[str, Array]:
        """Return the arrays that a snapshot holds, not copied."""
        return {
            "points": self.points,
            "basis": self.factor,
            "gram": self.gram,
            "image": self.image_buffer[: self.order],
            "recency": self.recency_buffer[: self.order],
            "fits": self.past_fits,
            "visits": self.storage[:OWN],
        }

    def snapshot(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self._saved().items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore a new subspace, without samples, from the result of :meth:`snapshot`."""
        self.reserve(len(arrays["points"]))
        self.order = len(arrays["points"])
        for name, array in self._saved().items():
            array[:] = arrays[name]
        basis = Basis(self.points_buffer, self.gram_buffer, self.factor_buffer, self.image_buffer, self.recency_buffer)
        squares = Squares(self.inner, self.triangle, self.mixing)
        subspace_updates.prepare(basis, self.order, self.tracking.regularization, squares)


# The step of learners on a subspace that follows the samples, in compiled code.

SAMPLES, COMPARED = range(OWN)
"""Indices among the numbers before the arrays: of the samples so far, and of the fits compared with the threshold."""

CROSS, AT, BOUND = range(3)
"""Indices among the addresses: the kernel, the step size of the subspace, and the threshold on fits."""

RULES, STEP, THRESHOLD, OF_KERNEL = range(4)
"""The parts of the numbers: those of the rules, of the step, of the threshold, and of the kernel."""

RANK, WINDOW, SHRINKAGE, RIDGE, PARAMETRIC, BUDGET_SIZE, RECENCY, FOLLOW, FULL = range(9)
"""Indices among the numbers of the rules: the rank and the window; the regularization of the weights and of the
subspace; the rules of the update; and the number of points from which on samples are censored."""


def rules_of(kernel: Kernel, tracking: Tracking, follow: bool, shrinkage: float = 0.0) -> tuple[tuple[int, ...], Array]:
    """Return the addresses and numbers of a subspace's rules, and of the regularization of the weights."""
    form, following, censoring = kernel_form(kernel), step_form(tracking.step), censoring_form(tracking.censoring)
    own = {
        RANK: tracking.rank,
        WINDOW: tracking.censoring.window,
        SHRINKAGE: shrinkage,
        RIDGE: tracking.regularization,
        PARAMETRIC: tracking.update == "parametric",
        BUDGET_SIZE: tracking.budget_size or 0,
        RECENCY: tracking.recency,
        FOLLOW: follow,
        FULL: tracking.censored_from,
    }
    rules = [float(own[place]) for place in range(len(own))]
    tools = address(form.cross, KERNEL), address(following.at, SUBSPACE_STEP), address(censoring.bound, CENSOR)
    return tools, packed(rules, following.numbers, censoring.numbers, form.numbers)


class Tables(NamedTuple):
    """The arrays of a subspace."""

    coefficients: Array  # (r, C)
    squares: Squares
    fits: Array  # (window,)
    basis: Basis


@inline_always
def tables(numbers: Array, storage: Array, capacity: int, inputs: int, outputs: int) -> Tables:
    """Return the arrays of a subspace in its storage, in the layout of its parts."""
    rules = part_of(numbers, RULES)
    rank, window = int(rules[RANK]), int(rules[WINDOW])
    square, tall, inner = rank * rank, capacity * rank, OWN + rank * outputs
    fits = inner + 3 * square
    points = fits + window
    factor = points + capacity * inputs
    recency = factor + 2 * tall
    return Tables(
        table(storage, OWN, rank, outputs),
        Squares(
            inner=table(storage, inner, rank, rank),
            triangle=table(storage, inner + square, rank, rank),
            mixing=table(storage, inner + 2 * square, rank, rank),
        ),
        line(storage, fits, window),
        Basis(
            points=table(storage, points, capacity, inputs),
            gram=table(storage, recency + capacity, capacity, capacity),
            factor=table(storage, factor, capacity, rank),
            image=table(storage, factor + tall, capacity, rank),
            recency=line(storage, recency, capacity),
        ),
    )


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the features of points and the values of f."""
    order, (size, inputs), outputs = counts[ORDER], points.shape, values.shape[1]
    coefficients, squares, _, basis = tables(numbers, storage, counts[CAPACITY], inputs, outputs)
    known, products = np.empty((size, order)), np.empty((size, len(coefficients)))
    kernel_at(tools[CROSS])(part_of(numbers, OF_KERNEL), points, table(basis.points, 0, order, inputs), known)
    subspace_updates.coordinates(known, basis.factor, order, products)
    copy_matrix(subspace_updates.mix(products, squares.mixing), rows)
    combine_into(rows, coefficients, len(coefficients), values)


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
    gram_of(rows, int(part_of(numbers, RULES)[RANK]), gram)


@cached_njit
def visit(
    tools: ReadOnlyIntegers, numbers: ReadOnly, storage: Array, counts: Integers, point: Array, outputs: int
) -> tuple[float, bool, Array, float, int]:
    """Update a subspace with one sample (p,); returns the entries of a `Visit`."""
    rules, order, inputs = part_of(numbers, RULES), counts[ORDER], len(point)
    coefficients, squares, fits, basis = tables(numbers, storage, counts[CAPACITY], inputs, outputs)
    storage[SAMPLES] += 1.0
    copy_vector(point, basis.points[order])
    row = np.empty((1, order + 1))
    everything = table(basis.points, 0, order + 1, inputs)
    kernel_at(tools[CROSS])(
        part_of(numbers, OF_KERNEL), table(basis.points, order * inputs, 1, inputs), everything, row
    )
    product, projection, fit, length = subspace_updates.project(
        row, order, basis.factor, squares.triangle, row[0, order], rules[RIDGE]
    )
    if order < len(coefficients):
        censored = subspace_updates.holds(basis.points, order, order)
    else:
        window, compared = len(fits), int(storage[COMPARED])
        known, threshold = line(fits, 0, min(window, compared)), part_of(numbers, THRESHOLD)
        censored = order >= rules[FULL] and fit < censor_at(tools[BOUND])(threshold, known)
        if window:
            fits[compared % window] = fit
            storage[COMPARED] += 1.0
    if censored:
        return fit, False, squares.inner, 0.0, -1
    samples, most = int(storage[SAMPLES]), int(rules[BUDGET_SIZE])
    counts[ORDER], cross, moved, dropped = subspace_updates.advance(
        basis,
        order,
        squares,
        row[0],  # no view by `line`: the row must live until then, whatever the rules allocate
        product,
        projection,
        Update(
            regularization=rules[RIDGE],
            parametric=rules[PARAMETRIC] > 0.0,
            most=most if most > 0 else counts[CAPACITY],
            recency=rules[RECENCY],
        ),
        subspace_step_at(tools[AT])(part_of(numbers, STEP), samples, length),
        samples,
        coefficients,
        rules[FOLLOW] > 0.0,
    )
    return fit, True, cross, moved, dropped


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step on the weights, then update the subspace with the node's own samples."""
    counts, points, outputs = given.counts, given.points, given.gradients.shape[1]
    rules, inputs = part_of(given.numbers, RULES), points.shape[1]
    coefficients = tables(given.numbers, given.storage, counts[CAPACITY], inputs, outputs).coefficients
    descend_by(given, coefficients, 1.0 - given.sizes[0] * rules[SHRINKAGE], len(coefficients))
    moved = 0.0
    for n in range(len(given.targets)):
        point = line(points, n * inputs, inputs)
        moved += visit(given.tools, given.numbers, given.storage, counts, point, outputs)[3]
    if rules[BUDGET_SIZE] == 0.0:
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
        If the weights belong to the points.
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
        self._bounded = tracking.budget_size is not None
        self.tools, self._numbers = rules_of(learner.kernel, tracking, learner.follow, learner.regularization)

    def numbers(self, state: Any) -> Array:
        return self._numbers

    def _room(self, state: Any, capacity: int) -> int:
        """Return the capacity of a subspace: with a budget its own, otherwise the common ``capacity``."""
        return len(state.subspace.points_buffer) if self._bounded else capacity

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
        return len(state.subspace.points_buffer)

    def storage(self, state: Any) -> Array:
        vector: Array = state.subspace.storage
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        state.subspace.move(storage, self._room(state, capacity))
        state.refer()

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        order, room = state.subspace.order, self._room(state, capacity)
        return np.array([ALWAYS if self._bounded else room - order, NOTHING, order, room], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        state.subspace.order = int(counts[ORDER])
        state.steps += steps
        state.refer()
