"""Kernel recursive least squares on a dictionary of approximately linearly independent points."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kernelswarm.agents.arithmetic.abi import ORDER, ROOM, StepArguments, kernel_at
from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import Information
from kernelswarm.agents.functions.solved_sum import Fading, FadingSum, Solved, SolvedSum, WindowedSum, fading_in, tables
from kernelswarm.agents.learners import calling, information
from kernelswarm.agents.learners import moves as sample_terms
from kernelswarm.agents.learners.certainty import CertainDescent, Posterior, check_certain
from kernelswarm.agents.learners.descent import (
    CAPACITY,
    CROSS,
    CompiledExpansion,
    DescentInSpace,
    LearnerState,
    kernel_numbers,
    own_numbers,
)
from kernelswarm.agents.learners.moves import FORGETTING, OWN, REACH, RIDGE
from kernelswarm.agents.learners.observations import (
    MEMORY,
    Memory,
    Terms,
    absorb_taught,
    forget_old,
    kept,
    log_diagonal,
    weigh,
)
from kernelswarm.agents.learners.rls_steps import renew
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount
from kernelswarm.protocols.parameters.least_squares import learn_noise, noise_of
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

# The step of kernel recursive least squares in compiled code.
#
# With the Gram matrix ``K = L L'`` of the dictionary a sample has the features ``z = inv(L) k(x)``, and f is ``w'z``. A
# new point appends the row ``[z', sqrt(s)]`` to L, with the Schur complement ``s = kappa(x, x) - z'z``. The state also
# holds the triangle R and Q: ``R'R`` and ``R'Q`` are the sums of ``r z z'`` and ``r z t'``. Each sample is rotated into
# the triangle, and ``R w = Q`` is solved by back substitution.
#
# Why this form: the published recursion updates the inverses of K and of the sum by subtractions. If points are nearly
# dependent, that loses all digits. Here triangular systems are solved, rotations subtract nothing, and the norm of the
# features z is at most ``sqrt(kappa(x, x))``, unlike that of the paper's ``inv(K) k(x)``.

LONG_LOOPS = True

DERIVATIVES = 1
"""Index of the loss's first address among the addresses that a step calls; the kernel's comes before it."""


class Desk(NamedTuple):
    """The working memory of a step."""

    images: Array  # (N, capacity), the features of the points
    scaled: Array  # (N, capacity)
    sums: Array  # (capacity, C)
    product: Array  # (capacity,)
    row: Array  # (1, capacity)
    ridges: Array  # (capacity,)
    aim: Array  # (1, C)
    aims: Array  # (n, C)


@cached_njit
def room(capacity: int, points: int, outputs: int) -> int:
    """Return the size, in numbers, of the working memory of a step on this many points."""
    return capacity * (2 * points + 3 + 2 * outputs) + (points + 1) * outputs


@inline_always
def image_of(lower: Array, order: int, row: Array, image: Array) -> float:
    """Solve ``L z = k`` by forward substitution; returns ``z'z``."""
    width, squared = lower.shape[1], 0.0
    for i in range(order):
        entry = (row[i] - dot(lower, i * width, image, i)) / lower[i, i]
        image[i] = entry
        squared += entry * entry
    return squared


@inline_always
def learn(
    work: Array,  # as `room` says
    known: Solved,
    before: int,
    points: ReadOnly,  # (N, p)
    rows: Array,  # (N, capacity or more); columns of new points are filled in
    gram: Array,  # (N, N)
    terms: Terms,
    ridge: float,
    dependency: float,
    fading: Fading,
) -> int:
    """Add points, move along the pulls, forget, add own samples and taught observations, and solve.

    Returns the new order.

    A pull moves the function by ``unit`` times the move of a sample of curvature 1, or along the kernel if unit is 0.
    """
    size, outputs = terms.pulls.shape
    capacity, columns, count = len(known.points), rows.shape[1], len(terms.aims)
    images, scaled = table(work, 0, size, capacity), table(work, size * capacity, size, capacity)
    rest = 2 * size * capacity
    desk = Desk(
        images,
        scaled,
        table(work, rest, capacity, outputs),
        line(work, rest + outputs * capacity, capacity),
        table(work, rest + (outputs + 1) * capacity, 1, capacity),
        line(work, rest + (outputs + 2) * capacity, capacity),
        table(work, rest + (outputs + 3) * capacity, 1, outputs),
        table(work, rest + (outputs + 3) * capacity + outputs, count, outputs),
    )
    own = Information(known.root, known.moments, known.noise)
    order = _enter(known, before, points, rows, gram, terms, ridge, dependency, images)
    for n in range(size):
        image_of(known.lower, order, line(rows, n * columns, order), line(images, n * capacity, capacity))
    # Without a ridge the points that just entered have no information, and inv(R) would divide by 0 there.
    reached = order if ridge > 0.0 else before
    for i in range(order if fading.share < 1.0 else 0):
        desk.ridges[i] = ridge
    if fading.share > 0.0:
        share = fading.share**count
        _take_in(own, order, reached, terms, terms.aims, share, desk)
        if count:
            learn_noise(known.noise, terms.aims, terms.curvatures, terms.of_weight_one, 1.0 - share)
        _settle(own, order, terms, 1.0 - share, fading.cursor, desk)
    else:
        _learn_adaptively(Memory(own, fading.recent, fading.window), before, order, terms, fading.cursor, desk)
    _solve(known, order, desk.sums)
    return order


@inline_always
def _learn_adaptively(memory: Memory, before: int, order: int, terms: Terms, cursor: Array, desk: Desk) -> None:
    """Add a step's pulls and samples to both memories, and cut the first if recent samples predict better."""
    known, recent, window = memory
    for i in range(before, order):  # the points that just entered
        for k in range(i):
            recent.root[i, k] = recent.root[k, i] = 0.0
        recent.root[i, i] = known.root[i, i]
        for c in range(recent.moments.shape[1]):
            recent.moments[i, c] = 0.0
    share, aims, recent_aims = kept(window[MEMORY]) ** len(terms.aims), terms.aims, desk.aims
    for n in range(len(aims)):
        for c in range(aims.shape[1]):
            recent_aims[n, c] = aims[n, c]
    wide, recent_wide = log_diagonal(known.root, order), log_diagonal(recent.root, order)
    _take_in(known, order, order, terms, aims, 1.0, desk)
    _take_in(recent, order, order, terms, recent_aims, share, desk)
    wide, recent_wide = log_diagonal(known.root, order) - wide, log_diagonal(recent.root, order) - recent_wide
    weigh(memory, wide, recent_wide, order, share, terms.curvatures, aims, recent_aims)
    _settle(known, order, terms, 0.0, cursor, desk)
    _settle(recent, order, terms, 1.0 - share, cursor, desk)
    forget_old(memory, order)


@inline_always
def _take_in(known: Information, order: int, reached: int, terms: Terms, aims: Array, share: float, desk: Desk) -> None:
    """Add pulls, in the first ``reached`` coordinates, and samples to the sums.

    Before samples are added, the sums are multiplied by ``share``. The aims (n, C) are overwritten with the residuals.
    """
    root, moments, _ = known
    count, capacity = len(aims), desk.images.shape[1]
    if terms.coupled:
        _pull(root, moments, terms, desk.images, order, reached, desk.sums)
    if not count:
        return
    if share < 1.0:
        information.forget(root, moments, order, share)
    for n in range(count):
        scale = math.sqrt(terms.curvatures[n])
        for i in range(order):
            desk.scaled[n, i] = scale * desk.images[n, i]
        for c in range(aims.shape[1]):
            aims[n, c] *= scale
    information.absorb(root, moments, order, table(desk.scaled, 0, count, capacity), aims, desk.product)


@inline_always
def _settle(known: Information, order: int, terms: Terms, lost: float, cursor: Array, desk: Desk) -> None:
    """Renew the ridge after forgetting, and add taught values."""
    root, moments, _ = known
    if lost > 0.0:
        given = desk.ridges, lost, cursor[0], desk.row, desk.aim, desk.product
        cursor[0] = renew(root, moments, order, *given)
    if len(terms.taught):
        absorb_taught(root, moments, order, desk.images, terms.taught)


@inline_always
def _enter(
    known: Solved,
    order: int,
    points: Array,
    rows: Array,
    gram: Array,
    terms: Terms,
    ridge: float,
    dependency: float,
    images: Array,
) -> int:
    """Add the points that are far enough from the span of the dictionary; returns the new order."""
    lower, root, moments = known.lower, known.root, known.moments
    capacity, columns = len(lower), rows.shape[1]
    for n in range(len(points)):
        if not _may_enter(n, len(terms.aims), terms.pulls, ridge, terms.taught):
            continue
        image = line(images, n * capacity, capacity)
        beyond = gram[n, n] - image_of(lower, order, line(rows, n * columns, order), image)
        if not beyond > dependency * gram[n, n]:
            continue
        copy_vector(line(points, n * points.shape[1], points.shape[1]), known.points[order])
        for k in range(order):
            lower[order, k] = image[k]
            root[order, k] = root[k, order] = 0.0
        lower[order, order] = math.sqrt(beyond)
        root[order, order] = math.sqrt(ridge)
        for c in range(moments.shape[1]):
            moments[order, c] = 0.0
        for k in range(len(points)):
            rows[k, order] = gram[k, n]
        order += 1
    return order


@inline_always
def _pull(root: Array, moments: Array, terms: Terms, images: Array, order: int, reached: int, sums: Array) -> None:
    """Move the first ``reached`` coordinates along the pulls."""
    size, outputs = terms.pulls.shape
    for i in range(order):
        for c in range(outputs):
            sums[i, c] = 0.0
            for n in range(size):
                sums[i, c] += images[n, i] * terms.pulls[n, c]
    if terms.unit > 0.0:
        information.pull(root, moments, reached, sums, terms.unit)
    else:
        information.shift(root, moments, reached, sums)


@inline_always
def _solve(known: Solved, order: int, solution: Array) -> None:
    """Fill in the weights W by solving ``R w = Q``, then ``L'W = w``."""
    lower = known.lower
    information.solve(known.root, known.moments, order, solution)
    for i in range(order - 1, -1, -1):
        for c in range(solution.shape[1]):
            weight = solution[i, c] / lower[i, i]
            known.weights[i, c] = weight
            for k in range(i):
                solution[k, c] -= lower[i, k] * weight


@cached_njit
def _may_enter(n: int, own: int, pulls: Array, ridge: float, taught: ReadOnly) -> bool:
    """Return whether point n may enter: own samples may, and, with a ridge, points with a pull or a taught value."""
    if n < own:
        return True
    moves = len(taught) > 0 and taught[n, taught.shape[1] - 1] > 0.0
    for c in range(pulls.shape[1]):
        moves = moves or pulls[n, c] != 0.0
    return moves and ridge > 0.0


@cached_njit
def products(
    lower: Array, root: Array, order: int, rows: ReadOnly, ridge: float, reach: float, gram: Array, images: Array
) -> None:
    """Overwrite the kernel between points (n, n) with the change of f at each point for a weight of 1 at each point.

    The change is ``reach z' inv(R'R) z``. With a ridge, the kernel's part outside the dictionary's span, divided by the
    ridge, is added to ``z' inv(R'R) z``. ``images`` (2, n, order) is working memory.
    """
    size, width = len(gram), rows.shape[1]
    for n in range(size):
        image, known = images[0, n], images[1, n]
        image_of(lower, order, line(rows, n * width, order), image)
        for i in range(order):
            known[i] = image[i]
        information.forward(root, order, known)
    for n in range(size):
        for m in range(n + 1):
            inside = within = 0.0
            for i in range(order):
                inside += images[0, n, i] * images[0, m, i]
                within += images[1, n, i] * images[1, m, i]
            beyond = gram[n, m] - inside
            if n == m:
                beyond = max(beyond, 0.0)
            if ridge > 0.0:
                within += beyond / ridge
            gram[n, m] = gram[m, n] = reach * within


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Add own samples and taught observations to the information, and move along the pulls in the gradients."""
    counts, scratch, points, own = given.counts, given.scratch, given.points, own_numbers(given.numbers)
    (size, outputs), capacity = given.gradients.shape, counts[CAPACITY]
    gram = table(scratch, 0, size, size)
    kernel_at(given.tools[CROSS])(kernel_numbers(given.numbers), points, points, gram)
    first, taken = size * size, sample_terms.terms_room(size, outputs)
    terms = sample_terms.terms(given, sample_terms.asked_in(own), line(scratch, first, taken), DERIVATIVES)
    first += taken
    work, known = line(scratch, first, len(scratch) - first), tables(given.storage, capacity, points.shape[1], outputs)
    fading = fading_in(given.storage, capacity, points.shape[1], outputs, own[FORGETTING])
    order = learn(work, known, counts[ORDER], points, given.rows, gram, terms, own[RIDGE], own[OWN], fading)
    counts[ORDER], counts[ROOM] = order, capacity - order
    return 0.0


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
    """Fill ``gram`` (N, N): entry (m, n) is the change of f at point m for a weight of 1 at point n."""
    own, order, capacity, outputs = own_numbers(numbers), counts[ORDER], counts[CAPACITY], values.shape[1]
    kernel_at(tools[CROSS])(kernel_numbers(numbers), points, points, gram)
    known = tables(storage, capacity, points.shape[1], outputs)
    products(known.lower, known.root, order, rows, own[RIDGE], own[REACH], gram, np.empty((2, len(gram), order)))


class CompiledKrls(CompiledExpansion):
    """Functions and numbers of the learner for compiled rounds.

    Parameters
    ----------
    learner : Krls
        The learner.
    """

    inner = staticmethod(inner)
    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        numbers = sample_terms.numbers_of(learner, learner.dependency, learner.share)
        super().__init__(learner, numbers, sample_terms.tools_of(learner))

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the size, in numbers, of the Gram matrix, the samples' terms, and a step's working memory."""
        outputs = state.function.outputs
        return int(points * points + sample_terms.terms_room(points, outputs) + room(capacity, points, outputs))


LEAST_DEPENDENCY = 1e-8
"""With a smaller dependency the features of new points would be rounding errors."""


@dataclass(frozen=True)
class Krls(CertainDescent, DescentInSpace):
    """Kernel recursive least squares (KRLS): least squares on all samples, in the span of nearly independent samples.

    A sample enters the dictionary D, permanently, if it passes the test of approximate linear dependency

        kappa(x, x) - k' inv(K_DD) k > dependency kappa(x, x)        k = kappa(D, x)

    Other samples are replaced by their projections on the span of D. After every sample f minimises

        sum_n r_n / 2 ||f(P x_n) - t_n||^2 + lambda / 2 ||f||^2

    over the span of D. P x_n is the projection on the dictionary at the time of sample n. For the squared loss t_n is
    the target. For other losses ``t_n = f_n(x_n) - g_n / r_n``, with the slope g_n and the curvature r_n of the loss
    when sample n arrived.

    With the squared loss, a ridge of 0 and kappa(x, x) = 1 the function is that of table 1 of Engel, Mannor and Meir
    (IEEE Trans. Signal Processing 2004). The computation differs: their recursion on inverses loses all digits if D is
    nearly dependent, so triangular factors are updated instead.

    With the ``forgetting`` factor beta, sample n has the weight ``beta^(N - n)`` after N samples. The ridge does not
    decay: it is renewed after each step in some coordinates of the features ``inv(L) k``, which are orthonormal, as in
    `rls`. Points stay in the dictionary; only the weights of samples decay.

    There is no budget: the size of the dictionary depends on the variety of the inputs. `newton` has a budget. In a
    network a pull moves f as for `newton`.

    Parameters
    ----------
    loss : Loss
        The loss of a sample; its curvature must not be 0.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size of explicit couplings. Implicit couplings take the fraction eta / max(eta) of their Newton
        step. Own samples need no step size.
    ridge : float or "auto"
        lambda as a multiple of the loss's largest curvature, nonnegative: the weight of ``||f||^2`` in units of
        samples. 0, as in the paper, needs a quadratic loss. "auto" is the ratio of noise variance to signal variance,
        estimated from a sample of the data, at least 0.1; for classes a quarter of that ratio, at least 0.005; for
        squared hinges 0.2.
    dependency : float
        The paper's nu, in [1e-8, 1): the least fraction of kappa(x, x) outside the span for a point to enter.
    forgetting : float or "auto"
        beta, the forgetting factor in (0, 1]; 1 forgets nothing. "auto" adapts it during the
        run, as `newton` does. A factor below 1 and "auto" need a ridge above 0.
    batch_size : int
        b, the number of samples that a node draws per round.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    ridge: float | Literal["auto"] = "auto"
    dependency: float = 1e-3
    forgetting: float | Literal["auto"] = 1.0
    batch_size: int = 1

    ranges: ClassVar = {
        "dependency": Range(f"[{LEAST_DEPENDENCY:g}, 1)", "1e-4 to 1e-2 are usual"),
        "ridge": Range("[0, inf)", "", "auto"),
    }

    def __post_init__(self) -> None:
        check_certain(self)
        if self.ridge == 0.0 and self.share < 1.0:
            raise RefusedKey(
                "ridge",
                f"= 0 leaves no function where samples are forgotten: forgetting = {self.forgetting!r} needs one",
            )

    def init(self, inputs: int, outputs: int) -> LearnerState[SolvedSum]:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        kind = WindowedSum if self.adaptive else FadingSum if self.share < 1.0 else SolvedSum
        return LearnerState(kind(self.kernel, inputs, outputs))

    inner, step = calling.inner, calling.step

    def noise(self, state: LearnerState[SolvedSum]) -> Array:
        return state.function.noise

    def posterior(self, state: LearnerState[SolvedSum]) -> Posterior | None:
        """Return the posterior of the function; None without a ridge, and for losses other than the squared loss.

        A `Posterior` needs the root of the information on kernel rows k. The state's R refers to the features
        ``inv(L) k`` instead, so that the posterior's root is ``R L'``.
        """
        if not self.gaussian:
            return None
        function, scale = state.function, self.loss.curvature
        order = function.order
        lower = np.ascontiguousarray(function.lower_buffer[:order, :order])
        root = function.root_buffer[:order, :order] @ lower.T
        inverse = solve_triangular(lower, np.eye(order), lower=True) if order else lower
        return Posterior(function, root, np.ascontiguousarray(inverse), self.penalty, scale, noise_of(function.noise))

    @property
    def compiled(self) -> CompiledKrls:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledKrls(self)
