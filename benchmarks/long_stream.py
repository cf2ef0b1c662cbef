"""A million samples without drift: the factor's accuracy, the error and the memory along a stream that never settles.

x ~ N(0, I_2) and y = sin(x_1 + phase) + x_2^2 + noise, where the phase turns once round in 250,000 samples, so that
dictionary points keep coming and going; the kernel is wide and the budget small, so that the Gram matrix is nearly
singular. A line is a stretch of the stream:

- replaced: the share of the dictionary that came in this stretch;
- 1/cond: the smallest eigenvalue of the Gram matrix over the largest;
- defect: the largest |U K U' - I|, computed in full twenty times a stretch; estimate: the learner's own, at its end;
- rebuilds: how often the learner computed its factor afresh;
- error: the mean square distance to the target without its noise, on held-out points;
- peak MB: the most memory that the process has ever held.

    python benchmarks/long_stream.py [--samples 1000000]
"""

import argparse
import math
import resource
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array

SETTINGS = [  # bandwidth, budget, batch size
    (1.0, 1e-2, 1),
    (1.0, 1e-4, 1),
    (3.0, 1e-5, 1),
    (3.0, 1e-6, 32),
]
STRETCHES, LOOKS = 10, 20
NOISE = 0.5
PERIOD = 250_000


def targets(points: Array, phases: Array) -> Array:
    """Return the target without noise, (n, 1)."""
    return np.sin(points[:, :1] + phases) + points[:, 1:] ** 2


def accuracy(function: Expansion) -> tuple[float, float]:
    """Compute the largest ``|U K U' - I|`` and the inverse condition number of K."""
    gram = function.rows(function.points)
    spectrum = np.linalg.eigvalsh(gram)
    identity = function.factor @ gram @ function.factor.T
    return float(np.abs(identity - np.eye(function.order)).max()), float(spectrum[0] / spectrum[-1])


def peak() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / 2**20 if sys.platform == "darwin" else largest / 2**10


def run(bandwidth: float, epsilon: float, batch: int, total: int) -> None:
    """Learn one stream; prints its table."""
    learner = Polk(
        kernel=Gaussian(bandwidth),
        step_size=Constant(0.2),
        regularization=1e-6,
        batch_size=batch,
        budget=Epsilon(epsilon),
    )
    state = learner.init(2, 1)
    generator = np.random.default_rng(0)
    held_out = np.random.default_rng(1).normal(size=(2000, 2))
    piece = max(total // (STRETCHES * LOOKS) // batch, 1) * batch
    print(f"bandwidth {bandwidth:g}, eps {epsilon:g}, b = {batch}")
    print(
        f"{'samples':>10}{'M':>6}{'replaced':>10}{'1/cond':>10}{'defect':>10}{'estimate':>10}{'rebuilds':>10}"
        f"{'error':>10}{'us/sample':>11}{'peak MB':>9}"
    )
    done = 0
    for _ in range(STRETCHES):
        before = {point.tobytes() for point in state.function.points}
        rebuilds, worst, seconds = state.rebuilds, 0.0, 0.0
        for _ in range(LOOKS):
            points = generator.normal(size=(piece, 2))
            phases = 2.0 * math.pi / PERIOD * np.arange(done, done + piece)[:, None]
            noisy = targets(points, phases) + NOISE * generator.normal(size=(piece, 1))
            start = time.process_time()
            passes.learn(learner, state, points, noisy)
            seconds += time.process_time() - start
            done += piece
            defect, conditioning = accuracy(state.function)
            worst = max(worst, defect)
        function = state.function
        fresh = sum(point.tobytes() not in before for point in function.points) / max(function.order, 1)
        final = targets(held_out, np.full((1, 1), 2.0 * math.pi / PERIOD * done))
        error = float(np.mean((function.values(held_out) - final) ** 2))
        print(
            f"{done:>10,}{function.order:>6}{fresh:>10.0%}{conditioning:>10.0e}{worst:>10.0e}{function.defect():>10.0e}"
            f"{state.rebuilds - rebuilds:>10}{error:>10.4f}{1e6 * seconds / (LOOKS * piece):>11.2f}{peak():>9.0f}",
            flush=True,
        )
    print()


def main() -> None:
    """Print a table for each setting."""
    parser = argparse.ArgumentParser(description="Learn long streams and watch the factor, the error and the memory.")
    parser.add_argument("--samples", type=int, default=1_000_000, help="samples of each stream")
    total = parser.parse_args().samples
    with threadpool_limits(1):
        for setting in SETTINGS:
            run(*setting, total)


if __name__ == "__main__":
    main()
