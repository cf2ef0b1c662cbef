"""Nodes with different numbers of rows: the processor time of a whole call, beside that of equal rows.

python benchmarks/data_that_end.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from kernelswarm import simulate

CASES = (
    (20, 1, 8_000, 8_000),
    (20, 1, 6_000, 10_000),
    (20, 10, 8_000, 8_000),
    (20, 10, 6_000, 10_000),
    (200, 1, 800, 800),
    (200, 1, 600, 1_000),
    (200, 1, 600, 1_600),
)
"""Nodes, the samples of a round, and the fewest and the most rows of a node."""


def measure(nodes: int, batch: int, fewest: int, most: int) -> tuple[float, Any]:
    """Return the seconds of processor time, and the result."""
    random = np.random.default_rng(0)
    node = np.repeat(np.arange(nodes), random.integers(fewest, most + 1, nodes))
    x = random.normal(size=(len(node), 2))
    y = np.sin(x[:, 0]) + 0.1 * random.normal(size=len(node))
    before = time.process_time()
    result = simulate(
        data=(x, y, node),
        topology={"name": "ring", "nodes": nodes},
        learner={"name": "polk", "batch_size": batch},
        protocol="consensus",
        rounds=most // batch,  # more than there are rows for
        evaluate_every=10**9,
    )
    return time.process_time() - before, result


if __name__ == "__main__":
    for batch in (1, 10):
        measure(20, batch, 400, 400)  # so that everything is compiled
    print("| nodes | samples a round | rows of a node | rounds | seconds | microseconds a node-round |")
    print("|---:|---:|---:|---:|---:|---:|")
    for nodes, batch, fewest, most in CASES:
        seconds, result = measure(nodes, batch, fewest, most)
        rounds = result.summary["rounds"]
        each = 1e6 * seconds / rounds / nodes
        print(f"| {nodes} | {batch} | {fewest:,} to {most:,} | {rounds:,} | {seconds:.2f} | {each:.1f} |", flush=True)
