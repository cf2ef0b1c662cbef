"""What COLK gains from sliding pairs: its error at the best step size, beside disjoint pairs and polk.

Sliding pairs are those of samples 0 and 1, 1 and 2, 2 and 3, ...: a step for every sample. All methods learn the same
samples; a last row has disjoint pairs of twice as many, which cost as many steps. Errors are mean squares against the
target without noise.

    python benchmarks/colk_pairs.py
"""

import time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm.arrays import Array
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.reproductions.colk_outliers import learn, mean_square

DRAWS, TESTED = 10, 1000
SHARES = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Of each problem's step size: what every method tries."""


class Problem(NamedTuple):
    """A target with noise, and a learner's keys for it."""

    words: str
    samples: int
    inputs: int
    step: float
    keys: dict[str, Any]
    risk: dict[str, Any]

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Array, Array, Array]:
        """Draw points (n, p), targets (n, 1) and what they are without noise."""
        points = generator.random((count, self.inputs))
        first = points[:, :1]
        if self.words == "outliers":  # in units of 8, as colk-outliers learns them
            clean = (2.0 * first + 3.0 * np.sin(6.0 * first)) / 8.0
            rare = generator.random((count, 1)) < 0.05
            noise = (0.1 * generator.standard_normal((count, 1)) + rare * generator.normal(0.0, 2.0, (count, 1))) / 8.0
        elif self.words == "uneven noise":
            clean = np.sin(6.0 * first)
            noise = (0.1 + 0.5 * first) * generator.standard_normal((count, 1))
        else:
            clean = np.sin(4.0 * first) * np.cos(3.0 * points[:, 1:])
            noise = 0.2 * generator.standard_t(4, (count, 1))
        return points, clean + noise, clean


def _keys(bandwidth: float, budget: dict[str, float]) -> dict[str, Any]:
    return {"kernel": {"name": "gaussian", "bandwidth": bandwidth}, "budget": budget}


def _risk(dispersion: str, weight: float) -> dict[str, Any]:
    return {"dispersion": dispersion, "dispersion_weight": weight, "tracking_rate": 0.01}


PROBLEMS = (
    Problem("outliers", 2400, 1, 0.02, _keys(0.06, {"quadratic": 5.0}), _risk("central_moments", 0.1)),
    Problem("uneven noise", 2000, 1, 0.05, _keys(0.1, {"epsilon": 1e-3}), _risk("variance", 0.2)),
    Problem("two inputs, heavy tails", 2000, 2, 0.1, _keys(0.2, {"epsilon": 2e-3}), _risk("variance", 0.05)),
)


def measured(problem: Problem, way: str, step: float) -> tuple[Array, float]:
    """Return the errors by draw and the mean processor time of a way to pair samples."""
    table = {"name": "colk", **problem.keys, **problem.risk} if way != "polk" else {"name": "polk", **problem.keys}
    if way == "sliding":
        table |= {"pairs": "sliding", "batch_size": 1}
    learner = build("learner", {**table, "step_size": step})
    errors, spent = [], 0.0
    for draw in range(DRAWS):
        points, targets, _ = problem.draw(np.random.default_rng([7, draw]), 2 * problem.samples)
        if way != "disjoint, twice the samples":
            points, targets = points[: problem.samples], targets[: problem.samples]
        begin = time.process_time()
        function = learn(learner, points, targets).function
        spent += (time.process_time() - begin) / DRAWS
        tested, _, clean = problem.draw(np.random.default_rng([8, draw]), TESTED)
        errors.append(np.inf if function is None else mean_square(function, tested, clean))
    return np.array(errors), spent


def main() -> None:
    """Print each way at its best step size, and in how many draws it errs less than disjoint pairs do."""
    for problem in PROBLEMS:
        base = np.ones(DRAWS)
        for way in ("disjoint", "sliding", "polk", "disjoint, twice the samples"):
            tried = {share: measured(problem, way, problem.step * share) for share in SHARES}
            best = min(tried, key=lambda share: float(tried[share][0].mean()))
            errors, spent = tried[best]
            base = errors if way == "disjoint" else base
            found = f"{errors.mean():.4g} +- {errors.std(ddof=1):.2g} at step {problem.step * best:g}"
            less = f"less than disjoint in {(errors < base).sum()} of {DRAWS} draws"
            print(f"{problem.words}; {way}: {found}, {less}, {spent:.3f} s", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
