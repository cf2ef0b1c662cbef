"""Lose two of four machines of a Ray cluster, at different rounds, and compare the models with the serial backend's.

The machines are raylets of one core each on this one. A small network in blocks lives on unreliable links, with nodes
that forget when they leave, so that all that there is to restore is restored. Exits with 1 unless the models are the
serial ones, bit for bit.

    python benchmarks/lost_machines.py
    python benchmarks/lost_machines.py --nodes 24 --rounds 3000
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernelswarm import Experiment, simulate
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.running.simulation import Progress, run

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.helpers.raylets import Raylets, raylets

MACHINES = 4
LOST = (0.3, 0.7)
"""The shares of the rounds after which a machine is lost."""


def described(nodes: int, rounds: int) -> Experiment:
    """Return a network on unreliable links."""
    return Experiment.from_dict(
        {
            "rounds": rounds,
            "evaluate_every": rounds // 10,
            "checkpoint_every": rounds // 20,
            "topology": {"name": "ring", "nodes": nodes},
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": {"name": "polk", "step_size": 0.2, "kernel": {"name": "gaussian", "bandwidth": 0.1}},
            "protocol": {"name": "proximity"},
            "links": {"loss": 0.2, "delay": {"name": "geometric", "mean": 1.0}, "on_missing": "repeat"},
            "clock": {"name": "churn", "leaves": 0.01, "returns": 0.2, "memory": False},
        }
    )


@dataclass
class Loss:
    """Removes machines, the last first, as soon as the run has come so far."""

    cluster: Raylets
    rounds: list[int]
    seen: list[int] = field(default_factory=list)

    def observe(self, progress: Progress) -> None:
        """Note how far the run is."""
        if progress.phase == "running" and len(self.seen) < len(self.rounds):
            due = self.rounds[len(self.seen)]
            if progress.done >= due:
                self.cluster.remove(MACHINES - 1 - len(self.seen))
                self.seen.append(progress.done)


def main() -> int:
    """Run once, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=1000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    alone = replace(described(arguments.nodes, arguments.rounds), backend=Serial())
    wanted = simulate(alone).summary["digest"]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; the serial backend's digest is {wanted[:16]}...")
    clock = time.perf_counter()
    with raylets(MACHINES, 0) as cluster, tempfile.TemporaryDirectory() as folder:
        backend = Ray(nodes_per_actor=-(-arguments.nodes // MACHINES), address=cluster.address)
        started = time.perf_counter() - clock
        loss = Loss(cluster, [int(share * arguments.rounds) for share in LOST])
        summary = run(replace(alone, backend=backend), Path(folder) / "run", loss.observe).result.summary
    spent = time.perf_counter() - clock
    print(f"{MACHINES} machines up after {started:.0f} s, the end after {spent:.0f} s")
    print(f"lost after {loss.seen} rounds; recoveries {summary['recoveries']}, digest {summary['digest'][:16]}...")
    same = summary["digest"] == wanted and len(loss.seen) == len(LOST) and summary["recoveries"] >= len(LOST)
    print("the same models" if same else "NOT the same")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
