"""A million rounds of a small network, and the memory that its processes take meanwhile.

A ring of ten nodes under consensus, measured every 100 rounds into a run folder, first on the serial backend and then
on Ray with two nodes an actor; each goes on for half the time that is given, or to its last round. Once a second the
memory of this process and of Ray's processes is read from /proc:

- driver, actors: resident memory that is the process's own (RssAnon), of the actors all together;
- Ray: the same of Ray's other processes;
- shared: the most shared memory that one of these processes has touched (RssShmem): the object store and the channels.

The slope is fitted to what follows the first fifth of the run, in which caches fill. It is flat when a million rounds
would add less than 20 MB; fewer than 150,000 rounds say nothing.

    python benchmarks/soak.py [--minutes 10] [--rounds 1000000] [--out soak.png]
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import Progress, run

FLAT = 20.0  # MB a million rounds
SHORTEST = 150_000  # rounds
KINDS = ("driver", "actors", "Ray", "shared")
BACKENDS: Mapping[str, dict[str, object]] = {
    "serial": {"name": "serial"},
    "ray, 5 actors": {"name": "ray", "nodes_per_actor": 2},
}


class Over(BaseException):
    """The time is over."""


@dataclass
class Watch:
    """Reads the memory of this process and its children once a second."""

    rounds: int = 0
    seen: list[tuple[float, ...]] = field(default_factory=list)  # round, MB of each kind
    ended: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        while not self.ended.wait(1.0):
            if self.rounds:
                self.seen.append((float(self.rounds), *memory()))


def memory() -> tuple[float, ...]:
    """Return the MB of each of ``KINDS``."""
    found = dict.fromkeys(KINDS, 0.0)
    parents: dict[int, tuple[int, str, float, float]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            lines = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines() if ":" in line)
            name = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError):  # it has ended
            continue
        own, shared = (float(lines.get(key, "0 kB").split()[0]) / 1024 for key in ("RssAnon", "RssShmem"))
        parents[int(place.name)] = int(lines["PPid"]), name, own, shared
    mine = {os.getpid()}
    for _ in range(8):
        mine |= {process for process, (parent, *_) in parents.items() if parent in mine}
    for process in mine & set(parents):
        _, name, own, shared = parents[process]
        kind = "driver" if process == os.getpid() else "actors" if name.startswith("ray::_Actor") else "Ray"
        found[kind] += own
        found["shared"] = max(found["shared"], shared)
    return tuple(found[kind] for kind in KINDS)


def watch(backend: Mapping[str, object], rounds: int, seconds: float) -> Array:
    """Run and return what was seen, one row a second: the rounds done and the MB of each kind."""
    experiment = Experiment.from_dict(
        {
            "rounds": rounds,
            "evaluate_every": 100,
            "topology": {"name": "ring", "nodes": 10},
            "stream": {"name": "sine_regression"},
            "learner": {
                "name": "polk",
                "step_size": 0.2,
                "kernel": {"name": "gaussian", "bandwidth": 0.1},
                "budget": {"epsilon": 0.01},
            },
            "protocol": {"name": "consensus", "penalty": 0.5, "as_published": True},
            "evaluation": {"local_samples": 20, "global_samples": 50},
            "backend": backend,
        }
    )
    seen = Watch()
    looking = threading.Thread(target=seen.look, daemon=True)
    looking.start()
    start = time.monotonic()

    def observe(progress: Progress) -> None:
        # what the end of the run frees is not looked at
        seen.rounds = progress.done if progress.done < progress.total else 0
        if time.monotonic() - start > seconds:
            seen.rounds = 0
            raise Over

    with tempfile.TemporaryDirectory() as folder:
        try:
            run(experiment, Path(folder) / "run", observe)
        except Over:
            pass
        finally:
            seen.ended.set()
            looking.join()
        seen.seen = [row for row in seen.seen if row[0]]
    return np.array(seen.seen)


def main() -> None:
    """Print a table of memory and slopes, and draw the curves if asked."""
    parser = argparse.ArgumentParser(description="Watch the memory of long runs.")
    parser.add_argument("--minutes", type=float, default=10.0, help="of both backends together")
    parser.add_argument("--rounds", type=int, default=1_000_000, help="of each backend at most")
    parser.add_argument("--out", type=Path, help="a PNG of the curves")
    options = parser.parse_args()
    curves = {}
    print(f"{'':16}{'rounds':>10}{'':10}{'first MB':>10}{'last MB':>10}{'MB / 10^6 rounds':>18}")
    for name, backend in BACKENDS.items():
        curves[name] = seen = watch(backend, options.rounds, 30.0 * options.minutes)
        if len(seen) < 10:
            raise SystemExit(f"{name}: over after {len(seen)} seconds; take more --rounds or more --minutes")
        late = seen[seen[:, 0] >= seen[-1, 0] / 5]
        for place, kind in enumerate(KINDS, start=1):
            if not seen[:, place].any():
                continue
            slope = 1e6 * np.polyfit(late[:, 0], late[:, place], 1)[0]
            verdict = "too short to say" if seen[-1, 0] < SHORTEST else "flat" if slope < FLAT else "GROWS"
            print(
                f"{name:16}{int(seen[-1, 0]):>10,}{kind:>10}{late[0, place]:>10.1f}{late[-1, place]:>10.1f}"
                f"{slope:>18.1f}  {verdict}",
                flush=True,
            )
    if options.out is not None:
        draw(curves, options.out)


def draw(curves: Mapping[str, Array], path: Path) -> None:
    """Draw memory against rounds, a panel for each backend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    for axes, (name, seen) in zip(figure.subplots(1, len(curves)), curves.items(), strict=True):
        for place, kind in enumerate(KINDS, start=1):
            if seen[:, place].any():
                axes.plot(seen[:, 0] / 1e6, seen[:, place], label=kind)
        axes.set_ylim(0, 1.2 * seen[:, 1:].max())
        axes.set_title(name)
        axes.set_xlabel("million rounds")
        axes.set_ylabel("MB")
        axes.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
