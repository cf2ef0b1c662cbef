"""Time of a step of the learners on a budget, as a multiple of polk's at the same model order in the same run.

All learn the same samples of a smooth function on the square, b = 1, called from Python as the agents do, with `polk`
held at the size by `target_order`. Time is processor time of one thread, the least of `REPEATS` stretches of
`SAMPLES` samples after `WARM` that fill the dictionary.

    python benchmarks/baselines.py
"""

import math
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm.agents.learners.bogd import Bogd
from kernelswarm.agents.learners.bpa import Bpa
from kernelswarm.agents.learners.bsgd import Bsgd, Npbsgd
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.learners.dual_sgd import DualSgd
from kernelswarm.agents.learners.ogd import Norma
from kernelswarm.agents.learners.perceptron import Forgetron
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.projectron import Projectron
from kernelswarm.agents.parts.budgets import TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array

ORDERS = (50, 200)
WARM, SAMPLES, REPEATS = 3_000, 500, 7


def learners(order: int) -> dict[str, Learner]:
    """Return the learners of the table at one size, the one they are compared with first."""
    keys: dict[str, Any] = {"kernel": Gaussian(0.4), "step_size": Constant(0.2)}
    sized = {**keys, "budget_size": order}
    passive = {**sized, "insensitivity": 0.0, "aggressiveness": 1.0}
    return {
        "polk": Polk(budget=TargetOrder(order, alpha=1e-4), **keys),
        "norma": Norma(**sized),
        "bsgd, removal": Bsgd(**sized),
        "bsgd, projection": Bsgd(maintenance="projection", **sized),
        "bsgd, merging": Bsgd(maintenance="merging", **sized),
        "npbsgd": Npbsgd(growth=0.0, **sized),
        "dual_sgd": DualSgd(**sized),
        "bogd, uniform": Bogd(sampling="uniform", weight_bound=math.inf, **sized),
        "bogd, nonuniform": Bogd(weight_bound=math.inf, **sized),
        "forgetron": Forgetron(insensitivity=0.0, **sized),
        "projectron": Projectron(insensitivity=0.0, tolerance=1e-3, **sized),
        "bpa, simple": Bpa(**passive),
        "bpa, nearest": Bpa(maintenance="nearest", **passive),
        "bpa, projecting": Bpa(maintenance="projecting", **passive),
    }


def samples(count: int) -> tuple[Array, Array]:
    """Draw y = sin 3 x_1 cos 2 x_2 + noise on the square."""
    generator = np.random.default_rng(0)
    points = generator.uniform(-2.0, 2.0, (count, 2))
    targets = np.sin(3.0 * points[:, :1]) * np.cos(2.0 * points[:, 1:])
    return points, targets + 0.1 * generator.normal(size=(count, 1))


def measure(learner: Learner, points: Array, targets: Array) -> tuple[float, int]:
    """Return the seconds of a step, and the model order at the end."""
    state = learner.init(points.shape[1], 1)
    best = np.inf
    start = time.process_time()
    for k in range(len(points)):
        if k >= WARM and (k - WARM) % SAMPLES == 0:
            best = min(best, (time.process_time() - start) / SAMPLES) if k > WARM else best
            start = time.process_time()
        own = learner.evaluate(state, points[k : k + 1])
        learner.step(state, [own], [learner.gradient(state, own, targets[k : k + 1])], None, targets[k : k + 1])
    return best, learner.function(state).order


def main() -> None:
    """Print the table."""
    points, targets = samples(WARM + SAMPLES * REPEATS + 1)
    print(f"{'learner':20} {'order':>6} {'us/step':>8} {'of polk':>8}")
    with threadpool_limits(1):
        for order in ORDERS:
            reference = 0.0
            for name, learner in learners(order).items():
                seconds, found = measure(learner, points, targets)
                reference = reference or seconds
                print(f"{name:20} {found:6d} {1e6 * seconds:8.1f} {seconds / reference:8.2f}", flush=True)


if __name__ == "__main__":
    main()
