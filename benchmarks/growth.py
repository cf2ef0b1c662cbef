"""How the time of a sample grows with the model order M, the inputs p and the outputs C, and the memory with M.

One stream at batch size 1, learned with a Gaussian kernel until the model order is steady; one thread. Narrower kernels
give larger dictionaries. Along p the same points lie in a random plane of a p-dimensional space, and along C every
output learns the same function divided by sqrt(C): distances and norms stay, so does M, and only p or C changes.

    python benchmarks/growth.py [--figure growth.png]
"""

import argparse
import copy
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from threadpoolctl import threadpool_limits

from kernelswarm.agents.learners.polk import Polk, PolkState
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.simulations.figures.style import BLUE, GREY, RC

BANDWIDTHS = (0.7, 0.3, 0.2, 0.13, 0.09, 0.065, 0.047, 0.034, 0.0225)
INPUTS = (2, 4, 8, 16, 32, 33, 64, 128, 256, 512, 1000)
OUTPUTS = (1, 2, 3, 5, 10, 20, 35, 50)
MIDDLE = 0.13
"""The bandwidth at which p and C are varied."""

REPEATS, SECONDS = 5, 0.5
"""A setting is timed at least so often and so long in all."""


@dataclass(frozen=True)
class Measured:
    """A learner in its steady state."""

    varied: float  # what the table's first column shows
    order: int
    seconds: float  # of a sample
    changed: float  # insertions and removals a sample
    memory: int  # bytes


def samples(generator: np.random.Generator, size: int, inputs: int, outputs: int) -> tuple[Array, Array]:
    """Draw points of the unit square, turned into ``inputs`` dimensions, with noisy targets (n, C) of equal columns."""
    plane = generator.uniform(0.0, 1.0, (size, 2))
    heights = np.sin(6.0 * plane[:, :1]) * np.cos(5.0 * plane[:, 1:]) + generator.normal(0.0, 0.3, (size, 1))
    axes = np.eye(2) if inputs == 2 else np.linalg.qr(np.random.default_rng(1).normal(size=(inputs, 2)))[0]
    return np.ascontiguousarray(plane @ axes.T), np.repeat(heights, outputs, axis=1) / np.sqrt(outputs)


def footprint(state: PolkState) -> int:
    """Count the bytes of everything that grows with the dictionary, room for more points included."""
    f = state.function
    return sum(b.nbytes for b in (f.points_buffer, f.weights_buffer, f.factor_buffer, f.precision_buffer))


def measure(varied: float, bandwidth: float, inputs: int = 2, outputs: int = 1) -> Measured:
    """Learn until the model order is steady, then time samples; of several turns the shortest is least disturbed."""
    generator = np.random.default_rng(0)
    learner = Polk(kernel=Gaussian(bandwidth), step_size=Constant(0.2), budget=Epsilon(0.02))
    state = learner.init(inputs, outputs)
    passes.learn(learner, state, *samples(generator, 2000, inputs, outputs))
    passes.learn(learner, state, *samples(generator, 3 * state.function.order, inputs, outputs))
    order = state.function.order
    fresh = samples(generator, max(200, min(3000, 30_000_000 // (order * (order + 10 * inputs)))), inputs, outputs)
    found = []
    while len(found) < REPEATS or sum(found) * len(fresh[0]) < SECONDS:
        running = copy.deepcopy(state)
        start = time.process_time()  # the other processes' share of the core is not ours
        passes.learn(learner, running, *fresh)
        found.append((time.process_time() - start) / len(fresh[0]))
    watched = copy.deepcopy(state)
    changes = 0
    for k in range(200):
        before = watched.changes
        passes.learn(learner, watched, fresh[0][k : k + 1], fresh[1][k : k + 1])
        changes += max(watched.changes - before, 0)  # an inspection starts the count afresh
    return Measured(varied, order, min(found), changes / 200, footprint(state))


def slope(across: list[float], along: list[float]) -> float:
    """Fit ``log(along) = slope log(across) + const``."""
    return float(np.polyfit(np.log(across), np.log(along), 1)[0])


def table_of_orders(found: list[Measured]) -> None:
    """Print how time and memory grow with M."""
    print(f"{'M':>6}{'us/sample':>12}{'changes/sample':>17}{'MB':>9}{'bytes / 8 M^2':>16}")
    for one in found:
        square = one.memory / (8 * one.order**2)
        print(f"{one.order:>6}{1e6 * one.seconds:>12.2f}{one.changed:>17.2f}{one.memory / 1e6:>9.2f}{square:>16.2f}")
    orders = [one.varied for one in found]
    print(
        f"time ~ M^{slope(orders, [one.seconds for one in found]):.2f}, between the two largest "
        f"M^{slope(orders[-2:], [one.seconds for one in found[-2:]]):.2f}; "
        f"memory ~ M^{slope(orders[2:], [float(one.memory) for one in found[2:]]):.2f} from M = {found[2].order}\n"
    )


def table_of(letter: str, found: list[Measured]) -> None:
    """Print how time grows along p or C, beside a straight line through the first and the last."""
    first, last = found[0], found[-1]
    rate = (last.seconds - first.seconds) / (last.varied - first.varied)
    print(f"{letter:>6}{'M':>6}{'us/sample':>12}{'/ straight line':>18}")
    for one in found:
        line = first.seconds + rate * (one.varied - first.varied)
        print(f"{one.varied:>6.0f}{one.order:>6}{1e6 * one.seconds:>12.2f}{one.seconds / line:>18.2f}")
    half = found[len(found) // 2 :]
    steepness = slope([one.varied for one in half], [one.seconds for one in half])
    print(
        f"{1e9 * rate:.0f} ns for each more; time ~ {letter}^{steepness:.2f} from {letter} = {half[0].varied:.0f} on\n"
    )


def draw(axes: Axes, label: str, found: list[Measured]) -> None:
    """Draw time over M, both axes logarithmic, beside slope 2; or over p or C, beside a straight line."""
    across = np.array([one.varied for one in found])
    micros = np.array([1e6 * one.seconds for one in found])
    if label.startswith("model order"):
        axes.loglog(across, micros[-1] * (across / across[-1]) ** 2, "--", color=GREY, label="slope 2")
        axes.loglog(across, micros, "o-", color=BLUE, markersize=4, label="measured")
        axes.set_ylim(0.7 * micros.min(), 1.5 * micros.max())
    else:
        axes.plot(across[[0, -1]], micros[[0, -1]], "--", color=GREY, label="straight line")
        axes.plot(across, micros, "o-", color=BLUE, markersize=4, label="measured")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
    axes.legend(loc="upper left")


def main() -> None:
    """Print the tables; draw the figure where a path is given."""
    parser = argparse.ArgumentParser(description="Measure how the time of a sample grows with M, p and C.")
    parser.add_argument("--figure", type=Path, help="where to write the curves, as PNG")
    figure_path = parser.parse_args().figure
    with threadpool_limits(1):
        by_order = [measure(0.0, bandwidth) for bandwidth in BANDWIDTHS]
        by_order = [Measured(one.order, one.order, one.seconds, one.changed, one.memory) for one in by_order]
        table_of_orders(by_order)
        by_inputs = [measure(inputs, MIDDLE, inputs=inputs) for inputs in INPUTS]
        table_of("p", by_inputs)
        by_outputs = [measure(outputs, MIDDLE, outputs=outputs) for outputs in OUTPUTS]
        table_of("C", by_outputs)
    if figure_path is not None:
        order = by_inputs[0].order
        with plt.rc_context(RC):
            figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.3), layout="constrained")
            draw(left, "model order M   (p = 2, C = 1)", by_order)
            draw(middle, f"inputs p   (M = {order}, C = 1)", by_inputs)
            draw(right, f"outputs C   (M = {order}, p = 2)", by_outputs)
            left.set_ylabel("time of a sample (microseconds)")
            figure.savefig(figure_path)
        print(f"wrote {figure_path}")


if __name__ == "__main__":
    main()
