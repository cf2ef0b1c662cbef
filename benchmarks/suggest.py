"""Suggested values beside the best of a full grid, on six data sets: risks on test data, and what each cost.

    python benchmarks/suggest.py [FOLDER] [NAME ...]

FOLDER holds cal_housing.data.gz, air_quality.mat, lidar.csv and a folder mnist with the four IDX files; what is not
there is left out, and so are the names that are not asked for. The grid has five values of bandwidth and step size and
three of budget and coupling, evenly spaced by ratio over the ranges that suggest tries; each runs for all rounds. The
grid's figure is the least risk of all its runs on the test data, which flatters it. Cost is counted in node-rounds.
Lidar has 44 test rows: its risks are means over five seeds, and so is its grid's cost a sum over them.
"""

import gzip
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kernelswarm.simulations.comparison.candidates import ranges
from kernelswarm.simulations.comparison.suggest import suggest
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.experiment.changes import changed
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate

POLK = {"name": "polk", "batch_size": 4}
RING = {"name": "small_world", "nodes": 10, "neighbors": 4}
SHARES = {"learner.kernel.bandwidth": 5, "learner.step_size.scale": 5}
FEW = 3


def california(folder: Path, scratch: Path) -> dict[str, Any]:
    stream = {"name": "file", "path": str(folder / "cal_housing.data.gz"), "format": "csv", "task": "regression"}
    stream |= {"target": "median_house_value", "standardize": True, "standardize_targets": True}
    return {"stream": stream, "learner": POLK, "protocol": "consensus", "topology": RING, "rounds": 400}


def air(folder: Path, scratch: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    content = loadmat(folder / "air_quality.mat")
    np.savez(scratch / "air.npz", x=content["X"].astype(float), y=content["Y"][:, 0].astype(float))
    stream = {"name": "file", "path": str(scratch / "air.npz"), "order": "file", "standardize": True}
    stream |= {"standardize_targets": True}
    return {"stream": stream, "learner": POLK, "protocol": "consensus", "topology": RING, "rounds": 400}


def mnist(folder: Path, scratch: Path) -> dict[str, Any]:
    arrays = {}
    for name, rows, kind in (("train", 4000, ""), ("t10k", 2000, "_test")):
        images = gzip.decompress((folder / "mnist" / f"{name}-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((folder / "mnist" / f"{name}-labels-idx1-ubyte.gz").read_bytes())
        arrays[f"x{kind}"] = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784)[:rows] / 255.0
        arrays[f"y{kind}"] = np.frombuffer(labels, np.uint8, offset=8)[:rows].astype(np.int64)
    np.savez(scratch / "mnist.npz", **arrays)
    learner = POLK | {"loss": "multiclass_logistic", "batch_size": 8}
    stream = {"name": "file", "path": str(scratch / "mnist.npz"), "standardize": False}
    topology = {"name": "ring", "nodes": 5}
    return {"stream": stream, "learner": learner, "protocol": "consensus", "topology": topology, "rounds": 100}


def field(folder: Path, scratch: Path) -> dict[str, Any]:
    topology = {"name": "random_geometric", "nodes": 20, "radius": 0.35}
    stream = {"name": "sensor_field", "noise": 0.5}
    return {"stream": stream, "learner": POLK, "protocol": "proximity", "topology": topology, "rounds": 300}


def mixture(folder: Path, scratch: Path) -> dict[str, Any]:
    stream = {"name": "gaussian_mixture", "classes": 5, "radius": 2.0}
    learner = POLK | {"loss": "multiclass_logistic"}
    return {"stream": stream, "learner": learner, "protocol": "consensus", "topology": RING, "rounds": 400}


def lidar(folder: Path, scratch: Path) -> dict[str, Any]:
    lines = (folder / "lidar.csv").read_text().splitlines()
    values = np.array([line.split(",") for line in lines[1:]], dtype=float)
    np.savez(scratch / "lidar.npz", x=values[:, :1], y=values[:, 1])
    stream = {"name": "file", "path": str(scratch / "lidar.npz"), "epochs": 20, "standardize": True}
    stream |= {"standardize_targets": True}
    topology = {"name": "ring", "nodes": 5}
    learner = POLK | {"batch_size": 2}
    return {"stream": stream, "learner": learner, "protocol": "consensus", "topology": topology, "rounds": 400}


COLUMNS = ("data", "defaults", "suggested", "grid's best", "grid's median", "ratio")
COLUMNS += ("node-rounds", "grid's", "share", "time", "grid's", "chosen")
SETS: dict[str, tuple[Callable[[Path, Path], dict[str, Any]], str]] = {
    "California housing": (california, "cal_housing.data.gz"),
    "air quality": (air, "air_quality.mat"),
    "MNIST": (mnist, "mnist"),
    "sensor field": (field, ""),
    "gaussian mixture": (mixture, ""),
    "lidar": (lidar, "lidar.csv"),
}


def grid(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the changes of every run of the grid."""
    found = ranges(Experiment.from_dict(table), table)
    shares = [np.linspace(0.0, 1.0, SHARES.get(entry.key, FEW)).tolist() for entry in found]
    for point in itertools.product(*shares):
        yield {entry.key: entry.value(share) for entry, share in zip(found, point, strict=True)}


def tested(task: tuple[dict[str, Any], dict[str, Any]], tell: Callable[[float], None]) -> tuple[float, int]:
    """Run an experiment with changes for all its rounds, and return its test risk and its node-rounds."""
    table, changes = task
    for key, value in changes.items():
        table = changed(table, key, value, explicit=True)
    table = {**table, "evaluate_every": 10**6, "evaluation": {"local_samples": 500, "rkhs_distance": False}}
    seeds = 5 if table["stream"].get("epochs") else 1
    try:
        results = [simulate(Experiment.from_dict({**table, "seed": seed})) for seed in range(seeds)]
    except (InputError, SimulationError):
        return float("inf"), 0
    cost = sum(result.summary["rounds"] * result.summary["nodes"] for result in results)
    return sum(float(result.final["risk"] or 0.0) for result in results) / seeds, cost


def compared(name: str, table: dict[str, Any], jobs: int) -> str:
    started = time.perf_counter()
    found = suggest(table, jobs=jobs)
    spent = time.perf_counter() - started
    tasks = [(table, dict(found.chosen.values)), (table, {}), *((table, changes) for changes in grid(table))]
    started = time.perf_counter()
    answers: dict[int, Any] = dict(parallel.answers(tested, tasks, jobs, lambda shares: None))
    risks = [answers[place][0] for place in range(len(tasks))]
    cost = sum(answers[place][1] for place in range(2, len(tasks)))
    least = min(risks[2:])
    median = float(np.median(risks[2:]))
    values = ", ".join(f"{key.split('.')[-1]} {value}" for key, value in found.chosen.values.items()) or "as it was"
    return (
        f"| {name} | {risks[1]:.4f} | {risks[0]:.4f} | {least:.4f} | {median:.4f} | {risks[0] / least:.2f} | "
        f"{found.node_rounds:,} | {cost:,} | {found.node_rounds / cost:.3f} | {spent:.0f} s | "
        f"{time.perf_counter() - started:.0f} s | {values} |"
    )


def main() -> None:
    words = sys.argv[1:]
    folder = Path(words[0]) if words else Path("data")
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, (make, needed) in SETS.items():
            if (words[1:] and name not in words[1:]) or (needed and not (folder / needed).exists()):
                continue
            print(compared(name, make(folder, Path(scratch)), parallel.cores()), flush=True)
    print(f"load {os.getloadavg()[0]:.1f} on {parallel.cores()} cores at the end")


if __name__ == "__main__":
    main()
