"""What a round of stacking takes, beside five runs of its members.

CPU seconds of a node-round on rings, one sample a round, p = 2, order about 20, least of several turns that alternate.

    python benchmarks/stacked_rounds.py
"""

import os
import time

import networkx as nx
from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.protocols.contract import Rule
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.running.network import open_network

STREAMS = {
    "C = 1": ({"name": "gaussian_mixture", "classes": 2}, "logistic", 0.1),
    "C = 5": ({"name": "gaussian_mixture", "classes": 5}, "multiclass_logistic", 0.25),
}
WARM_ROUNDS, TURNS = 400, 3


def engine(nodes: int, protocol: Rule | Stacking, stream: dict[str, object], loss: str, epsilon: float) -> SerialEngine:
    """Prepare a ring in its steady state."""
    kernel = {"name": "gaussian", "bandwidth": 0.7746}
    learner = {"name": "polk", "loss": loss, "step_size": 0.5, "kernel": kernel, "budget": {"epsilon": epsilon}}
    description = {"topology": nx.cycle_graph(nodes), "stream": stream, "learner": learner, "protocol": protocol}
    found = SerialEngine([open_network(Experiment.from_dict(description)).plans])
    found.run(WARM_ROUNDS)
    return found


def seconds(running: SerialEngine, rounds: int) -> float:
    """Measure the CPU seconds of some rounds."""
    start = time.process_time()
    running.run(rounds)
    return time.process_time() - start


def main() -> None:
    """Print the table."""
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; microseconds of CPU time for each node-round")
    print(f"{'ring':>5}  {'outputs':<8}{'stacking':>10}{'members':>10}{'ratio':>8}")
    stacking = Stacking(penalty=0.1, dual_step=1.0)
    with threadpool_limits(1):
        for nodes in (20, 200):
            for name, (stream, loss, epsilon) in STREAMS.items():
                stacked = engine(nodes, stacking, stream, loss, epsilon)
                members = [engine(nodes, member, stream, loss, epsilon) for member in stacking.members]
                rounds = 20_000 // nodes
                turns = [
                    (seconds(stacked, rounds), sum(seconds(member, rounds) for member in members)) for _ in range(TURNS)
                ]
                ours, theirs = (1e6 * min(column) / nodes / rounds for column in zip(*turns, strict=True))
                print(f"{nodes:>5}  {name:<8}{ours:>10.1f}{theirs:>10.1f}{ours / theirs:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
