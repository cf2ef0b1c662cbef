"""Time of a mini-batch: 32 samples of 784 numbers in 10 classes, on dictionaries of about 1,000 and 2,300 points.

All ways take the same 32 samples from the same function:

- blocked: `agents/arithmetic/blocked_komp.py`, one mini-batch with matrix-matrix products;
- one by one: `agents/arithmetic/komp.py`, the same mini-batch, one insertion and one removal after the other;
- reflected: the same, as published for square factors: one Householder reflection a removal;
- b = 1: a step for each sample, with its own kernel rows, and an error budget that adds up to the same.

The first three must, and do, keep the same dictionary. Times are processor time of the whole step: kernel rows and
values, the gradient, compression. Logistic losses insert every sample, hinge losses only those inside the margin. The
last columns are of the blocked step: the share of the kernel rows and values, and the rate at which it does the
arithmetic that no way can do without (2 b M p for the kernel rows, 2 M^2 for each inserted sample's two triangular
products) beside that of the library's own product of M x M with M x 32, timed in between.

    python benchmarks/minibatches.py [FOLDER]

FOLDER holds MNIST's train-images-idx3-ubyte and train-labels-idx1-ubyte, with or without .gz; without it, samples are
drawn near curved surfaces in 784 dimensions.
"""

import copy
import gzip
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm.agents.arithmetic import blocked_komp, komp
from kernelswarm.agents.arithmetic.inverse_factor import Added, Tables
from kernelswarm.agents.learners.polk import Polk, PolkState
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Loss, MulticlassHinge, MulticlassLogistic
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array

Project = Callable[..., tuple[int, float, int]]

BATCH, INPUTS, CLASSES = 32, 784, 10
ETA = 24.0
TIMED = 9
CASES: list[tuple[Loss, int, dict[str, float]]] = [  # the mini-batches before and during the timing; error budgets
    (MulticlassLogistic(), 150, {"drawn": 0.6, "mnist": 1.3}),
    (MulticlassHinge(), 390, {"drawn": 1.55, "mnist": 2.4}),
    (MulticlassLogistic(), 150, {"drawn": 0.21, "mnist": 0.5}),
    (MulticlassHinge(), 390, {"drawn": 0.8, "mnist": 1.4}),
]


def drawn(samples: int) -> tuple[Array, Array]:
    """Draw samples near one eight-dimensional surface a class; one label in eight is wrong."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, CLASSES, samples)
    centers = generator.normal(size=(CLASSES, INPUTS))
    directions = 0.5 * generator.normal(size=(CLASSES, 8, INPUTS))
    points = np.empty((samples, INPUTS))
    for c in range(CLASSES):
        mine = labels == c
        points[mine] = np.tanh(centers[c] + generator.normal(size=(np.count_nonzero(mine), 8)) @ directions[c])
    labels = np.where(generator.random(samples) < 0.125, generator.integers(0, CLASSES, samples), labels)
    return 0.3 * points, labels[:, None].astype(np.float64)


def mnist(folder: Path) -> tuple[Array, Array]:
    """Read MNIST's training set, in a random order."""
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    contents = [next(folder.glob(f"{name}*")).read_bytes() for name in names]
    images, labels = (gzip.decompress(found) if found[:2] == b"\x1f\x8b" else found for found in contents)
    points = np.frombuffer(images, np.uint8, offset=16).reshape(-1, INPUTS) / 255.0
    targets = np.frombuffer(labels, np.uint8, offset=8)[:, None].astype(np.float64)
    order = np.random.default_rng(0).permutation(len(points))
    return points[order], targets[order]


@numba.njit(cache=True)
def _reflect(weights: Array, factor: Array, precision: Array, order: int, j: int) -> None:
    """Drop element j from the weights (M, C) and a square factor (M, M), in two passes over it."""
    column = factor[:order, j].copy()
    inverse = np.zeros(order)
    for i in range(order):
        line = factor[i]
        for k in range(order):
            inverse[k] += column[i] * line[k]
    for k in range(order):
        if k != j:
            weights[k] -= inverse[k] / inverse[j] * weights[j]
    norm = math.sqrt(inverse[j])
    shift = math.copysign(norm, column[-1])
    scale = 1.0 / (norm * (norm + abs(column[-1])))
    for k in range(order):
        inverse[k] = scale * (inverse[k] + shift * factor[order - 1, k])
        precision[k] = 0.0
    for i in range(order - 1):
        line = factor[i]
        for k in range(j):
            line[k] -= column[i] * inverse[k]
            precision[k] += line[k] * line[k]
        for k in range(j, order - 1):
            line[k] = line[k + 1] - column[i] * inverse[k + 1]
            precision[k] += line[k] * line[k]


def reflected(
    tables: Tables, order: int, added: Added, shrink: float, epsilon: float, limit: float
) -> tuple[int, float, int]:
    """Take a step with a square factor: two matrix-vector products an insertion, one reflection a removal."""
    points, weights, factor, precision = tables
    new_points, new_weights, cross, gram = added
    before = order
    weights[:before] *= shrink
    entering = np.flatnonzero((new_weights != 0.0).any(axis=1))
    for count, n in enumerate(entering):
        row = np.concatenate([cross[n], gram[n, entering[:count]]])
        image = factor[:order, :order] @ row
        line = np.append(-(image @ factor[:order, :order]), 1.0) / math.sqrt(gram[n, n] - image @ image)
        factor[order, : order + 1], factor[:order, order] = line, 0.0
        points[order], weights[order], precision[order] = new_points[n], new_weights[n], 0.0
        order += 1
        precision[:order] += line**2
    spent = 0.0
    while order:
        scores = np.einsum("ij,ij->i", weights[:order], weights[:order]) / precision[:order]
        j = int(np.argmin(scores))
        if not spent + scores[j] <= epsilon**2:
            break
        spent += scores[j]
        _reflect(weights, factor, precision, order, j)
        order -= 1
        for values in (points, weights):
            values[j:order] = values[j + 1 : order + 1]
    return order, math.sqrt(spent), 0


def step(learner: Polk, state: PolkState, project: Project, points: Array, targets: Array) -> tuple[float, float, int]:
    """Take a step, return the seconds it took, those for the kernel rows and values, and the samples inserted."""
    function = state.function
    eta, epsilon = learner.step_size.at(0), learner.budget.bound(0.0, state.budget)
    function.reserve(len(points))  # so that no timed step has to
    start = time.process_time()
    own = learner.evaluate(state, points)
    evaluated = time.process_time()
    weights = learner.gradient(state, own, targets) * (-eta / len(points))
    added = Added(points, weights, np.ascontiguousarray(own.rows), learner.kernel.cross(points, points))
    shrink = 1.0 - eta * learner.regularization
    function.order, _, _ = project(function.tables, function.order, added, shrink, epsilon, komp.DEPENDENT)
    end = time.process_time()
    return end - start, evaluated - start, int(np.count_nonzero(weights.any(axis=1)))


def product_rate(order: int) -> float:
    """Measure the library's product of (M, M) with (M, 32), in floating-point operations a second."""
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(order, order)), generator.normal(size=(order, BATCH))
    start = time.process_time()
    left @ right
    return 2.0 * order * order * BATCH / (time.process_time() - start)


def measure(learner: Polk, points: Array, targets: Array) -> dict[str, Any]:
    """Bring a learner near its steady state, then time all ways on the same mini-batches."""
    state = learner.init(INPUTS, CLASSES)
    batches = [slice(start, start + BATCH) for start in range(0, len(points) - BATCH + 1, BATCH)]
    for batch in batches[:-TIMED]:
        step(learner, state, blocked_komp.project, points[batch], targets[batch])
    single = Polk(
        learner.loss,
        learner.kernel,
        Constant(ETA / BATCH),
        learner.regularization,
        budget=Epsilon(learner.budget.bound(0.0, 0.0) / math.sqrt(BATCH)),
    )
    ways: dict[str, Project] = {"blocked": blocked_komp.project, "one by one": komp.project, "reflected": reflected}
    states = {name: copy.deepcopy(state) for name in [*ways, "b = 1"]}
    seconds: dict[str, list[float]] = {name: [] for name in states}
    evaluating, operations, entered, products = [], [], [], []
    for batch in batches[-TIMED:]:
        order = states["blocked"].function.order
        for name, project in ways.items():
            taken, rows, inserted = step(learner, states[name], project, points[batch], targets[batch])
            seconds[name].append(taken)
            if name == "blocked":
                evaluating.append(rows)
                entered.append(inserted)
                operations.append(2.0 * BATCH * order * INPUTS + 2.0 * order * order * inserted)
        taken = 0.0
        for n in range(batch.start, batch.stop):
            taken += step(single, states["b = 1"], komp.project, points[n : n + 1], targets[n : n + 1])[0]
        seconds["b = 1"].append(taken)
        products.append(product_rate(order))
    kept = [states[name].function.points for name in ways]
    order = len(kept[0])
    return {
        "order": order,
        "inserted": statistics.mean(entered),
        "agree": all(np.array_equal(kept[0], other) for other in kept[1:]),
        "rate": statistics.median(o / s for o, s in zip(operations, seconds["blocked"], strict=True)),
        "product": statistics.median(products),
        "rows": statistics.median(evaluating) / statistics.median(seconds["blocked"]),
        **{name: statistics.median(found) for name, found in seconds.items()},
    }


def main() -> None:
    """Print the table."""
    source = "mnist" if len(sys.argv) > 1 else "drawn"
    points, targets = mnist(Path(sys.argv[1])) if len(sys.argv) > 1 else drawn(BATCH * 400)
    ways = ("blocked", "one by one", "reflected", "b = 1")
    print(f"{'':>6}{'':>10}{'':>10}{'ms for 32 samples':^44}{'times as long as blocked':^34}{'of blocked':>16}")
    header = f"{'M':>6}{'loss':>10}{'inserted':>10}" + "".join(f"{way:>11}" for way in ways)
    header += "".join(f"{way:>11}" for way in ways[1:])
    print(header + f"{'kernel':>9}{'GFLOP/s':>9}{'product':>9}{'share':>7}")
    with threadpool_limits(1):
        for loss, steps, epsilon in CASES:
            learner = Polk(loss, Gaussian(4.0), Constant(ETA), batch_size=BATCH, budget=Epsilon(epsilon[source]))
            found = measure(learner, points[: BATCH * steps], targets[: BATCH * steps])
            line = f"{found['order']:>6}{type(loss).__name__[10:].lower():>10}{found['inserted']:>10.0f}"
            line += "".join(f"{1e3 * found[way]:>11.1f}" for way in ways)
            line += "".join(f"{found[way] / found['blocked']:>11.1f}" for way in ways[1:])
            line += f"{found['rows']:>9.0%}{found['rate'] / 1e9:>9.1f}{found['product'] / 1e9:>9.1f}"
            print(
                line + f"{found['rate'] / found['product']:>7.0%}" + ("" if found["agree"] else "  dictionaries differ")
            )


if __name__ == "__main__":
    main()
