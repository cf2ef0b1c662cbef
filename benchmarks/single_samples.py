"""Time of a sample at batch size 1, against the closed form on the inverse and against the least possible work.

The stream is a mixture of five Gaussians in the plane, learned with a Gaussian kernel until the model order is steady;
all columns then see the same samples, compiled, in one thread:

- polk: the whole step on the inverse Cholesky factor, through `kernelswarm.agents.nodes.passes`;
- inverse: the same step with recursive up- and downdates of the inverse Gram matrix. It is fast and unstable: at small
  budgets it loses its digits without a sign (the last column is its |inv(K) K - I|);
- inverse, lazy: the same, where a point that would be removed at once is not inserted, as polk does;
- least: one kernel row and one M x M matrix-vector product.

    python benchmarks/single_samples.py
"""

import copy
import math
import time
from collections.abc import Callable

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm.agents.arithmetic import kernel_formulas
from kernelswarm.agents.arithmetic.abi import LOSS_DERIVATIVES, loss_derivatives_at
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.functions.kernel_sum import combine_into
from kernelswarm.agents.learners.polk import Polk, PolkState
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Logistic, MulticlassLogistic
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import address

STEP_SIZE = 0.5
SETTINGS = [  # outputs, bandwidth, budget, samples to learn before
    (1, 0.7746, 0.16, 40_000),
    (5, 0.7746, 0.22, 40_000),
    (1, 0.7746, 0.003, 40_000),
    (5, 0.7746, 0.006, 40_000),
    (1, 0.3, 0.003, 40_000),
    (5, 0.3, 0.012, 40_000),
]
REPEATS = 40


@numba.njit(cache=True)
def inverse_steps(
    dictionary: Array,
    weights: Array,
    inverse: Array,
    order: int,
    points: Array,
    targets: Array,
    numbers: Array,  # the kernel's
    loss: int,  # the address of its derivatives
    shrink: float,
    rate: float,
    epsilon: float,
    lazy: bool,
) -> int:
    """Take a step for each sample on the inverse Gram matrix itself; returns the model order."""
    outputs = weights.shape[1]
    capacity = len(dictionary)
    projection = np.empty(capacity)
    values, slopes = np.empty((1, outputs)), np.empty((1, outputs))
    differentiate, nothing = loss_derivatives_at(loss), np.empty(0)
    for n in range(len(points)):
        rows = np.empty((1, order))
        kernel_formulas.gaussian(numbers, points[n : n + 1], dictionary[:order], rows)
        row = rows[0]
        combine_into(rows, weights, order, values)
        differentiate(nothing, values, targets[n : n + 1], slopes)
        new = slopes[0]
        for c in range(outputs):
            new[c] *= -rate
        for j in range(order):
            for c in range(outputs):
                weights[j, c] *= shrink
        schur = 1.0
        for i in range(order):
            projection[i] = dot(inverse, i * capacity, row, order)
            schur -= projection[i] * row[i]
        magnitude = 0.0
        for c in range(outputs):
            magnitude += new[c] * new[c]
        budget = epsilon * epsilon
        straight_out = lazy and magnitude * schur <= budget
        if straight_out:
            for j in range(order):
                score = 0.0
                for c in range(outputs):
                    score += weights[j, c] * weights[j, c]
                if score <= magnitude * schur * (inverse[j, j] + projection[j] * projection[j] / schur):
                    straight_out = False
                    break
        spent = 0.0
        if straight_out:
            for j in range(order):
                for c in range(outputs):
                    weights[j, c] += projection[j] * new[c]
            spent = magnitude * schur
        elif schur > 1e-10 and order < capacity:
            for i in range(order):
                ratio = projection[i] / schur
                line = inverse[i]
                for j in range(order):
                    line[j] += ratio * projection[j]
                line[order] = -ratio
                inverse[order, i] = -ratio
            inverse[order, order] = 1.0 / schur
            dictionary[order] = points[n]
            weights[order] = new
            order += 1
        while order > 0:
            best, least = 0, np.inf
            for j in range(order):
                score = 0.0
                for c in range(outputs):
                    score += weights[j, c] * weights[j, c]
                score /= inverse[j, j]
                if score < least:
                    best, least = j, score
            if not spent + least <= budget:
                break
            spent += least
            pivot = inverse[best, best]
            for i in range(order):
                projection[i] = inverse[i, best]
            for i in range(order):
                ratio = projection[i] / pivot
                if i != best:
                    for c in range(outputs):
                        weights[i, c] -= ratio * weights[best, c]
                line = inverse[i]
                for j in range(order):
                    line[j] -= ratio * projection[j]
            order -= 1
            dictionary[best] = dictionary[order]
            weights[best] = weights[order]
            inverse[best, :order] = inverse[order, :order]
            inverse[:order, best] = inverse[:order, order]
            inverse[best, best] = inverse[order, order]
    return order


@numba.njit(cache=True)
def least_steps(dictionary: Array, inverse: Array, points: Array, numbers: Array) -> float:
    """Compute only the kernel row of each sample and its product with an M x M matrix."""
    total = 0.0
    product = np.empty(len(dictionary))
    rows = np.empty((1, len(dictionary)))
    for n in range(len(points)):
        kernel_formulas.gaussian(numbers, points[n : n + 1], dictionary, rows)
        np.dot(inverse, rows[0], product)
        total += product[0]
    return total


def mixture(generator: np.random.Generator, size: int, outputs: int) -> tuple[Array, Array]:
    """Draw points of five classes around the unit circle; with one output, classes 0 and 1 against the rest."""
    labels = generator.integers(0, 5, size)
    angles = 2.0 * math.pi * labels / 5.0
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) + generator.normal(0.0, math.sqrt(0.2), (size, 2))
    return points, (labels if outputs > 1 else labels < 2).astype(np.float64)[:, None]


def seconds(make: Callable[[], Callable[[], object]]) -> float:
    """Time a call several times, each on its own copy of the state; the shortest is the least disturbed."""
    found = []
    for _ in range(REPEATS):
        call = make()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def measure(outputs: int, bandwidth: float, epsilon: float, before: int) -> str:
    """Time one setting; returns its line of the table."""
    generator = np.random.default_rng(0)
    loss: MulticlassLogistic | Logistic = MulticlassLogistic() if outputs > 1 else Logistic()
    kernel = Gaussian(bandwidth)
    learner = Polk(loss=loss, kernel=kernel, step_size=Constant(STEP_SIZE), budget=Epsilon(epsilon))
    state: PolkState = learner.init(2, outputs)
    passes.learn(learner, state, *mixture(generator, before, outputs))
    order = state.function.order
    fresh = mixture(generator, max(100, min(4000, 4_000_000 // order**2)), outputs)
    gram = kernel.cross(state.function.points, state.function.points)
    inverse = np.linalg.inv(gram)
    lost = 0.0

    def polk() -> Callable[[], object]:
        copied = copy.deepcopy(state)
        return lambda: passes.learn(learner, copied, *fresh)

    def closed_form(lazy: bool) -> Callable[[], object]:
        capacity = order + 60
        dictionary, weights, matrix = (np.zeros((capacity, width)) for width in (2, outputs, capacity))
        dictionary[:order], weights[:order] = state.function.points, state.function.weights
        matrix[:order, :order] = inverse
        shrink = 1.0 - STEP_SIZE * learner.regularization

        def call() -> None:
            nonlocal lost
            slopes = address(loss.compiled.derivatives, LOSS_DERIVATIVES)
            settings = (kernel.compiled.numbers, slopes, shrink, STEP_SIZE, epsilon, lazy)
            found = inverse_steps(dictionary, weights, matrix, order, *fresh, *settings)
            kept = dictionary[:found]
            lost = float(np.abs(matrix[:found, :found] @ kernel.cross(kept, kept) - np.eye(found)).max())

        return call

    times = {
        "polk": seconds(polk),
        "inverse": seconds(lambda: closed_form(False)),
        "lazy": seconds(lambda: closed_form(True)),
        "least": seconds(
            lambda: lambda: least_steps(state.function.points, inverse, fresh[0], kernel.compiled.numbers)
        ),
    }
    count = len(fresh[0])
    learned = copy.deepcopy(state)
    inserted = 0
    for n in range(min(count, 1000)):
        changes = learned.changes
        passes.learn(learner, learned, fresh[0][n : n + 1], fresh[1][n : n + 1])
        inserted += learned.changes != changes
    ours = times["polk"]
    return (
        f"{order:>5}{outputs:>4}{inserted / min(count, 1000):>10.1%}"
        + "".join(f"{1e6 * spent / count:>15.2f}" for spent in times.values())
        + f"{ours / times['inverse']:>15.2f}{ours / times['lazy']:>13.2f}{ours / times['least']:>13.2f}{lost:>10.0e}"
    )


def main() -> None:
    """Print the table."""
    print(f"{'':>19}{'microseconds a sample':^60}{'polk / ':^40}")
    print(
        f"{'M':>5}{'C':>4}{'inserted':>10}{'polk':>15}{'inverse':>15}{'inverse, lazy':>15}{'least':>15}"
        f"{'inverse':>15}{'inv., lazy':>13}{'least':>13}{'lost':>10}"
    )
    with threadpool_limits(1):
        for setting in SETTINGS:
            print(measure(*setting), flush=True)


if __name__ == "__main__":
    main()
