"""Where the time of a whole call of `simulate` goes, for large networks.

A ring, sine regression, 100 rounds of one sample and four evaluations, on one core; each case in a process of its own,
after a small network that compiles everything. The columns are seconds of processor time:

- opening: the graph, the stream, the nodes and their arrays, and the first round;
- rounds: all others;
- evaluations: all four, with their rows;
- ending: models, the constants' risks, the summary;

then the time of all that is no rounds over that of the rounds, and how many MB more the process takes at its peak than
before it began.

    python benchmarks/whole_calls.py [--nodes 1000 10000] [--turns 3] [--cases polk "random features"]
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from kernelswarm import simulate
from kernelswarm.simulations.running.state import Progress

CASES: dict[str, tuple[Any, str]] = {
    "polk": ("polk", "consensus"),
    "random features": ({"name": "random_features", "features": 100}, "diffusion"),
    "linear": ("linear", "diffusion"),
    "newton": ("newton", "consensus"),
}
PARTS = ("opening", "rounds", "evaluations", "ending")


class Clock:
    """Adds the processor time since it was last asked to the part that it was spent on."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(PARTS, 0.0)
        self._last = time.process_time()
        self._opening = True

    def add(self, part: str) -> None:
        """Add the time since the last call."""
        now = time.process_time()
        self.spent[part] += now - self._last
        self._last = now

    def observe(self, progress: Progress) -> None:
        """Follow the progress of a simulation, after each piece of work."""
        phases = {"starting": "opening", "running": "rounds", "evaluating": "evaluations"}
        self.add("opening" if self._opening else phases[progress.phase])
        self._opening = self._opening and progress.phase == "starting"


def peak() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measure(case: str, nodes: int) -> list[float]:
    """Return the times of all parts, and the memory."""
    learner, protocol = CASES[case]

    def call(nodes: int, clock: Clock) -> None:
        topology, backend = {"name": "ring", "nodes": nodes}, {"name": "serial", "threads": 1}
        keys = {"topology": topology, "backend": backend, "stream": "sine_regression", "learner": learner}
        simulate(**keys, protocol=protocol, rounds=100, observe=clock.observe)
        clock.add("ending")

    call(6, Clock())
    before, clock = peak(), Clock()
    call(nodes, clock)
    return [*clock.spent.values(), peak() - before]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Where the time of a whole call goes.")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--turns", type=int, default=3, help="calls, of which medians are printed")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only is not None:
        print(json.dumps(measure(options.only, options.nodes[0])))
        return
    print(f"{'':18}{'nodes':>8}" + "".join(f"{part:>13}" for part in (*PARTS, "of rounds", "MB")))
    for nodes in options.nodes:
        for case in options.cases:
            words = [sys.executable, __file__, "--only", case, "--nodes", str(nodes)]
            runs = [
                json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
                for _ in range(options.turns)
            ]
            *parts, memory = np.median(np.array(runs), axis=0).tolist()
            ratio = float(np.median([(sum(run[:4]) - run[1]) / run[1] for run in runs]))
            print(
                f"{case:18}{nodes:>8,}" + "".join(f"{part:>13.2f}" for part in (*parts, ratio)) + f"{memory:>13.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
