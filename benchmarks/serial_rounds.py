"""Node-rounds a second of the serial backend: rings of 20 and 200 nodes, one sample a round, p = 2, order about 20.

A node-round is all that a node does in a round: draw a sample, answer its two neighbours, take the step, compress.
Beside the rates stands the share of what they would be if a round were only its kernel rows and one matrix-vector
product, timed in the same run, so that the ratio does not depend on how busy the machine is.

    python benchmarks/serial_rounds.py
"""

import statistics
import time

import networkx as nx
import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.simulations.network import open_network
from kernelswarm.simulations.serial import SerialEngine

PROTOCOLS = {
    "isolated": {"name": "isolated"},
    "consensus": {"name": "consensus", "penalty": 0.1},
    "consensus, symmetric": {"name": "consensus", "penalty": 0.1, "form": "symmetric"},
    "proximity, adaptive, implicit": {"name": "proximity", "gamma": {"name": "adaptive"}, "step": "implicit"},
}
STREAMS = {
    "C = 1": ({"name": "gaussian_mixture", "classes": 2}, "logistic", 0.1),
    "C = 5": ({"name": "gaussian_mixture", "classes": 5}, "multiclass_logistic", 0.25),
}
WARM_ROUNDS, REPEATS = 400, 7


def engine(
    nodes: int, protocol: dict[str, object], stream: dict[str, object], loss: str, epsilon: float
) -> SerialEngine:
    """Prepare a ring in its steady state."""
    experiment = Experiment.from_dict(
        {
            "topology": nx.cycle_graph(nodes),
            "stream": stream,
            "learner": {
                "name": "polk",
                "loss": loss,
                "step_size": 0.5,
                "kernel": {"name": "gaussian", "bandwidth": 0.7746},
                "budget": {"epsilon": epsilon},
            },
            "protocol": protocol,
        }
    )
    running = SerialEngine([open_network(experiment).plans])
    running.run(WARM_ROUNDS)
    return running


def rate(running: SerialEngine, nodes: int) -> float:
    """Measure node-rounds a second: the median of several stretches of about 4,000."""
    rounds = max(4000 // nodes, 20)
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        running.run(rounds)
        found.append(rounds * nodes / (time.perf_counter() - start))
    return statistics.median(found)


def least_work(running: SerialEngine) -> float:
    """Measure the same for a round's kernel rows and product alone: three rows, one M x M product with U."""
    function = running.blocks[0].agents[0].function
    point = np.zeros((1, function.inputs))
    rows = [function.rows(point) for _ in range(3)]
    factor = np.ascontiguousarray(function.factor)
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(2000):
            for _ in range(3):
                rows[0] = function.rows(point)
            factor @ rows[0][0]
        found.append(2000 / (time.perf_counter() - start))
    return statistics.median(found)


def main() -> None:
    """Print the table."""
    print(f"{'ring':>5}  {'outputs':<8}{'protocol':<31}{'M':>5}  {'node-rounds/s':>14}  {'share of least work':>20}")
    with threadpool_limits(1):
        for nodes in (20, 200):
            for name, (stream, loss, epsilon) in STREAMS.items():
                for label, protocol in PROTOCOLS.items():
                    running = engine(nodes, protocol, stream, loss, epsilon)
                    order = statistics.mean(agent.function.order for agent in running.blocks[0].agents)
                    found = rate(running, nodes)
                    share = found / least_work(running)
                    print(f"{nodes:>5}  {name:<8}{label:<31}{order:>5.1f}  {found:>14,.0f}  {share:>20.0%}")


if __name__ == "__main__":
    main()
