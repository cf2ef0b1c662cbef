"""Rounds of plain agents at 120 depths of Python's stack: how much longer the slowest takes than the median.

Without `unbroken` a call at the end of a piece of the stack fetches memory and gives it back, every time.

    python benchmarks/depths.py
"""

from __future__ import annotations

import os
import statistics
import time

import pytest

from kernelswarm import Experiment
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.backends.side_by_side import SideBySide
from kernelswarm.simulations.round.block import Block
from kernelswarm.simulations.running.network import open_network

NODES, ROUNDS, DEPTHS = 20, 10, 120
EXPERIMENT = {
    "topology": {"name": "ring", "nodes": NODES},
    "stream": {"name": "gaussian_mixture", "classes": 2},
    "learner": {"name": "polk", "loss": "logistic", "step_size": 0.1, "kernel": {"bandwidth": 0.6}},
    "protocol": "consensus",
}


def seconds(engine: SerialEngine, depth: int) -> float:
    """Run some rounds at a depth."""
    if depth:
        return seconds(engine, depth - 1)
    began = time.perf_counter()
    engine.run(ROUNDS)
    return time.perf_counter() - began


def show(engine: SerialEngine, title: str) -> None:
    """Print the median over depths, and how many times as long the worst takes, each the best of three."""
    found = [1e6 * min(seconds(engine, depth) for _ in range(3)) / NODES / ROUNDS for depth in range(DEPTHS)]
    usual = statistics.median(found)
    slow = sum(entry > 1.1 * usual for entry in found)
    print(f"{title:18} median {usual:6.1f} us, worst {max(found) / usual:5.2f} times, {slow} of {DEPTHS} depths slow")


def main() -> None:
    """Measure with and without."""
    print(f"load {os.getloadavg()[0]:.1f}; microseconds a node-round, ring of {NODES}, agent by agent")
    engine = SerialEngine([open_network(Experiment.from_dict(EXPERIMENT)).plans], compiled=False)
    engine.run(100)
    show(engine, "in one piece")
    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((SideBySide, "run"), (Block, "_run_agents")):
            patch.setattr(place, name, vars(place)[name].__wrapped__)
        show(engine, "in pieces of 16 kB")


if __name__ == "__main__":
    main()
