"""Node-rounds a second of protocols that send vectors: a ring of 20 nodes, 100 random features, one sample a round.

Beside one-sided explicit consensus with the same features; then the same on the lossy links of
`benchmarks/lossy_rounds.py`, beside ideal ones. All turns alternate in one process, in processor time.

    python benchmarks/vector_rounds.py [--lossy]
"""

import argparse
import os
import statistics
import time
from collections.abc import Mapping
from typing import Any

from lossy_rounds import CONDITIONS
from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.running.network import open_network

IDEAL: dict[str, Any] = {}
NODES, TURNS = 20, 3
ROUNDS = 1000
LEARNERS: dict[str, dict[str, object]] = {
    "random_features, L = 100": {"name": "random_features", "kernel": {"name": "gaussian", "bandwidth": 0.7746}},
    "linear": {"name": "linear"},
}
BESIDE = {"name": "consensus", "as_published": True}
PROTOCOLS: list[dict[str, object]] = [
    {"name": "diffusion"},
    {"name": "diffusion", "combination": "adaptive"},
    {"name": "gradient_tracking"},
    {"name": "odkla"},
    {"name": "multitask"},
    {"name": "mocha"},
    {"name": "ditto"},
    {"name": "dkla"},
    {"name": "diffusion_rls"},
    {"name": "drfgp", "exchanges": 4},
]
MIXED: dict[str, dict[str, object]] = {
    "raker, 5 x 20": {"name": "raker", "features": 20, "kernel": {"name": "gaussian", "bandwidth": 0.7746}},
}
ON_LOSSY_LINKS = ("diffusion", "gradient_tracking", "odkla", "mocha", "dkla", "diffusion_rls")


def block(learner: dict[str, object], protocol: dict[str, object], conditions: Mapping[str, Any] = IDEAL) -> Block:
    described = {"topology": {"name": "ring", "nodes": NODES}, "stream": "sine_regression", **conditions}
    network = open_network(Experiment.from_dict({**described, "learner": learner, "protocol": protocol}))
    made = Block(network.plans)
    made.run(100)
    return made


def rate(made: Block) -> float:
    begun = time.process_time()
    made.run(ROUNDS)
    return NODES * ROUNDS / (time.process_time() - begun)


def ideal() -> None:
    """Print the table on ideal links."""
    print("| learner | protocol | node-rounds/s | of consensus |")
    print("|---|---|---:|---:|")
    for called, learner in {**LEARNERS, **MIXED}.items():
        beside = block(learner, BESIDE)
        for protocol in PROTOCOLS if called in LEARNERS else [{"name": "domkl"}]:
            together = block(learner, protocol)
            turns = [(rate(together), rate(beside)) for _ in range(TURNS)]
            fast = statistics.median(own for own, _ in turns)
            part = statistics.median(own / other for own, other in turns)
            words = ", ".join(str(value) for value in protocol.values())
            print(f"| {called} | {words} | {fast:,.0f} | {part:.0%} |", flush=True)


def lossy() -> None:
    """Print the table of rounds on unreliable links."""
    print("| protocol | links and clock | node-rounds/s | times plain |")
    print("|---|---|---:|---:|")
    learner = next(iter(LEARNERS.values()))
    for protocol in ({"name": name} for name in ON_LOSSY_LINKS):
        plain = block(learner, protocol)
        for called, conditions in CONDITIONS.items():
            together = block(learner, protocol, conditions)
            turns = [(rate(together), rate(plain)) for _ in range(TURNS)]
            fast = statistics.median(own for own, _ in turns)
            times = statistics.median(other / own for own, other in turns)
            print(f"| {protocol['name']} | {called} | {fast:,.0f} | {times:.2f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lossy", action="store_true", help="the second table alone")
    alone = parser.parse_args().lossy
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with threadpool_limits(1):
        if not alone:
            ideal()
        lossy()
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
