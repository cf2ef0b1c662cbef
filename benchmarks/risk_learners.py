"""Time of a step of the risk-aware learners, against polk's at the same model order.

All learn 2 x + 3 sin 6 x on [0, 1] from samples with noise, b a step, in one thread, called step by step as an agent
does. The budget of each is steered to the same model order before the clock starts. policy_evaluation has two functions
of that order.

    python benchmarks/risk_learners.py
"""

import copy
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm.arrays import Array
from kernelswarm.simulations.experiment.parts import build

BEFORE, STEPS, REPEATS = 4000, 300, 12
KERNELS = {20: 0.1, 50: 0.03, 200: 0.006}  # model order: bandwidth
RISK: dict[str, dict[str, Any]] = {
    "colk, weight 0": {"name": "colk", "dispersion_weight": 0.0},
    "colk, variance, average": {"name": "colk", "dispersion": "variance", "tracking": "average"},
    "colk, variance": {"name": "colk", "dispersion": "variance"},
    "colk, variance, sliding": {"name": "colk", "dispersion": "variance", "pairs": "sliding"},
    "colk, central_moments": {"name": "colk", "dispersion": "central_moments", "dispersion_weight": 1e-3},
    "colk, semivariance": {"name": "colk", "dispersion": "semivariance"},
    "colk, cvar": {"name": "colk", "dispersion": "cvar"},
    "policy_evaluation": {"name": "policy_evaluation", "discount": 0.8},
}


def samples(generator: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Draw points (n, 1) and targets (n, 1)."""
    points = generator.random((count, 1))
    return points, 2.0 * points + 3.0 * np.sin(6.0 * points) + 0.1 * generator.standard_normal((count, 1))


def learn(learner: Any, state: Any, points: Array, targets: Array) -> None:
    """Take one step for each batch, as an agent does."""
    size = learner.batch_size
    for start in range(0, len(points), size):
        own = learner.evaluate(state, points[start : start + size])
        gradient = learner.gradient(state, own, targets[start : start + size])
        learner.step(state, [own], [gradient], None, targets[start : start + size])


def prepared(table: dict[str, Any], order: int, size: int) -> tuple[Any, Any]:
    """Build a learner and let it learn until its model order is steady; returns it with its state."""
    steered = {"target_order": order, "alpha": 1e-3, "gain": 0.3 / order}
    shared = {"kernel": {"name": "gaussian", "bandwidth": KERNELS[order]}, "step_size": 0.1, "budget": steered}
    own = {"tracking_budget": steered} if table["name"] == "policy_evaluation" else {}
    learner = build("learner", {**shared, **own, **table, "batch_size": size})
    state = learner.init(1, 1)
    learn(learner, state, *samples(np.random.default_rng(0), BEFORE * size))
    return learner, state


def microseconds(order: int, size: int) -> dict[str, tuple[float, int]]:
    """Time a step of all learners, in turns, so that what else the machine does falls on all; with the model orders."""
    learners = {title: prepared(table, order, size) for title, table in {"polk": {"name": "polk"}, **RISK}.items()}
    fresh = samples(np.random.default_rng(1), STEPS * size)
    found: dict[str, list[float]] = {title: [] for title in learners}
    for _ in range(REPEATS):
        for title, (learner, state) in learners.items():
            copied = copy.deepcopy(state)
            start = time.process_time()
            learn(learner, copied, *fresh)
            found[title].append(time.process_time() - start)
    return {title: (1e6 * min(spent) / STEPS, learners[title][1].function.order) for title, spent in found.items()}


def main() -> None:
    """Print the table."""
    print(f"{'':<26}{'b':>4}{'M':>6}{'microseconds a step':>21}{'/ polk':>8}")
    with threadpool_limits(1):
        for size in (2, 8):
            for order in KERNELS:
                times = microseconds(order, size)
                for title, (spent, found) in times.items():
                    print(f"{title:<26}{size:>4}{found:>6}{spent:>21.1f}{spent / times['polk'][0]:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
