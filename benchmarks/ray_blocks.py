"""Node-rounds a second of the Ray backend with one block of nodes per core, beside the serial backend in the same run.

python benchmarks/ray_blocks.py
"""

import time

from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.simulations.engine import Engine
from kernelswarm.simulations.network import open_network
from kernelswarm.simulations.ray_backend import Ray, keep_ray
from kernelswarm.simulations.serial import SerialEngine

TURNS = 3
NODE_ROUNDS = 16_000


def experiment(nodes: int) -> Experiment:
    """Consensus on a ring: two inputs, five classes, some 20 kernel functions a node."""
    return Experiment.from_dict(
        {
            "topology": {"name": "ring", "nodes": nodes},
            "stream": {"name": "gaussian_mixture"},
            "learner": {
                "name": "polk",
                "loss": "multiclass_logistic",
                "step_size": 0.5,
                "kernel": {"name": "gaussian", "bandwidth": 0.7746},
                "budget": {"epsilon": 0.25},
            },
            "protocol": {"name": "consensus", "penalty": 0.1},
        }
    )


def rate(engine: Engine, nodes: int) -> float:
    """Measure node-rounds a second over one stretch."""
    rounds = NODE_ROUNDS // nodes
    start = time.perf_counter()
    engine.run(rounds)
    return rounds * nodes / (time.perf_counter() - start)


def main() -> None:
    """Print the table."""
    print(f"{'nodes':>6}{'serial':>12}{'ray, auto':>12}{'ratio':>8}")
    with threadpool_limits(1), keep_ray():
        for nodes in (20, 200):
            plans = open_network(experiment(nodes)).plans
            with Ray(nodes_per_actor="auto").start(plans, lambda phase, done, total: None) as blocks:
                serial = SerialEngine([open_network(experiment(nodes)).plans])
                serial.run(200)
                blocks.run(200)
                pairs = [(rate(serial, nodes), rate(blocks, nodes)) for _ in range(TURNS)]
            one, many = sorted(pairs, key=lambda pair: pair[1] / pair[0])[TURNS // 2]
            print(f"{nodes:>6}{one:>12,.0f}{many:>12,.0f}{many / one:>8.2f}")


if __name__ == "__main__":
    main()
