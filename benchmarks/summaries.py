"""Measure summaries beside isolated nodes, consensus, proximity and stacking: errors, bytes, time.

python benchmarks/summaries.py --seeds 3 [--problems 'patches;field 2']
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from kernelswarm import simulate

RING: dict[str, Any] = {"name": "ring", "nodes": 8}
GEOMETRIC = {"name": "random_geometric", "nodes": 20, "radius": 0.35}
FIELD = {"name": "random_geometric", "nodes": 20, "radius": 0.38}
SINE: dict[str, Any] = {"name": "sine_regression", "noise": 0.5}
PATCHES = SINE | {"split": "patches", "overlap": 0.3}

PROBLEMS: dict[str, tuple[dict[str, Any], dict[str, Any], int, str]] = {
    "one target": (RING, SINE | {"noise": 1.0}, 600, "global_error"),
    "one target, clean": (RING, SINE | {"noise": 0.1}, 600, "global_error"),
    "patches": (RING, PATCHES, 500, "global_error"),
    "patches, geometric": (GEOMETRIC, PATCHES, 500, "global_error"),
}
PROBLEMS |= {
    f"field {length:g}, noise {noise:g}": (
        FIELD,
        {"name": "sensor_field", "noise": noise, "length": length},
        rounds,
        "error",
    )
    for noise, rounds in ((0.5, 1000), (1.5, 300), (3.0, 1500))
    for length in (0.5, 2.0, 10.0)
}
ROWS: dict[str, dict[str, Any]] = {
    "isolated": {"learner": "newton", "protocol": "isolated"},
    "consensus, plain": {"learner": "newton", "protocol": {"name": "consensus", "penalty": 10.0}},
    "consensus": {"learner": "newton", "protocol": {"name": "consensus", "replay": 1, "certainty": 4}},
    "proximity": {"learner": "newton", "protocol": "proximity"},
    "stacking": {"learner": "newton", "protocol": "stacking"},
    "centralized": {"learner": "newton", "protocol": "centralized"},
    "summaries": {"learner": "newton", "protocol": "summaries"},
    "summaries, one": {"learner": "newton", "protocol": {"name": "summaries", "relation": "one"}},
    "summaries, rls": {"learner": "rls", "protocol": "summaries"},
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--problems", default="")
    arguments.add_argument("--rows", default="")
    given = arguments.parse_args()
    problems, wanted = dict(PROBLEMS), [name for name in given.problems.split(";") if name]
    rows = [name for name in given.rows.split(";") if name] or list(ROWS)
    for name, (topology, stream, rounds, figure) in problems.items():
        if wanted and not any(part in name for part in wanted):
            continue
        for row in rows:
            errors, sent, taken = [], 0.0, time.process_time()
            for seed in range(given.seeds):
                keys: dict[str, Any] = {"topology": topology, "stream": stream, "seed": seed, "rounds": rounds}
                found = simulate(**keys, **ROWS[row], evaluate_every=rounds, evaluation={"rkhs_distance": False})
                errors.append(found.final[figure])
                sent = found.final["bytes_sent"] / 1e6
            taken = (time.process_time() - taken) / given.seeds
            each = " ".join(f"{error:.4g}" for error in errors)
            print(f"{name:<22} {row:<16} {np.mean(errors):.4g}  {sent:.3g} MB  {taken:.2f} s  ({each})", flush=True)


if __name__ == "__main__":
    main()
