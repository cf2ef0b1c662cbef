"""Node-rounds a second by the clock in one thread, and in one for each core, of the serial backend.

    python benchmarks/threads.py [nodes ...]

Networks of two inputs and one output, one sample a round, about 10 to 16 kernel functions a node where there is a
dictionary. Both take turns, each in turn first; the median ratio counts. On a machine that does other work little is
left of it, since each round ends with the thread that was kept waiting longest.
"""

import math
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.simulations.core.parallel import cores
from kernelswarm.simulations.engine.partition import partition
from kernelswarm.simulations.engine.serial import Serial, SerialEngine
from kernelswarm.simulations.running.network import open_network

TURNS = 7
NODE_ROUNDS = 300_000
GROWING = 200
"""Rounds in which the dictionaries grow before anything is measured."""

POLK = {
    "name": "polk",
    "loss": "logistic",
    "step_size": 0.5,
    "kernel": {"name": "gaussian", "bandwidth": 0.7746},
    "budget": {"epsilon": 0.165},
}
FEATURES = {key: value for key, value in POLK.items() if key != "budget"} | {"name": "random_features", "features": 100}

ONE_SIDED = {"name": "consensus", "penalty": 0.1, "as_published": True}
STORMY = {"links": {"loss": 0.2, "delay": {"name": "geometric", "mean": 1.0}}}

CASES: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    ("random geometric", "consensus", {"protocol": "consensus"}),
    ("random geometric", "consensus, one-sided", {"protocol": ONE_SIDED}),
    ("random geometric", "proximity", {"protocol": "proximity"}),
    ("random geometric", "consensus, lost and late", {"protocol": "consensus", **STORMY}),
    ("random geometric", "diffusion, 100 features", {"protocol": "diffusion", "learner": FEATURES}),
    ("random geometric", "isolated", {"protocol": {"name": "isolated", "as_published": True}}),
    ("erdos renyi", "consensus", {"protocol": "consensus"}),
    ("ring", "consensus", {"protocol": "consensus"}),
    ("ring", "consensus, one-sided", {"protocol": ONE_SIDED}),
)


def experiment(network: str, nodes: int, tables: Mapping[str, Any]) -> Experiment:
    """Describe a run."""
    topologies = {
        "ring": {"name": "ring", "nodes": nodes},
        "random geometric": {"name": "random_geometric", "nodes": nodes, "radius": math.sqrt(13.9 / math.pi / nodes)},
        "erdos renyi": {"name": "erdos_renyi", "nodes": nodes, "edge_probability": 13.9 / nodes},
    }
    stream = {"name": "gaussian_mixture", "classes": 2}
    return Experiment.from_dict({"topology": topologies[network], "stream": stream, "learner": POLK, **tables})


def engine(described: Experiment, backend: Serial) -> SerialEngine:
    """Return a network whose dictionaries have grown."""
    plans = open_network(described).plans
    found = SerialEngine(partition(plans, backend.size(len(plans))))
    found.run(GROWING)
    return found


def rate(engine: SerialEngine, nodes: int) -> float:
    """Measure node-rounds a second over one stretch."""
    rounds = max(4, NODE_ROUNDS // nodes)
    start = time.perf_counter()
    engine.run(rounds)
    return rounds * nodes / (time.perf_counter() - start)


def measure(network: str, what: str, nodes: int, tables: Mapping[str, Any]) -> None:
    """Take turns and print a line."""
    described = experiment(network, nodes, tables)
    alone, beside = engine(described, Serial(1)), engine(described, Serial(cores()))
    pairs = []
    for turn in range(TURNS):
        rates = {each: rate(each, nodes) for each in ((alone, beside) if turn % 2 else (beside, alone))}
        pairs.append((rates[alone], rates[beside]))
    beside.close()
    ratios = sorted(many / one for one, many in pairs)
    one, many = (statistics.median(values) for values in zip(*pairs, strict=True))
    print(
        f"{network:17}{what:25}{nodes:8,}{one:12,.0f}{many:12,.0f}{statistics.median(ratios):7.2f}"
        f"   {ratios[0]:.2f} to {ratios[-1]:.2f}   {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def main(sizes: Sequence[int] = (1_000, 10_000)) -> None:
    """Print the table."""
    print(f"{'network':17}{'protocol':25}{'nodes':>8}{'one':>12}{cores():>12}{'ratio':>7}   {'of pairs':14}load")
    with threadpool_limits(1):
        for nodes in sizes:
            for network, what, tables in CASES:
                measure(network, what, nodes, tables)


if __name__ == "__main__":
    main(*[[int(size) for size in sys.argv[1:]]] if sys.argv[1:] else [])
