"""Node-rounds a second of protocols that send vectors: a ring of 20 nodes, 100 random features, one sample a round.

Compiled rounds beside those of single nodes, and beside one-sided explicit consensus with the same features. All turns
alternate in one process, in processor time.

    python benchmarks/vector_rounds.py
"""

import statistics
import time

from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.simulations.round.block import Block
from kernelswarm.simulations.running.network import open_network

NODES, TURNS = 20, 5
ROUNDS, ALONE = 3000, 200
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
    {"name": "ditto"},
]


def block(learner: dict[str, object], protocol: dict[str, object], compiled: bool) -> Block:
    described = {"topology": {"name": "ring", "nodes": NODES}, "stream": "sine_regression"}
    network = open_network(Experiment.from_dict({**described, "learner": learner, "protocol": protocol}))
    made = Block(network.plans, compiled)
    made.run(100)
    return made


def rate(made: Block, rounds: int) -> float:
    begun = time.process_time()
    made.run(rounds)
    return NODES * rounds / (time.process_time() - begun)


def main() -> None:
    print("| learner | protocol | compiled, node-rounds/s | node by node | ratio | of consensus |")
    print("|---|---|---:|---:|---:|---:|")
    with threadpool_limits(1):
        for called, learner in LEARNERS.items():
            beside = block(learner, BESIDE, True)
            for protocol in PROTOCOLS:
                together, alone = block(learner, protocol, True), block(learner, protocol, False)
                turns = [(rate(together, ROUNDS), rate(alone, ALONE), rate(beside, ROUNDS)) for _ in range(TURNS)]
                fast, slow = (statistics.median(turn[k] for turn in turns) for k in range(2))
                ratio, part = (statistics.median(turn[0] / turn[k] for turn in turns) for k in (1, 2))
                words = ", ".join(str(value) for value in protocol.values())
                print(f"| {called} | {words} | {fast:,.0f} | {slow:,.0f} | {ratio:.0f}x | {part:.0%} |", flush=True)


if __name__ == "__main__":
    main()
