"""Memory and time of a node in random geometric networks: symmetric consensus, where a step takes in many points.

Consensus on sine regression, 10 rounds, one evaluation with 100 pooled samples. Each size runs in two processes of its
own: stage by stage, and as a whole run with its folder, without figures. Sources hold no samples, as in a network of a
million. Columns:

- network, agents, ready: kB a node that the process holds, more than before it began, once the network is open, once
  its agents are made, and once the first round may begin;
- rounds: the most until all rounds are completed;
- run: the most of the whole run;
- open, round, all: microseconds of processor time a node until the network is open, for each round, and for the run.

    python benchmarks/geometric.py [--nodes 3000 10000 30000] [--degree 16.6] [--form symmetric]
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time

from threadpoolctl import threadpool_limits

from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.run import run
from kernelswarm.simulations.streams.generated import synthetic

STAGES = ("network", "agents", "ready", "rounds", "run")
TIMES = ("open", "round", "all")
ROUNDS = 10


def experiment(nodes: int, degree: float, form: str) -> Experiment:
    """Describe a network of so many nodes with so many neighbours in the mean."""
    return Experiment.from_dict(
        {
            "rounds": 10,
            "evaluate_every": 10,
            "topology": {"name": "random_geometric", "nodes": nodes, "radius": math.sqrt(degree / math.pi / nodes)},
            "stream": {"name": "sine_regression"},
            "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
            "protocol": {"name": "consensus", "form": form},
            "evaluation": {"global_samples": 100},
        }
    )


def held() -> float:
    """Return what this process holds in memory now, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as statistics:
        return float(statistics.read().split()[1]) * resource.getpagesize()


def most() -> float:
    """Return the most that it has held, in bytes."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def staged(described: Experiment) -> dict[str, float]:
    """Open a network and live through its rounds; returns bytes and seconds."""
    before, began = held(), time.process_time()
    network = open_network(described)
    found = {"network": held() - before, "open": time.process_time() - began}
    engine = SerialEngine([network.plans])
    found["agents"] = held() - before
    engine.run(1)
    found["ready"] = held() - before
    began = time.process_time()
    engine.run(ROUNDS)
    return {**found, "rounds": most() - before, "round": (time.process_time() - began) / ROUNDS}


def whole(described: Experiment) -> dict[str, float]:
    """Run all of it, with its folder; returns bytes and seconds."""
    before, began = held(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run(described, f"{folder}/run")
    return {"run": most() - before, "all": time.process_time() - began}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[3_000, 10_000, 30_000])
    parser.add_argument("--degree", type=float, default=16.6, help="the mean number of neighbours")
    parser.add_argument("--form", choices=("symmetric", "one_sided"), default="symmetric")
    parser.add_argument("--only", choices=("staged", "whole"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        synthetic.HELD = 0
        measure = staged if options.only == "staged" else whole
        with threadpool_limits(1):
            SerialEngine([open_network(experiment(300, options.degree, options.form)).plans]).run(
                ROUNDS
            )  # compiled now
            print(json.dumps(measure(experiment(options.nodes[0], options.degree, options.form))))
        return
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(
        f"{'nodes':>9}"
        + "".join(f"{f'{name}, kB':>13}" for name in STAGES)
        + "".join(f"{f'{name}, us':>11}" for name in TIMES)
    )
    for nodes in options.nodes:
        found: dict[str, float] = {}
        for part in ("staged", "whole"):
            words = [sys.executable, __file__, "--only", part, "--nodes", str(nodes), "--degree", str(options.degree)]
            done = subprocess.run([*words, "--form", options.form], check=True, capture_output=True, text=True)
            found |= json.loads(done.stdout)
        print(
            f"{nodes:>9,}"
            + "".join(f"{found[name] / nodes / 1e3:>13.1f}" for name in STAGES)
            + "".join(f"{1e6 * found[name] / nodes:>11.1f}" for name in TIMES),
            flush=True,
        )
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
