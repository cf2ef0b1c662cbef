"""Node-rounds a second of protocols that send vectors: a ring of 20 nodes, 100 random features, one sample a round.

Compiled rounds beside those of single nodes, and beside one-sided explicit consensus with the same features; then the
same on the lossy links of `benchmarks/lossy_rounds.py`, beside ideal ones. All turns alternate in one process, in
processor time.

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
from kernelswarm.simulations.round.block import Block
from kernelswarm.simulations.running.network import open_network

IDEAL: dict[str, Any] = {}
NODES, TURNS = 20, 3
ROUNDS, ALONE = 1000, 100
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


def block(
    learner: dict[str, object], protocol: dict[str, object], compiled: bool, conditions: Mapping[str, Any] = IDEAL
) -> Block:
    described = {"topology": {"name": "ring", "nodes": NODES}, "stream": "sine_regression", **conditions}
    network = open_network(Experiment.from_dict({**described, "learner": learner, "protocol": protocol}))
    made = Block(network.plans, compiled)
    made.run(100)
    return made


def rate(made: Block, rounds: int) -> float:
    begun = time.process_time()
    made.run(rounds)
    return NODES * rounds / (time.process_time() - begun)


def ideal() -> None:
    """Print the table on ideal links."""
    print("| learner | protocol | compiled, node-rounds/s | node by node | ratio | of consensus |")
    print("|---|---|---:|---:|---:|---:|")
    for called, learner in {**LEARNERS, **MIXED}.items():
        beside = block(learner, BESIDE, True)
        for protocol in PROTOCOLS if called in LEARNERS else [{"name": "domkl"}]:
            together, alone = block(learner, protocol, True), block(learner, protocol, False)
            turns = [(rate(together, ROUNDS), rate(alone, ALONE), rate(beside, ROUNDS)) for _ in range(TURNS)]
            fast, slow = (statistics.median(turn[k] for turn in turns) for k in range(2))
            ratio, part = (statistics.median(turn[0] / turn[k] for turn in turns) for k in (1, 2))
            words = ", ".join(str(value) for value in protocol.values())
            print(f"| {called} | {words} | {fast:,.0f} | {slow:,.0f} | {ratio:.0f}x | {part:.0%} |", flush=True)


def lossy() -> None:
    """Print the table of rounds on unreliable links."""
    print("| protocol | links and clock | compiled, node-rounds/s | node by node | ratio | times plain |")
    print("|---|---|---:|---:|---:|---:|")
    learner = next(iter(LEARNERS.values()))
    for protocol in ({"name": name} for name in ON_LOSSY_LINKS):
        plain = block(learner, protocol, True)
        for called, conditions in CONDITIONS.items():
            together, alone = block(learner, protocol, True, conditions), block(learner, protocol, False, conditions)
            turns = [(rate(together, ROUNDS), rate(alone, ALONE), rate(plain, ROUNDS)) for _ in range(TURNS)]
            fast, slow = (statistics.median(turn[k] for turn in turns) for k in range(2))
            ratio = statistics.median(turn[0] / turn[1] for turn in turns)
            times = statistics.median(turn[2] / turn[0] for turn in turns)
            row = f"| {protocol['name']} | {called} | {fast:,.0f} | {slow:,.0f} | {ratio:.0f}x | {times:.2f} |"
            print(row, flush=True)


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
