"""Points chosen by the Hellinger distance of the posterior, by KOMP, and by `krls`: error and time at equal sizes.

    python benchmarks/hellinger.py --housing cal_housing.data.gz [--seeds 3]

Each rule's own number, eps or nu, is bisected until the dictionary ends with the size asked for, to 3%. One sample a
step, one kernel and ridge for all. Prints Markdown: the mean square error at test points over the targets' variance,
of the noise-free sine in one dimension and of a fifth of 5,000 rows of California housing; the negative logarithm of
the predictive density there, per sample; and microseconds a step, the least of three passes.
"""

import argparse
import gzip
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.agents.learners.krls import Krls
from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array

ROWS, TURNS, PART = 5000, 3, 100
RULES = {"KOMP": (1e-6, 1.0), "Hellinger": (1e-3, 0.999), "krls": (1e-8, 0.9)}


class Problem(NamedTuple):
    """A data set, split; noisy targets for densities, and those that errors are counted from."""

    name: str
    sizes: tuple[int, ...]
    bandwidth: float
    ridge: float
    x: Array
    y: Array
    x_test: Array
    y_test: Array
    aims: Array


def sine(seed: int) -> Problem:
    """Draw a sine whose length grows shorter, with noise of deviation 0.3."""
    random = np.random.default_rng(seed)
    x = random.uniform(size=(ROWS // 2, 1))
    truth = np.sin(12.0 * x**2)
    y, half = truth + 0.3 * random.normal(size=x.shape), len(x) * 4 // 5
    return Problem("sine", (6, 9, 12), 0.08, 0.2, x[:half], y[:half], x[half:], y[half:], truth[half:])


def housing(path: Path, seed: int) -> Problem:
    """Choose rows of California housing, standardised; the median value in units of its deviation."""
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    table = table[np.random.default_rng(seed).permutation(len(table))[:ROWS]]
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    x, y, held = table[:, :-1].copy(), table[:, -1:].copy(), ROWS * 4 // 5
    return Problem("housing", (25, 50, 100), 2.0, 0.3, x[:held], y[:held], x[held:], y[held:], y[held:])


def learner(rule: str, problem: Problem, number: float) -> Any:
    """Return the rule's learner with its number."""
    shared: dict[str, Any] = {
        "kernel": Gaussian(problem.bandwidth),
        "step_size": Constant(0.2),
        "ridge": problem.ridge,
    }
    if rule == "krls":
        return Krls(**shared, dependency=number)
    return Newton(**shared, compression=rule.lower(), budget=Epsilon(number))  # type: ignore[arg-type]


def learned(chosen: Any, problem: Problem, most: float = math.inf) -> Any:
    """Return the state after one pass, or on the way, with more than ``most`` points."""
    state = chosen.init(problem.x.shape[1], 1)
    for start in range(0, len(problem.x), PART):
        part = slice(start, start + PART)
        passes.learn(chosen, state, problem.x[part], problem.y[part])
        if chosen.function(state).order > most:
            break
    return state


def of_size(rule: str, problem: Problem, size: int) -> tuple[Any, Any]:
    """Return the learner with so many points at the end, or about, and its state."""
    low, high = (math.log(end) for end in RULES[rule])
    best: tuple[float, Any, Any] = (math.inf, None, None)
    for _ in range(16):
        middle = 0.5 * (low + high)
        chosen = learner(rule, problem, math.exp(middle))
        state = learned(chosen, problem, 2 * size)
        order = chosen.function(state).order
        best = min(best, (abs(order - size), chosen, state), key=lambda found: found[0])
        if best[0] <= 0.03 * size:
            break
        low, high = (middle, high) if order > size else (low, middle)
    return best[1], best[2]


def judged(chosen: Any, state: Any, problem: Problem) -> tuple[float, ...]:
    """Return points, error, the negative logarithm of the density, and microseconds a step."""
    function, posterior = chosen.function(state), chosen.posterior(state)
    values = function.values(problem.x_test)
    spread = (1.0 + posterior.variance(problem.x_test)) * posterior.noise[0]
    density = np.mean(0.5 * np.log(2.0 * np.pi * spread) + (problem.y_test - values)[:, 0] ** 2 / (2.0 * spread))
    error = np.mean((values - problem.aims) ** 2) / np.var(problem.aims)
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        learned(chosen, problem)
        times.append(time.perf_counter() - start)
    return function.order, float(error), float(density), 1e6 * min(times) / len(problem.x)


def problems(seed: int, path: Path | None) -> Iterator[Problem]:
    """Yield both problems, the second where its file is given."""
    yield sine(seed)
    if path:
        yield housing(path, seed)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--housing", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    found: dict[tuple[str, int, str], list[tuple[float, ...]]] = {}
    for seed in range(asked.seeds):
        for problem in problems(seed, asked.housing):
            for size in problem.sizes:
                for rule in RULES:
                    row = judged(*of_size(rule, problem, size), problem)
                    found.setdefault((problem.name, size, rule), []).append(row)
    print("| data | size | rule | points | error | least, largest | density | µs a step |")
    print("|---|---:|---|---:|---:|---|---:|---:|")
    for (name, size, rule), rows in found.items():
        points, error, density, microseconds = np.mean(rows, axis=0)
        ends = f"{min(row[1] for row in rows):.4f}, {max(row[1] for row in rows):.4f}"
        print(
            f"| {name} | {size} | {rule} | {points:.1f} | {error:.4f} | {ends} | {density:.3f} | {microseconds:.0f} |"
        )


if __name__ == "__main__":
    main()
