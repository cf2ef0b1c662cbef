"""Time and memory of mobile networks in bad weather against their size: 1,000 to 10,000 nodes, serial backend.

Nodes walk about the unit square and talk within a radius that gives each some ten neighbours at a time; a fifth of the
messages is lost, the others are late by two rounds on average (geometric). The network is that of all pairs that meet
within the run, which is what memory goes into: nodes keep what they heard on each edge for ``max_age + 3`` rounds.
Each size runs in a process of its own. The columns:

- met: neighbours that a node meets in the run; at once: that it has in a round;
- start: seconds until the first round, and node-round: microseconds of processor time of a node in a round;
- kB: what the process takes at its peak more than before it began, a node, and an edge in one direction.

    python benchmarks/mobile.py [--most 10000] [--rounds 100] [--speed 0.001]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace

import networkx as nx
import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm.graphs.schedules.meetings import meetings
from kernelswarm.graphs.schedules.random_schedules import Mobile
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.ground.seeding import Role, generator
from kernelswarm.simulations.running.network import open_network

SIZES = (300, 1_000, 3_000, 10_000)
NEIGHBOURS = 10
WARM = 20  # rounds before those that are timed


def walk_of(seed: int) -> np.random.Generator:
    """Return the generator from which the schedule of an experiment with this seed begins."""
    return np.random.default_rng(tuple(generator(seed, Role.WEATHER).integers(2**32, size=2).tolist()))


def joined(graph: nx.Graph[int]) -> nx.Graph[int]:
    """Join those whom slow nodes never meet to the others, by edges that are never there: a network is connected."""
    parts = sorted(nx.connected_components(graph), key=len)
    graph.add_edges_from((min(part), min(parts[-1])) for part in parts[:-1])
    return graph


def described(nodes: int, rounds: int, speed: float) -> Experiment:
    """Describe a network of so many nodes."""
    schedule = Mobile(radius=float(np.sqrt(NEIGHBOURS / (np.pi * nodes))), speed=speed)
    found = Experiment.from_dict(
        {
            "rounds": rounds,
            "topology": joined(meetings(schedule, nodes, rounds, walk_of(0))),
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
            "protocol": {"name": "consensus"},
            "links": {"loss": 0.2, "delay": {"name": "geometric", "mean": 2.0}, "max_age": 10},
            "evaluation": {"local_samples": 20, "global_samples": 100},
        }
    )
    return replace(found, schedule=schedule)


def measure(nodes: int, rounds: int, speed: float) -> None:
    """Print one line."""
    empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clock = time.process_time()
    experiment = described(nodes, rounds, speed)
    network = open_network(experiment)
    engine = SerialEngine([network.plans])
    engine.run(1)  # which compiles, or loads what was compiled
    start = time.process_time() - clock
    engine.run(WARM - 1)
    clock = time.process_time()
    engine.run(rounds - WARM)
    spent = time.process_time() - clock
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - empty
    edges = 2 * network.graph.number_of_edges()
    radius = experiment.schedule.radius  # type: ignore[attr-defined]
    print(
        f"{nodes:>7,}{edges / nodes:>8.1f}{np.pi * radius**2 * nodes:>9.1f}{start:>9.1f}"
        f"{1e6 * spent / (nodes * (rounds - WARM)):>12.1f}{taken / nodes:>10.1f}{taken / edges:>9.2f}"
        f"{taken / 1e6:>9.2f}",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--speed", type=float, default=0.001)
    parser.add_argument("--one", type=int, help="one size, in this process")
    arguments = parser.parse_args()
    if arguments.one:
        with threadpool_limits(1):
            measure(arguments.one, arguments.rounds, arguments.speed)
        return
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(
        f"{'nodes':>7}{'met':>8}{'at once':>9}{'start, s':>9}{'node-round':>12}{'kB/node':>10}{'kB/edge':>9}{'GB':>9}"
    )
    for nodes in (size for size in SIZES if size <= arguments.most):
        own = ["--one", str(nodes), "--rounds", str(arguments.rounds), "--speed", str(arguments.speed)]
        subprocess.run([sys.executable, __file__, *own], check=True)
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
