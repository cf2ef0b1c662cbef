"""Time and memory of mobile networks on unreliable links against their size: 300 to 10,000 nodes, serial or on Ray.

Nodes walk about the unit square and talk within a radius that gives each some ten neighbours at a time; a fifth of the
messages is lost, the others are late by two rounds on average (geometric). The network is that of all pairs that meet
within the run, which is what memory goes into: nodes keep what they received on each edge for ``max_age + 3`` rounds.
Each size runs in a process of its own. The columns:

- met: neighbours that a node meets in the run; at once: that it has in a round;
- start: seconds until the first round, and node-round: microseconds of a node in a round, of processor time on the
  serial backend and by the clock on Ray;
- kB: what the process takes at its peak more than before it began, a node, and an edge in one direction; on Ray what
  all processes take at the end;
- models: the beginning of their digest, the same on both backends.

    python benchmarks/mobile.py [--most 10000] [--rounds 100] [--speed 0.001] [--actors 2]
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
import psutil
from threadpoolctl import threadpool_limits

from kernelswarm.graphs.schedules import Mobile, contact_graph
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.engine.model_arrays import digest, model_arrays
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network

SIZES = (300, 1_000, 3_000, 10_000)
NEIGHBOURS = 10
WARM = 20  # rounds before those that are timed


def walk_of(seed: int) -> np.random.Generator:
    """Return the generator from which the schedule of an experiment with this seed begins."""
    return np.random.default_rng(tuple(generator(seed, Role.LINKS_AND_CLOCK).integers(2**32, size=2).tolist()))


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
            "topology": joined(contact_graph(schedule, nodes, rounds, walk_of(0))),
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
            "protocol": {"name": "consensus"},
            "links": {"loss": 0.2, "delay": {"name": "geometric", "mean": 2.0}, "max_age": 10},
            "evaluation": {"local_samples": 20, "global_samples": 100},
        }
    )
    return replace(found, schedule=schedule)


def measure(nodes: int, rounds: int, speed: float, actors: int) -> None:
    """Print one line."""
    now = time.perf_counter if actors else time.process_time
    empty, clock = memory(), now()
    experiment = described(nodes, rounds, speed)
    network = open_network(experiment)
    backend = Ray(nodes_per_actor=-(-nodes // actors)) if actors else Serial()
    with backend.start(network.plans, lambda *_: None) as engine:
        engine.run(1)  # which compiles, or loads what was compiled
        start = now() - clock
        engine.run(WARM - 1)
        clock = now()
        engine.run(rounds - WARM)
        spent = now() - clock
        taken = memory() - empty
        neighbors = {plan.neighborhood.node: plan.neighborhood.neighbors for plan in network.plans}
        models = digest(model_arrays(engine.functions(), neighbors))
    edges = 2 * network.graph.number_of_edges()
    radius = experiment.schedule.radius  # type: ignore[attr-defined]
    print(
        f"{nodes:>7,}{edges / nodes:>8.1f}{np.pi * radius**2 * nodes:>9.1f}{start:>9.1f}"
        f"{1e6 * spent / (nodes * (rounds - WARM)):>12.1f}{taken / nodes:>10.1f}{taken / edges:>9.2f}"
        f"{taken / 1e6:>9.2f}{models[:8]:>10}",
        flush=True,
    )


def memory() -> float:
    """Return the kB that this process has taken at most, and its children, which share some of it, take now."""
    own: float = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return own + sum(child.memory_full_info().pss for child in psutil.Process().children(recursive=True)) / 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--speed", type=float, default=0.001)
    parser.add_argument("--actors", type=int, default=0, help="of Ray, in as many blocks; none: the serial backend")
    parser.add_argument("--one", type=int, help="one size, in this process")
    arguments = parser.parse_args()
    if arguments.one:
        with threadpool_limits(1):
            measure(arguments.one, arguments.rounds, arguments.speed, arguments.actors)
        return
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    columns = f"{'start, s':>9}{'node-round':>12}{'kB/node':>10}{'kB/edge':>9}{'GB':>9}{'models':>10}"
    print(f"{'nodes':>7}{'met':>8}{'at once':>9}{columns}")
    for nodes in (size for size in SIZES if size <= arguments.most):
        own = ["--one", str(nodes), "--rounds", str(arguments.rounds), "--speed", str(arguments.speed)]
        own += ["--actors", str(arguments.actors)]
        subprocess.run([sys.executable, __file__, *own], check=True)
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
