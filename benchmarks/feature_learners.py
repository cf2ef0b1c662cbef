"""Time of a step of the learners on a subspace's features, beside `polk` of the same model order.

All learn y = sin 3x1 cos 2x2 on the square [-2, 2]^2 from single samples, bandwidth 0.4, first until the order is
steady; the timed samples are the same for all, and the learners take turns in blocks, of which the median counts.
`okfe` without censoring grows by a point a sample, so it is timed from half to one and a half times the order, and
then from half again.

    python benchmarks/feature_learners.py
"""

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.learners.okfe import Okfe, Okfeb
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.agents.parts.subspace_rules import Threshold
from kernelswarm.arrays import Array

ORDERS = (20, 50, 200)
WARM, BLOCK, BLOCKS = 3000, 20, 31


def draw(samples: int, seed: int) -> tuple[Array, Array]:
    """Draw points (n, 2) with noisy targets (n, 1)."""
    generator = np.random.default_rng(seed)
    points = generator.uniform(-2.0, 2.0, (samples, 2))
    truth = np.sin(3.0 * points[:, :1]) * np.cos(2.0 * points[:, 1:])
    return points, truth + 0.1 * generator.normal(size=(samples, 1))


def contestants(order: int) -> Iterator[tuple[str, Learner, int]]:
    """Name the learners of one model order, each with the samples it sees before."""
    common: dict[str, Any] = {"kernel": Gaussian(0.4), "step_size": Constant(0.2)}
    yield "polk", Polk(budget=TargetOrder(order, alpha=0.1), **common), WARM
    rank = min(10, order // 2)
    for update in ("nonparametric", "parametric"):
        keys = {**common, "rank": rank, "subspace_update": update}
        yield f"okfe, {update}", Okfe(**keys), max(order // 2, rank)
        yield f"okfeb, {update}, every sample", Okfeb(budget_size=order, censoring=Threshold(), **keys), WARM
        yield f"okfeb, {update}", Okfeb(budget_size=order, **keys), WARM


def feed(learner: Learner, state: Any, points: Array, targets: Array) -> None:
    """Take one step a sample, as a node alone does."""
    for n in range(len(points)):
        own = learner.evaluate(state, points[n : n + 1])
        learner.step(state, [own], [learner.gradient(state, own, targets[n : n + 1])], None, targets[n : n + 1])


def main() -> None:
    """Print microseconds a step and their ratio to polk's."""
    print(f"{'order':>6}  {'learner':<40}{'order found':>12}{'us a step':>11}{'ratio':>8}")
    with threadpool_limits(1):
        for order in ORDERS:
            entries: list[tuple[str, Learner, Any, list[float]]] = []
            for name, learner, warm in contestants(order):
                state = learner.init(2, 1)
                feed(learner, state, *draw(warm, 0))
                entries.append((name, learner, state, []))
            points, targets = draw(BLOCK * BLOCKS, 1)
            for block in range(BLOCKS):
                part = slice(block * BLOCK, (block + 1) * BLOCK)
                for place, (name, learner, state, times) in enumerate(entries):
                    if name.startswith("okfe,") and state.function.order + BLOCK > order + max(order // 2, BLOCK):
                        state = learner.init(2, 1)
                        feed(learner, state, *draw(order // 2, 0))
                        entries[place] = (name, learner, state, times)
                    start = time.process_time()
                    feed(learner, state, points[part], targets[part])
                    times.append((time.process_time() - start) / BLOCK * 1e6)
            reference = statistics.median(entries[0][3])
            for name, _, state, times in entries:
                middle = statistics.median(times)
                print(f"{order:>6}  {name:<40}{state.function.order:>12}{middle:>11.1f}{middle / reference:>8.2f}")


if __name__ == "__main__":
    main()
