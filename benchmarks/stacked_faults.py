"""Whether defences help stacking, whose shares already follow what each copy is worth: faulty nodes, with and without.

    python benchmarks/stacked_faults.py [--seeds 5]

Cells, faults and learner are those of ``kernelswarm reproduce faults``. Prints Markdown: the median error of the sound
nodes.
"""

import argparse
from typing import Any

import numpy as np

from kernelswarm import simulate
from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.reproductions.faults import FAULTS, GRAPHS, PENALTY, ROUNDS

CELLS = (
    ("", 0.0),
    ("data, large offset", 0.2),
    ("data, large offset", 0.4),
    ("data, small offset", 0.4),
    ("data, sign", 0.4),
)


FORMS: dict[str, Any] = {
    "isolated": "isolated",
    "consensus, trust": {"name": "consensus", "penalty": PENALTY, "robust": "trust"},
    "stacking": {"name": "stacking"},
    "stacking, trust": {"name": "stacking", "robust": "trust"},
    "stacking, trimmed": {"name": "stacking", "robust": "trimmed"},
}


def error(graph: str, fault: str, share: float, form: str, seed: int) -> float:
    """Return the error of the sound nodes at the end; infinite where the run was stopped."""
    topology = GRAPHS[graph]
    nodes = int(topology["nodes"])
    faulty = np.random.default_rng(seed).permutation(nodes)[: round(share * nodes)].tolist()
    try:
        return simulate(
            seed=seed,
            rounds=ROUNDS,
            evaluate_every=ROUNDS,
            topology=dict(topology),
            stream={"name": "sine_regression", "noise": 0.3},
            learner="newton",
            protocol=FORMS[form],
            evaluation={"rkhs_distance": False},
            fault=[{"nodes": faulty, **FAULTS[fault]}] if fault else [],
        ).final["global_error"]
    except SimulationError:
        return np.inf


def main() -> None:
    """Print a table of each graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    for graph in ("ring", "geometric"):
        print(f"| {graph} |", " | ".join(f"{fault or 'clean'} {share:g}" for fault, share in CELLS), "|")
        print("|---|" + "---:|" * len(CELLS), flush=True)
        for form in FORMS:
            cells = [[error(graph, *cell, form, seed) for seed in range(asked.seeds)] for cell in CELLS]
            print(f"| {form} |", " | ".join(f"{np.median(cell):.2g}" for cell in cells), "|", flush=True)


if __name__ == "__main__":
    main()
