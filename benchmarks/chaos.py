"""Kill random actors at random times, in whatever they do, and compare every run's models with the serial backend's.

    python benchmarks/chaos.py                 # 50 kills, about five minutes
    python benchmarks/chaos.py --kills 10 --nodes 20 --nodes-per-actor 5

Runs follow one another, each from its start to its end on a Ray that all share, until as many actors were killed as
asked for. Exits with 1 unless every run's models are the serial ones, bit for bit, and no semaphore of this Ray is left
in shared memory.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelswarm import Experiment, simulate
from kernelswarm.simulations.engine.ray_backend import Ray, keep_ray
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.engine.shared_memory import made_by
from kernelswarm.simulations.running.simulation import Progress, run

SHORTEST, LONGEST = 0.1, 6.0  # seconds between two kills


class Killer(threading.Thread):
    """Sends SIGKILL to one of this process's actors from time to time, and keeps account of what was going on."""

    def __init__(self, kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.left = kills
        self.phase = "starting"
        self.phases: Counter[str] = Counter()
        self.ended = threading.Event()
        self.stores: set[int] = set()  # the raylets seen, which make the channels' semaphores
        self._random = random.Random(seed)

    def observe(self, progress: Progress) -> None:
        """Note what the simulation does."""
        self.phase = progress.phase

    def run(self) -> None:
        """Kill until there have been enough, or the end."""
        while self.left and not self.ended.wait(self._random.uniform(SHORTEST, LONGEST)):
            self.stores |= set(descendants(os.getpid(), "raylet"))
            victims = descendants(os.getpid(), "ray::_Actor", "ray::IDLE")
            if victims:
                phase = self.phase
                os.kill(self._random.choice(victims), signal.SIGKILL)
                self.left -= 1
                self.phases[phase] += 1


def descendants(pid: int, *beginnings: str) -> list[int]:
    """Return the processes that descend from a process and whose names begin so; those of actors, or of raylets."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, fields = status.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        number, _, name = head.partition(" (")
        names[int(number)] = name
        children.setdefault(int(fields.split()[1]), []).append(int(number))
    found = [pid]
    for process in found:
        found += children.get(process, [])
    return [process for process in found if names.get(process, "").startswith(beginnings)]


def described(nodes: int, rounds: int, backend: Any) -> Experiment:
    """Return a network in which everything has a state: duals, adaptive tolerances, an adaptive budget."""
    return Experiment.from_dict(
        {
            "rounds": rounds,
            "evaluate_every": rounds // 10,
            "checkpoint_every": rounds // 50,
            "topology": {"name": "ring", "nodes": nodes},
            "stream": {"name": "sensor_field", "noise": 0.5},
            "learner": {
                "name": "polk",
                "step_size": 0.1,
                "kernel": {"name": "gaussian", "bandwidth": 0.1},
                "budget": {"target_order": 20},
            },
            "protocol": {"name": "proximity", "gamma": {"name": "adaptive"}, "form": "symmetric", "step": "implicit"},
            "backend": backend,
        }
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--nodes-per-actor", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    alone = described(arguments.nodes, arguments.rounds, Serial())
    wanted = simulate(alone).summary["digest"]
    # Kills come faster than checkpoints at times, which is no reason to give up here.
    shaken = replace(alone, backend=Ray(nodes_per_actor=arguments.nodes_per_actor, restarts=arguments.kills))
    print(f"{arguments.nodes} nodes, {arguments.rounds:,} rounds; the serial backend's digest is {wanted[:16]}...")
    print(f"{'run':>4} {'kills':>6} {'replacements':>13} {'seconds':>8}  digest")
    killer = Killer(arguments.kills, arguments.seed)
    runs = wrong = 0
    with tempfile.TemporaryDirectory() as folder, keep_ray():
        killer.start()
        while killer.left:
            left, clock = killer.left, time.perf_counter()
            runs += 1
            summary = run(shaken, Path(folder) / "run", killer.observe).result.summary
            killer.phase = "starting"
            wrong += summary["digest"] != wanted
            verdict = "the same" if summary["digest"] == wanted else f"ANOTHER: {summary['digest'][:16]}"
            spent = time.perf_counter() - clock
            print(f"{runs:4} {left - killer.left:6} {summary['recoveries']:13} {spent:8.1f}  {verdict}", flush=True)
        killer.ended.set()
    phases = ", ".join(f"{count} while {phase}" for phase, count in killer.phases.most_common())
    print(f"{arguments.kills} actors killed ({phases}); {runs - wrong} of {runs} runs ended with the same models")
    left = made_by(killer.stores)
    print(f"{len(left)} semaphores of {len(killer.stores)} raylets are left in shared memory")
    return 1 if wrong or left or not killer.stores else 0


if __name__ == "__main__":
    sys.exit(main())
