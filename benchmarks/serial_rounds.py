"""Node-rounds a second of the serial backend: rings of 20 to 10,000 nodes, one sample a round, p = 2, order about 20.

A node-round is all that a node does in a round: draw a sample, answer its two neighbours, take the step, compress.
Beside the rates of compiled rounds and of those that ask the same parts by their methods stands the share of what
compiled rounds would do if a round were only its kernel rows and one matrix-vector product, timed in the same run.

    python benchmarks/serial_rounds.py
"""

import statistics
import time

import networkx as nx
import numba
import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.agents.arithmetic import kernel_formulas
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.arrays import Array
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.testing.networks import plain_plans

PROTOCOLS = {
    "isolated": {"name": "isolated", "as_published": True},
    "consensus": {"name": "consensus", "penalty": 0.1, "as_published": True},
    "consensus, symmetric": {"name": "consensus", "penalty": 0.1, "step": "explicit"},
    "proximity, adaptive, implicit": {"name": "proximity", "form": "one_sided"},
}
STREAMS = {
    "C = 1": ({"name": "gaussian_mixture", "classes": 2}, "logistic", 0.1),
    "C = 5": ({"name": "gaussian_mixture", "classes": 5}, "multiclass_logistic", 0.25),
}
LARGE = {("C = 1", "consensus"), ("C = 1", "proximity, adaptive, implicit")}
WARM_ROUNDS, REPEATS = 400, 7


def engine(
    nodes: int, protocol: dict[str, object], stream: dict[str, object], loss: str, epsilon: float, plain: bool
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
    plans = open_network(experiment).plans
    running = SerialEngine([plain_plans(plans) if plain else plans])
    running.run(WARM_ROUNDS)
    return running


def rate(running: SerialEngine, nodes: int, node_rounds: int) -> float:
    """Measure node-rounds a second: the median of several stretches of about so many."""
    rounds = max(node_rounds // nodes, 20)
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        running.run(rounds)
        found.append(rounds * nodes / (time.perf_counter() - start))
    return statistics.median(found)


@numba.njit(cache=True)
def products(point: Array, points: Array, factor: Array, numbers: Array, repeats: int) -> float:
    """Compute three kernel rows and one matrix-vector product so many times."""
    row = np.empty((1, len(points)))
    image = np.empty(len(points))
    total = 0.0
    for _ in range(repeats):
        for _ in range(3):
            kernel_formulas.gaussian(numbers, point, points, row)
        np.dot(factor, row[0], image)
        total += image[0]
    return total


def least_work(running: SerialEngine) -> float:
    """Measure how many node-rounds a second that would be."""
    function = running.blocks[0].agents[0].function
    assert isinstance(function, Expansion)
    inputs = (
        np.zeros((1, function.inputs)),
        np.ascontiguousarray(function.points),
        np.ascontiguousarray(function.factor),
    )
    products(*inputs, np.array([0.7746]), 1)
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        products(*inputs, np.array([0.7746]), 20_000)
        found.append(20_000 / (time.perf_counter() - start))
    return statistics.median(found)


def main() -> None:
    """Print the table."""
    print(
        f"{'ring':>6}  {'outputs':<8}{'protocol':<31}{'M':>5}{'compiled':>12}"
        f"{'methods':>10}{'ratio':>7}{'of least':>15}"
    )
    with threadpool_limits(1):
        for nodes in (20, 200, 1_000, 10_000):
            for name, (stream, loss, epsilon) in STREAMS.items():
                for label, protocol in PROTOCOLS.items():
                    if nodes > 200 and (name, label) not in LARGE:
                        continue
                    compiled, plain = (engine(nodes, protocol, stream, loss, epsilon, way) for way in (False, True))
                    order = statistics.mean(agent.function.order for agent in compiled.blocks[0].agents)
                    fast, slow = rate(compiled, nodes, 40_000), rate(plain, nodes, 4_000)
                    share = fast / least_work(compiled)
                    print(
                        f"{nodes:>6}  {name:<8}{label:<31}{order:>5.1f}{fast:>12,.0f}{slow:>10,.0f}"
                        f"{fast / slow:>7.1f}{share:>15.0%}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
