"""The step of recursive least squares on fixed features, in compiled code.

The state holds the coefficients W, the triangle R, Q, and the coordinate whose ridge is renewed next. ``R'R`` is the
sum of ``r phi phi'`` and the ridge, ``R'Q`` the sum of ``r phi t'``. Samples are rotated into R (QR recursive least
squares), because with forgetting the recursion on ``inv(R'R)`` loses positive definiteness.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelswarm.agents.arithmetic.abi import StepArguments
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import Information
from kernelswarm.agents.functions.kernel_sum import combine_into
from kernelswarm.agents.learners import information, moves, random_walk
from kernelswarm.agents.learners.linear_in_features import FEATURES, CompiledVector, features_at
from kernelswarm.agents.learners.moves import FORGETTING, OWN, REACH
from kernelswarm.agents.learners.observations import (
    MEMORY,
    WINDOW,
    Memory,
    Terms,
    absorb_taught,
    forget_old,
    kept,
    log_diagonal,
    weigh,
)
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import Compiled, address
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount
from kernelswarm.protocols.parameters.least_squares import ROWS, learn_noise

LONG_LOOPS = True

EVALUATES, DERIVATIVES = range(2)
"""Indices among the addresses that a step calls: the features', then the loss's."""


@cached_njit
def room(features: int, points: int, outputs: int) -> int:
    """Return the size, in numbers, of the working memory of a step on this many points."""
    return features * (points + 2 + outputs) + outputs


@inline_always
def learn(
    work: Array,  # as `room` says
    coefficients: Array,  # (L, C)
    known: Information,
    cursor: float,
    features: Array,  # (N, L or more)
    terms: Terms,
    ridges: Array,  # (L,)
    forgetting: float,
) -> float:
    """Move along the pulls, forget, add own samples and taught observations, and solve; returns the cursor.

    A pull moves the function by ``unit`` times the move of a sample of curvature 1, or along the features if unit is 0.
    """
    count = len(terms.aims)
    share = forgetting**count
    _take_in(work, known, features, terms, terms.aims, share)
    if count:
        learn_noise(known.noise, terms.aims, terms.curvatures, terms.of_weight_one, 1.0 - share)
    cursor = _settle(work, known, features, ridges, 1.0 - share, cursor, terms)
    information.solve(known.root, known.moments, len(known.root), coefficients)
    return cursor


@cached_njit
def learn_adaptively(
    work: Array,  # as `room` says
    coefficients: Array,  # (L, C)
    memory: Memory,
    cursor: float,
    features: Array,  # (N, L or more)
    terms: Terms,
    ridges: Array,  # (L,)
) -> float:
    """Do the same as :func:`learn`, with a memory that is cut if recent samples predict better; returns the cursor."""
    known, recent, window = memory
    order, aims = len(known.root), terms.aims
    share, recent_aims = kept(window[MEMORY]) ** len(aims), aims.copy()
    wide, recent_wide = log_diagonal(known.root, order), log_diagonal(recent.root, order)
    _take_in(work, known, features, terms, aims, 1.0)
    _take_in(work, recent, features, terms, recent_aims, share)
    wide, recent_wide = log_diagonal(known.root, order) - wide, log_diagonal(recent.root, order) - recent_wide
    weigh(memory, wide, recent_wide, order, share, terms.curvatures, aims, recent_aims)
    _settle(work, known, features, ridges, 0.0, cursor, terms)
    cursor = _settle(work, recent, features, ridges, 1.0 - share, cursor, terms)
    forget_old(memory, order)
    information.solve(known.root, known.moments, order, coefficients)
    return cursor


@njit_no_refcount
def _take_in(work: Array, known: Information, features: Array, terms: Terms, aims: Array, share: float) -> None:
    """Add pulls and samples to the sums; before samples are added, the sums are multiplied by ``share``.

    The aims (n, C) are overwritten with the residuals.
    """
    root, moments, _ = known
    size, outputs = terms.pulls.shape
    order, count = len(root), len(aims)
    rows, product = table(work, 0, size, order), line(work, size * order, order)
    sums = table(work, (size + 1) * order, order, outputs)
    if terms.coupled:
        for i in range(order):
            for c in range(outputs):
                sums[i, c] = 0.0
                for n in range(size):
                    sums[i, c] += features[n, i] * terms.pulls[n, c]
        if terms.unit > 0.0:
            information.pull(root, moments, order, sums, terms.unit)
        else:
            information.shift(root, moments, order, sums)
    if not count:
        return
    if share < 1.0:
        information.forget(root, moments, order, share)
    for n in range(count):
        scale = math.sqrt(terms.curvatures[n])
        for i in range(order):
            rows[n, i] = scale * features[n, i]
        for c in range(outputs):
            aims[n, c] *= scale
    information.absorb(root, moments, order, table(rows, 0, count, order), aims, product)


@njit_no_refcount
def _settle(
    work: Array, known: Information, features: Array, ridges: Array, lost: float, cursor: float, terms: Terms
) -> float:
    """Renew the ridge after forgetting, and add taught values; returns the cursor."""
    root, moments, _ = known
    size, outputs = terms.pulls.shape
    order = len(root)
    if lost > 0.0:
        first = (size + 1 + outputs) * order
        row, aim = table(work, first, 1, order), table(work, first + order, 1, outputs)
        cursor = renew(root, moments, order, ridges, lost, cursor, row, aim, line(work, size * order, order))
    if len(terms.taught):
        absorb_taught(root, moments, order, features, terms.taught)
    return cursor


@cached_njit
def renew(
    root: Array,
    moments: Array,
    order: int,
    ridges: Array,
    lost: float,
    cursor: float,
    row: Array,
    aim: Array,
    product: Array,
) -> float:
    """Restore the ridge after forgetting in a few coordinates per step, in turn, as `moves.renew` does."""
    left = min(order, math.ceil(4.0 * order * lost))
    for _ in range(left):
        place = int(cursor) if 0.0 <= cursor < order else 0
        for i in range(order):
            row[0, i] = 0.0
        for c in range(aim.shape[1]):
            aim[0, c] = 0.0
        row[0, place] = math.sqrt(ridges[place] * lost * order / left)
        information.absorb(root, moments, order, row, aim, product)
        cursor = place + 1.0
    return cursor


@cached_njit
def products(root: Array, features: ReadOnly, reach: float, gram: Array, known: Array) -> None:
    """Fill ``gram`` (n, n) with ``reach phi' inv(R'R) phi``, the change of f at a point for a weight of 1 at another.

    ``known`` (n, L) is working memory.
    """
    size, order = len(gram), len(root)
    for n in range(size):
        for i in range(order):
            known[n, i] = features[n, i]
        information.forward(root, order, known[n])
    for n in range(size):
        for m in range(n + 1):
            gram[n, m] = gram[m, n] = reach * dot(known, n * order, known[m], order)


@inline_always
def _own(numbers: Array) -> Array:
    return line(numbers, 1, int(numbers[0]))


@inline_always
def _ridges(numbers: Array) -> Array:
    own = _own(numbers)
    return line(numbers, 1 + len(own), int(own[OWN]))


@inline_always
def _walk(numbers: Array) -> Array:
    """Return the variance of each weight's random walk, (L,); empty if the weights are constant."""
    own = _own(numbers)
    first = 1 + len(own) + int(own[OWN])
    return line(numbers, first + 1, int(numbers[first]))


@inline_always
def _feature_numbers(numbers: Array) -> Array:
    own = _own(numbers)
    first = 1 + len(own) + int(own[OWN])
    first += 1 + int(numbers[first])
    return line(numbers, first, len(numbers) - first)


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the features of points and the values of f."""
    count = int(_own(numbers)[OWN])
    features_at(tools[EVALUATES])(_feature_numbers(numbers), points, rows)
    combine_into(rows, table(storage, 0, count, values.shape[1]), count, values)


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Add own samples and taught observations to the information, and move along the pulls in the gradients."""
    storage, scratch, own, ridges = given.storage, given.scratch, _own(given.numbers), _ridges(given.numbers)
    size, outputs = given.gradients.shape
    order, taken = int(own[OWN]), moves.terms_room(size, outputs)
    terms = moves.terms(given, moves.asked_in(own), line(scratch, 0, taken), DERIVATIVES)
    coefficients, work = table(storage, 0, order, outputs), line(scratch, taken, len(scratch) - taken)
    known, last = _information(storage, order * outputs, order, outputs)  # other learners' vectors may be longer
    cursor, walk = storage[last], _walk(given.numbers)
    if len(walk):
        random_walk.learn(work, coefficients, known.root, known.noise, given.rows, terms, walk)
    elif own[FORGETTING] == 0.0:
        recent, window = _information(storage, last + 1, order, outputs)
        memory = Memory(known, recent, line(storage, window, WINDOW))
        storage[last] = learn_adaptively(work, coefficients, memory, cursor, given.rows, terms, ridges)
    else:
        storage[last] = learn(work, coefficients, known, cursor, given.rows, terms, ridges, own[FORGETTING])
    return 0.0


@inline_always
def _information(storage: Array, first: int, order: int, outputs: int) -> tuple[Information, int]:
    """Return R, Q and the noise stored in a vector from ``first`` on, and the index after them."""
    moments = first + order * order
    noise = moments + order * outputs
    found = Information(
        table(storage, first, order, order),
        table(storage, moments, order, outputs),
        table(storage, noise, ROWS, outputs),
    )
    return found, noise + ROWS * outputs


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
    own, outputs = _own(numbers), values.shape[1]
    order = int(own[OWN])
    root = table(storage, order * outputs, order, order)
    if len(_walk(numbers)):
        random_walk.products(root, rows, own[REACH], gram)
    else:
        products(root, rows, own[REACH], gram, np.empty((len(gram), order)))


class CompiledRls(CompiledVector):
    """Functions and numbers of the learner for compiled rounds.

    Parameters
    ----------
    learner : Rls
        The learner.
    features : function
        The compiled function that computes the features, with the signature FEATURES.
    numbers : callable
        Returns the function's numbers from a state, (n,).
    """

    evaluate = staticmethod(evaluate)
    gradient = None
    inner = staticmethod(inner)
    step = staticmethod(step)

    def __init__(self, learner: Any, features: Compiled, numbers: Callable[[Any], Array]) -> None:
        super().__init__(learner)
        self.tools = (address(features, FEATURES), *moves.tools_of(learner))
        self._own, self._features = moves.numbers_of(learner, 0.0, learner.share), numbers

    def numbers(self, state: Any) -> Array:
        """Return the learner's numbers, each feature's ridge and random-walk variance, and the features' numbers."""
        ridges = self._learner.ridges(state)
        walk, own = self._learner.walk(state), self._own.copy()
        own[OWN] = len(ridges)
        return np.concatenate([[float(len(own))], own, ridges, [float(len(walk))], walk, self._features(state)])

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the size, in numbers, of the samples' terms and a step's working memory."""
        count, outputs = state.function.coefficients.shape
        return int(moves.terms_room(points, outputs) + room(count, points, outputs))
