"""Node-rounds a second and memory of compiled rounds on links with a mix of all faults, beside ideal ones.

POLK, one sample a round, symmetric consensus, on a ring of 20 nodes, a circle of as many with four neighbours each,
whose plain steps take five points as those of the mix on the ring do, and a random geometric graph of 1,000. Both kinds
of rounds are timed in turn, and the ratios of neighbouring stretches are compared, so that other work on the machine
falls on both. A node that sleeps does nothing, so that rounds of the mix are counted by those who are awake too.

    python benchmarks/lossy_rounds.py
"""

import os
import statistics
import time
import tracemalloc
from collections.abc import Mapping
from typing import Any

from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.running.network import open_network

GRAPHS: dict[str, Mapping[str, Any]] = {
    "ring of 20": {"name": "ring", "nodes": 20},
    "four neighbours, 20": {"name": "small_world", "nodes": 20, "neighbors": 4, "rewire_probability": 0.0},
    "geometric, 1,000": {"name": "random_geometric", "nodes": 1000, "radius": 0.06},
}
LOSS = {"name": "bursts", "worsens": 0.1, "recovers": 0.4}
DELAY = {"name": "geometric", "mean": 2.0}
EVERYTHING: Mapping[str, Any] = {
    "loss": LOSS,
    "delay": DELAY,
    "quantization": {"bits": 8},
    "noise": 0.01,
    "trigger": {"threshold": 0.001},
}
CONDITIONS: dict[str, Mapping[str, Any]] = {
    "nothing happens": {"links": {"loss": {"name": "bursts", "good": 0.0, "bad": 0.0}}},
    "a fifth lost": {"links": {"loss": 0.2}},
    "2 rounds late": {"links": {"delay": DELAY}},
    "8 bits": {"links": {"quantization": {"bits": 8}}},
    "no answer twice": {"links": EVERYTHING},
    "everything, awake": {"links": {**EVERYTHING, "on_missing": "repeat"}},
    "everything": {
        "links": {**EVERYTHING, "on_missing": "repeat"},
        "clock": {"name": "bernoulli", "probability": 0.5},
    },
}
WARM_ROUNDS, REPEATS, NODE_ROUNDS = 300, 7, 20_000


def described(graph: str, conditions: Mapping[str, Any]) -> Experiment:
    """Return the experiment on a graph."""
    return Experiment.from_dict(
        {
            "topology": dict(GRAPHS[graph]),
            "stream": {"name": "sine_regression", "noise": 1.0},
            "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
            "protocol": {"name": "consensus", "penalty": 10.0},
            **conditions,
        }
    )


def opened(graph: str, conditions: Mapping[str, Any]) -> tuple[SerialEngine, float]:
    """Return a network in its steady state, and the bytes that its agents and arrays take."""
    plans = open_network(described(graph, conditions)).plans
    tracemalloc.start()
    engine = SerialEngine([plans])
    engine.run(1)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    engine.run(WARM_ROUNDS - 1)
    return engine, taken


def seconds(engine: SerialEngine, rounds: int) -> float:
    """Time so many rounds."""
    start = time.perf_counter()
    engine.run(rounds)
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'graph':<18}{'links':<20}{'node-rounds/s':>14}{'plain':>12}{'times plain':>13}{'kB/node':>9}{'plain':>7}")
    with threadpool_limits(1):
        for graph, topology in GRAPHS.items():
            nodes = int(topology["nodes"])
            rounds = max(NODE_ROUNDS // nodes, 20)
            plain, plain_bytes = opened(graph, {})
            for name, conditions in CONDITIONS.items():
                engine, taken = opened(graph, conditions)
                pairs = [(seconds(plain, rounds), seconds(engine, rounds)) for _ in range(REPEATS)]
                ratio = statistics.median(slow / fast for fast, slow in pairs)
                fast, slow = (rounds * nodes / statistics.median(times) for times in zip(*pairs, strict=True))
                print(
                    f"{graph:<18}{name:<20}{slow:>14,.0f}{fast:>12,.0f}{ratio:>13.2f}"
                    f"{taken / nodes / 1000:>9.1f}{plain_bytes / nodes / 1000:>7.1f}",
                    flush=True,
                )
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
