"""A second-order step on a full dictionary that does not change, next to its least work.

The least work is three products of an M x M matrix with the step's b kernel rows, by BLAS on one thread: the
projection on the dictionary, its image, and the rotation of what is known. Steps and products take turns; the least of
all turns counts, in processor time. POLK's step on the same dictionary stands beside them.

    python benchmarks/second_order_steps.py [--turns 7]
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.schedules import Constant

INPUTS = 8
SIZES = 100, 300, 1000
BATCHES = 1, 32
STEPS = 60


def full(kind: Any, size: int, batch: int, generator: np.random.Generator) -> tuple[Any, Any]:
    """Return a learner that lets nothing in, and its state with a dictionary of so many points.

    Its first-order steps are so small that what they add costs less than eps, and no point of the dictionary does.
    """
    keys: dict[str, Any] = {"loss": Squared(), "kernel": Gaussian(1.0), **({"ridge": 0.1} if kind is Newton else {})}
    learner = kind(**keys, step_size=Constant(0.1), budget=Epsilon(1e-9))
    state = learner.init(INPUTS, 1)
    points = generator.normal(size=(size, INPUTS))
    passes.learn(learner, state, points, np.sin(points[:, :1]))
    return replace(learner, step_size=Constant(1e-9), budget=Epsilon(1e-7), batch_size=batch), state


def stepper(learner: Any, state: Any, samples: int, generator: np.random.Generator) -> Callable[[], None]:
    """Return what takes steps on new samples."""
    points = generator.normal(size=(samples, INPUTS))
    targets = np.sin(points[:, :1])
    return lambda: passes.learn(learner, state, points, targets)


def products(size: int, batch: int, steps: int, generator: np.random.Generator) -> Callable[[], None]:
    """Return what multiplies three matrices with a batch, so many times."""
    matrices, rows = [generator.normal(size=(size, size)) for _ in range(3)], generator.normal(size=(size, batch))

    def multiply() -> None:
        for _ in range(steps):
            for matrix in matrices:
                matrix @ rows

    return multiply


def microseconds(work: Callable[[], None], steps: int) -> float:
    """Return the processor time of a step."""
    start = time.process_time()
    work()
    return (time.process_time() - start) / steps * 1e6


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=7)
    turns = options.parse_args().turns
    print("| b | M | newton | three products | ratio | POLK |\n|---:|---:|---:|---:|---:|---:|")
    with threadpool_limits(1):
        for batch in BATCHES:
            for size in SIZES:
                generator, steps = np.random.default_rng(0), STEPS * (10 if batch == 1 and size < SIZES[-1] else 1)
                learners = [full(kind, size, batch, generator) for kind in (Newton, Polk)]
                work = [stepper(*each, steps * batch, generator) for each in learners]
                work.append(products(size, batch, steps, generator))
                for each in work:
                    each()  # what has to be compiled first
                newton, polk, least = np.min(
                    [[microseconds(each, steps) for each in work] for _ in range(turns)], axis=0
                )
                ratio = newton / least
                assert all(state.function.order == size for _, state in learners)
                print(f"| {batch} | {size:,} | {newton:.0f} | {least:.0f} | {ratio:.1f} | {polk:.0f} |", flush=True)


if __name__ == "__main__":
    main()
