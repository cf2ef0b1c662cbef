"""The signatures of the functions of kernels, losses, budgets and learners for compiled rounds.

A learner's state consists of a vector of numbers, ``storage``, and a vector of integers, ``counts``, in the learner's
own layout. The caller of the steps reads the first three integers: the number of further points that fit, the
maintenance that the learner requests before its next step, and the order of its function.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from numba import types

from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import (
    COUNTS_OUT,
    MATRIX,
    MATRIX_OUT,
    NUMBERS,
    TOOLS,
    VECTOR_OUT,
    Compiled,
    at,
)
from kernelswarm.protocols.core.compiling import ReadOnly, ReadOnlyIntegers
from kernelswarm.protocols.core.contiguous import PassedTuple

KERNEL = types.void(NUMBERS, MATRIX, MATRIX, MATRIX_OUT)
"""``cross(numbers, points (n, p), centers (m, p), values (n, m or more))`` fills the first m columns."""

DIAGONAL = types.void(NUMBERS, MATRIX, VECTOR_OUT)
"""``diagonal(numbers, points (n, p), values (n,))`` fills kappa(x, x)."""

LOSS_VALUES = types.void(NUMBERS, MATRIX, MATRIX, VECTOR_OUT)
"""``values(numbers, predictions (n, C), targets (n, q), values (n,))``."""

LOSS_DERIVATIVES = types.void(NUMBERS, MATRIX, MATRIX, MATRIX_OUT)
"""``derivatives(numbers, predictions (n, C), targets (n, q), slopes (n, C))``."""

BOUND = types.float64(NUMBERS, types.float64, types.float64, types.int64)
"""``bound(numbers, step_size, state, batch_size) -> eps``."""

NEXT_BUDGET = types.float64(NUMBERS, types.float64, types.int64)
"""``next(numbers, state, order) -> state``."""

SLOPES = types.void(NUMBERS, NUMBERS, types.float64, VECTOR_OUT)
"""``slopes(numbers, losses (n,), center, slopes (n,))`` of a dispersion."""

DESCEND = types.float64(NUMBERS, NUMBERS, types.float64, types.float64)
"""``descend(numbers, losses (n,), center, step_size) -> center`` of a dispersion."""

MIRROR = types.void(NUMBERS, MATRIX, MATRIX_OUT)
"""``values(numbers, duals (n, C), values (n, C))`` of a mirror map; both arrays may be the same one."""

SUBSPACE_STEP = types.float64(NUMBERS, types.int64, types.float64)
"""``at(numbers, sample, length) -> mu``."""

CENSOR = types.float64(NUMBERS, NUMBERS)
"""``bound(numbers, fits (at most the window,)) -> threshold``."""

EVALUATE = types.void(TOOLS, NUMBERS, VECTOR_OUT, COUNTS_OUT, MATRIX, MATRIX_OUT, MATRIX_OUT)
"""``evaluate(tools, numbers, storage, counts, points (n, p), rows (n, R), values (n, C))`` fills the last two."""

INNER = types.void(TOOLS, NUMBERS, NUMBERS, TOOLS, MATRIX, MATRIX, MATRIX, MATRIX_OUT)
"""``inner(tools, numbers, storage, counts, points (n, p), rows (n, R), values (n, C), gram (n, n))`` fills the last."""


class GradientArguments(NamedTuple):
    """The arguments of a learner's gradient; the state does not change."""

    tools: ReadOnlyIntegers  # the addresses of functions that the gradient calls
    numbers: ReadOnly  # the learner's own, the same for all of its states
    storage: ReadOnly  # the state's numbers
    counts: ReadOnlyIntegers  # the state's integers
    scratch: Array  # working memory
    points: ReadOnly  # (n, p)
    rows: ReadOnly  # (n, R), from `evaluate`
    values: ReadOnly  # (n, C), f at the points
    targets: ReadOnly  # (n, q)
    sizes: ReadOnly  # (k,), see StepArguments


GRADIENT_ARGUMENTS = PassedTuple(
    [TOOLS, NUMBERS, NUMBERS, TOOLS, VECTOR_OUT, MATRIX, MATRIX, MATRIX, MATRIX, NUMBERS], GradientArguments
)
"""Their numba type; the members are passed one by one."""

GRADIENT = types.void(GRADIENT_ARGUMENTS, MATRIX_OUT)
"""``gradient(given, found (n, C))`` fills the last, given :class:`GradientArguments`."""


class StepArguments(NamedTuple):
    """The arguments of a learner's step; rows and gradients may be written to.

    The first n of the N points are the node's own samples.
    """

    tools: ReadOnlyIntegers  # the addresses of functions that the step calls
    numbers: ReadOnly  # the learner's own, the same for all of its states
    storage: Array  # the state's numbers
    counts: Integers  # the state's integers
    scratch: Array  # working memory
    points: ReadOnly  # (N, p)
    rows: Array  # (N, R), from `evaluate`
    gradients: Array  # (N, C)
    rates: ReadOnly  # (N,)
    stiffness: ReadOnly  # (N,)
    implicit: bool
    sizes: ReadOnly  # (k,), eta and the learner's other schedules at this step
    values: ReadOnly  # (n, C), f at the samples
    targets: ReadOnly  # (n, q)
    taught: ReadOnly  # (N, 2 C + 1), observations of more certain neighbours (agents/nodes/agent.py), or no rows


STEP_ARGUMENTS = PassedTuple(
    [
        TOOLS,
        NUMBERS,
        VECTOR_OUT,
        COUNTS_OUT,
        VECTOR_OUT,
        MATRIX,
        MATRIX_OUT,
        MATRIX_OUT,
        NUMBERS,
        NUMBERS,
        types.boolean,
        NUMBERS,
        MATRIX,
        MATRIX,
        MATRIX,
    ],
    StepArguments,
)
"""Their numba type; the members are passed one by one."""

STEP = types.float64(STEP_ARGUMENTS)
"""``step(given) -> compression error``, given :class:`StepArguments`."""

REPACK = types.int64(VECTOR_OUT, COUNTS_OUT, VECTOR_OUT, types.int64, types.int64, types.int64)
"""``repack(storage, counts, other, p, C, capacity) -> length`` copies a state into another vector, laid out with room
for ``capacity`` points, if the vector is long enough, and updates the counts; returns the length that it needs."""

PLACE = types.void(NUMBERS, VECTOR_OUT, NUMBERS)
"""``place(numbers, storage, weights (L C,))`` sets a state to the function with these weights."""

kernel_at, diagonal_at = at(KERNEL), at(DIAGONAL)
loss_values_at, loss_derivatives_at = at(LOSS_VALUES), at(LOSS_DERIVATIVES)
compiled_bound_at, next_budget_at = at(BOUND), at(NEXT_BUDGET)
slopes_at, descend_at, mirror_at = at(SLOPES), at(DESCEND), at(MIRROR)
subspace_step_at, censor_at = at(SUBSPACE_STEP), at(CENSOR)
evaluate_at, inner_at, gradient_at, step_at = at(EVALUATE), at(INNER), at(GRADIENT), at(STEP)
repack_at, place_at = at(REPACK), at(PLACE)

ROOM, WANTS, ORDER = 0, 1, 2
"""Indices of a state's first integers: the number of further points that fit, its request before the next step, and the
order of its function."""

NOTHING, LOOK = range(2)
"""The request of a state: nothing, or its ``maintain``."""

ALWAYS = 2**62
"""The room of a state that does not grow."""


class CompiledKernel(NamedTuple):
    """A kernel for compiled steps."""

    cross: Compiled  # KERNEL
    numbers: Array
    unit: bool = False
    """Whether kappa(x, x) = 1 for all x."""
    diagonal: Compiled | None = None  # DIAGONAL
    """kappa(x, x) if it is not constantly 1; if missing, the kernel's method is called."""


class CompiledLoss(NamedTuple):
    """A loss for compiled rounds."""

    values: Compiled  # LOSS_VALUES
    derivatives: Compiled  # LOSS_DERIVATIVES
    numbers: Array
    curvatures: Compiled | None = None  # LOSS_VALUES
    """Each sample's curvature, for second-order steps, or None for a constant curvature."""
    offers: Compiled | None = None  # LOSS_VALUES
    """1 for each sample that second-order steps offer to the dictionary, 0 for the others; None to offer all."""


class CompiledBudget(NamedTuple):
    """A budget for compiled steps."""

    bound: Compiled  # BOUND
    next: Compiled  # NEXT_BUDGET
    numbers: Array


class CompiledDispersion(NamedTuple):
    """A dispersion for compiled steps."""

    slopes: Compiled  # SLOPES
    numbers: Array
    descend: Compiled | None = None  # DESCEND, or None for the mean as the center
    step_sizes: Callable[[int, int], Array] | None = None
    """Returns the step sizes of ``descend``, from the first step and the number of steps."""


class CompiledMirrorMap(NamedTuple):
    """A mirror map for compiled steps."""

    values: Compiled  # MIRROR
    numbers: Array


class CompiledSubspaceStep(NamedTuple):
    """The step of a subspace's update for compiled steps."""

    at: Compiled  # SUBSPACE_STEP
    numbers: Array


class CompiledCensoring(NamedTuple):
    """A threshold on the fits of samples for compiled steps."""

    bound: Compiled  # CENSOR
    numbers: Array


class CompiledLearner(Protocol):
    """A learner for compiled rounds, with the layout of its states.

    ``capacity`` is the number of dictionary points that fit; learners whose states do not grow ignore it.
    """

    @property
    def evaluate(self) -> Compiled:
        """The function with the signature EVALUATE."""

    @property
    def inner(self) -> Compiled:
        """The function with the signature INNER."""

    @property
    def gradient(self) -> Compiled | None:
        """The function with the signature GRADIENT, or None if the loss's derivatives are the gradient."""

    @property
    def step(self) -> Compiled:
        """The function with the signature STEP."""

    @property
    def tools(self) -> Sequence[int]:
        """Addresses of functions that these functions call."""

    def numbers(self, state: Any) -> Array:
        """Return the learner's own numbers, (n,), the same for all of its states."""

    def columns(self, state: Any, capacity: int) -> int:
        """Return R, the number of columns that ``evaluate`` keeps for the step."""

    def length(self, state: Any, capacity: int) -> int:
        """Return the length of a state's vector."""

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the length of the working memory of a step on ``points`` points, and of its gradient."""

    def steps(self, state: Any) -> int:
        """Return the number of steps that a state has taken."""

    def step_sizes(self, first: int, steps: int) -> Array:
        """Return eta of ``steps`` steps from ``first`` on, then the learner's other schedules: (steps, k)."""

    def order(self, state: Any) -> int:
        """Return the number of dictionary points of a state; 0 if states do not grow."""

    def reserve(self, state: Any, points: int) -> int:
        """Make room for ``points`` more points; returns the capacity."""

    def storage(self, state: Any) -> Array:
        """Return the vector of the state's numbers, not a copy."""

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        """Move the state into another vector, of ``length(capacity)``."""

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        """Return the state's integers, for steps on ``points`` points."""

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        """Update a state after compiled steps in its storage."""

    def maintain(self, state: Any) -> None:
        """Do the maintenance that the state requests, after :meth:`sync`."""


@runtime_checkable
class RepackedLearner(CompiledLearner, Protocol):
    """A learner whose states have room only for their own points; steps take place in memory with room for new points.

    The kernel rows from its ``evaluate`` have as many columns as the function has points.
    """

    @property
    def repack(self) -> Compiled:
        """The function with the signature REPACK."""

    def lay_out(self, state: Any, storage: Array, capacity: int) -> None:
        """Make the state refer to a vector that already holds it, in the layout for a capacity."""


@runtime_checkable
class CompiledFeatureLearner(CompiledLearner, Protocol):
    """A learner whose state consists of, or follows from, the weights of fixed features, (L, C)."""

    @property
    def place(self) -> Compiled:
        """The function with the signature PLACE."""
