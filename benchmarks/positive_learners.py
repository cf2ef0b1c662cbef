"""The step of `spppot` beside that of `polk` at the same model order, in one run.

Both learn the same samples until the model order is steady; then each step is evaluation, gradient and the step
itself, called one by one as a node calls them. Densities have no `polk` to compare with: beside them stands `polk` on
the same points with the squared loss and as large a dictionary.

    python benchmarks/positive_learners.py
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.spppot import Spppot
from kernelswarm.agents.parts.budgets import Epsilon, TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.mirror_maps import SquaredNorm
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array

Data = tuple[Array, Array]

STEPS, REPEATS = 400, 7


@dataclass(frozen=True)
class Row:
    """Two learners on data of their own, which are of the same size."""

    name: str
    polk: Polk
    spppot: Spppot
    data: Callable[[np.random.Generator, int], Data]


def plane(generator: np.random.Generator, size: int) -> Data:
    """Draw points of the unit square with positive noisy targets."""
    points = generator.uniform(0.0, 1.0, (size, 2))
    heights = 1.5 + np.sin(6.0 * points[:, :1]) * np.cos(5.0 * points[:, 1:])
    return points, np.maximum(heights + generator.normal(0.0, 0.2, (size, 1)), 0.0)


def bump(generator: np.random.Generator, size: int) -> Data:
    """Draw events near the middle of (0, 1)."""
    return np.clip(generator.normal(0.5, 0.1, (size, 1)), 0.0, 1.0), np.ones((size, 1))


def grown(learner: Any, row: Row, generator: np.random.Generator) -> Any:
    """Learn until the model order is steady."""
    state = learner.init(row.data(generator, 1)[0].shape[1], 1)
    for _ in range(4000 // learner.batch_size + 200):
        step(learner, state, *row.data(generator, learner.batch_size))
    return state


def step(learner: Any, state: Any, points: Array, targets: Array) -> None:
    """Take one step as a node does."""
    own = learner.evaluate(state, points)
    learner.step(state, [own], [learner.gradient(state, own, targets)], None, targets)


def timed(learner: Any, state: Any, batches: list[Data]) -> float:
    """Return the processor seconds of a step."""
    start = time.process_time()
    for points, targets in batches:
        step(learner, state, points, targets)
    return (time.process_time() - start) / len(batches)


def rows() -> list[Row]:
    """Return what is compared: regression at three orders and two batch sizes, and densities on two grids."""
    found = []
    for order, bandwidth in ((50, 0.15), (200, 0.07), (400, 0.045)):
        for size in (1, 8):
            polk = Polk(
                loss=Squared(),
                kernel=Gaussian(bandwidth),
                step_size=Constant(0.2),
                regularization=0.0,
                batch_size=size,
                budget=TargetOrder(order, alpha=0.01, gain=0.3 / order, smallest=1e-4),
            )
            keys = {"kernel": polk.kernel, "step_size": polk.step_size, "batch_size": size, "budget": polk.budget}
            found.append(Row(f"f = exp(z), b = {size}", polk, Spppot(**keys), plane))  # type: ignore[arg-type]
            if size == 1 and order == 200:
                same = replace(found[-1].spppot, mirror_map=SquaredNorm())
                found.append(Row("f = z, b = 1", polk, same, plane))
    for cells in (40, 100):
        spppot = Spppot(
            loss=PoissonProcess(cells=(cells,)),
            kernel=Gaussian(0.5 / cells),
            step_size=Constant(0.02),
            batch_size=30,
            budget=Epsilon(1e-3),
        )
        order = grown(spppot, Row("", Polk(), spppot, bump), np.random.default_rng(0)).function.order
        polk = Polk(
            kernel=spppot.kernel,
            step_size=Constant(0.1),
            batch_size=30,
            budget=TargetOrder(order, alpha=0.01, gain=0.3 / order),
        )
        found.append(Row(f"density, {cells} cells, b = 30", polk, spppot, bump))
    return found


def main() -> None:
    """Print the table."""
    print("| what | M polk | M spppot | polk, µs a step | spppot, µs a step | ratio |\n|---|---:|---:|---:|---:|---:|")
    with threadpool_limits(1):
        for row in rows():
            generator = np.random.default_rng(0)
            states = [grown(learner, row, generator) for learner in (row.polk, row.spppot)]
            best = [np.inf, np.inf]
            for _ in range(REPEATS):  # in turns: what disturbs one disturbs the other
                batches = [row.data(generator, row.polk.batch_size) for _ in range(STEPS)]
                for place, learner in enumerate((row.polk, row.spppot)):
                    best[place] = min(best[place], timed(learner, states[place], batches))
            orders = [state.function.order for state in states]
            numbers = f"{orders[0]} | {orders[1]} | {1e6 * best[0]:.1f} | {1e6 * best[1]:.1f} | {best[1] / best[0]:.2f}"
            print(f"| {row.name} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
