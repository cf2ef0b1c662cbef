"""Node-rounds a second of the Ray backend with one block of nodes per core, beside the serial backend in the same run.

    python benchmarks/ray_blocks.py [nodes ...]

Consensus on a ring and on a random geometric graph of mean degree 1.5 log(nodes): two inputs, one output, about 15
kernel functions a node, one sample a round. The backends take turns, in alternating order; the median ratio counts.

The last columns say what the ratio is made of, per round: the processor time of the serial backend, that of the busiest
of the blocks living alone in this process, with its messages packed and unpacked, and what is left of the time on Ray:
channels, waiting, and whatever else the machine does.
"""

import math
import statistics
import sys
import time
from collections.abc import Sequence

from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.simulations.core.parallel import cores
from kernelswarm.simulations.engine.engine import Engine, block_neighbors
from kernelswarm.simulations.engine.partition import partition
from kernelswarm.simulations.engine.ray_backend import Ray, keep_ray
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.running.network import open_network

TURNS = 5
NODE_ROUNDS = 400_000
GROWING = 300
"""Rounds in which the dictionaries grow before anything is measured."""


def experiment(network: str, nodes: int) -> Experiment:
    """Describe the run."""
    topologies = {
        "ring": {"name": "ring", "nodes": nodes},
        # The mean degree is 1.5 log(nodes): with much less some nodes would be cut off.
        "random geometric": {
            "name": "random_geometric",
            "nodes": nodes,
            "radius": math.sqrt(1.5 * math.log(nodes) / (math.pi * nodes)),
        },
    }
    return Experiment.from_dict(
        {
            "topology": topologies[network],
            "stream": {"name": "gaussian_mixture", "classes": 2},  # a sensor field takes O(nodes^3) to draw
            "learner": {
                "name": "polk",
                "loss": "logistic",
                "step_size": 0.5,
                "kernel": {"name": "gaussian", "bandwidth": 0.7746},
                "budget": {"epsilon": 0.1},
            },
            "protocol": {"name": "consensus", "penalty": 0.05, "as_published": True},
        }
    )


def rate(engine: Engine, nodes: int) -> float:
    """Measure node-rounds a second over one stretch."""
    rounds = NODE_ROUNDS // nodes
    start = time.perf_counter()
    engine.run(rounds)
    return rounds * nodes / (time.perf_counter() - start)


def busiest(engine: SerialEngine, neighbors: Sequence[Sequence[int]], rounds: int) -> float:
    """Measure the processor time a round of the slowest of the blocks, messages packed and unpacked."""
    spent = [0.0] * len(engine.blocks)
    outgoing = [block.send() for block in engine.blocks]
    for _ in range(rounds):
        sent = []
        for place, block in enumerate(engine.blocks):
            clock = time.process_time()
            sent.append(block.advance(*[outgoing[other] for other in neighbors[place]]))
            spent[place] += time.process_time() - clock
        outgoing = sent
    return max(spent) / rounds


def measure(network: str, nodes: int) -> None:
    """Take turns and print a line."""
    described = experiment(network, nodes)
    parts = partition(open_network(described).plans, -(-nodes // cores()))
    apart, neighbors = SerialEngine(parts), block_neighbors(parts)
    apart.run(GROWING)
    block = busiest(apart, neighbors, NODE_ROUNDS // nodes)
    order = statistics.fmean(agent.function.order for block in apart.blocks for agent in block.agents)
    del apart
    serial = SerialEngine([open_network(described).plans])
    serial.run(GROWING)
    clock = time.process_time()
    serial.run(NODE_ROUNDS // nodes)
    whole = (time.process_time() - clock) / (NODE_ROUNDS // nodes)
    backend = Ray(nodes_per_actor="auto")
    with backend.start(open_network(described).plans, lambda phase, done, total: None) as blocks:
        blocks.run(GROWING)
        pairs = []
        for turn in range(TURNS):
            engines = (serial, blocks) if turn % 2 else (blocks, serial)
            rates = {engine: rate(engine, nodes) for engine in engines}
            pairs.append((rates[serial], rates[blocks]))
    ratios = [many / one for one, many in pairs]
    one, many = (statistics.median(values) for values in zip(*pairs, strict=True))
    print(
        f"{network:17}{nodes:7,}{order:6.1f}{one:12,.0f}{many:12,.0f}{statistics.median(ratios):7.2f}"
        f"  {' '.join(f'{ratio:.2f}' for ratio in ratios)}"
        f"{1e3 * whole:10.2f}{1e3 * block:10.2f}{1e3 * (nodes / many - block):10.2f}",
        flush=True,
    )


def main(sizes: Sequence[int] = (1_000, 10_000)) -> None:
    """Print the table."""
    print(f"{'network':17}{'nodes':>7}{'M':>6}{'serial':>12}{'ray':>12}{'ratio':>7}  {'turns':{5 * TURNS - 1}}", end="")
    print(f"{'serial ms':>10}{'block ms':>10}{'rest ms':>10}")
    with threadpool_limits(1), keep_ray():
        for network in ("ring", "random geometric"):
            for nodes in sizes:
                measure(network, nodes)


if __name__ == "__main__":
    main(*[[int(size) for size in sys.argv[1:]]] if sys.argv[1:] else [])
