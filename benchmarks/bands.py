"""What bands of the level 0.9 cover: learners and protocols on inputs that all see, on patches, and on a moving target.

    python benchmarks/bands.py [--seeds 5] [--rounds 1500]

A ring of 8 nodes. Prints Markdown: the coverage of fresh targets at a node's own inputs, mean over the second half of
the run; of targets at all inputs, at the end; of the node's own samples before each step, over the whole run; the mean
width and log density. Then the same for the budgets of compression.
"""

import argparse
from typing import Any

import numpy as np

from kernelswarm import simulate

PROBLEMS: dict[str, Any] = {
    "iid": {"name": "sine_regression", "noise": 0.3},
    "patches": {"name": "sine_regression", "noise": 0.3, "split": "patches"},
    "drift": {"name": "drifting"},
}
WAYS = (
    ("newton", "isolated", "auto"),
    ("newton", "consensus", "auto"),
    ("newton, forgetting .98", "consensus", "auto"),
    ("rls", "consensus", "auto"),
    ("krls", "consensus", "auto"),
    ("random_features", "diffusion_rls", "auto"),
    ("random_features", "drfgp", "auto"),
    ("polk", "isolated", "auto"),
    ("polk", "consensus", "auto"),
    ("newton", "consensus", "conformal"),
)
COLUMNS = ("coverage", "global_coverage", "progressive_coverage", "width", "log_density", "error")


def measured(stream: Any, learner: Any, protocol: str, bands: str, seeds: int, rounds: int) -> tuple[Any, Any]:
    found = []
    for seed in range(seeds):
        table = simulate(
            topology={"name": "ring", "nodes": 8},
            stream=stream,
            learner=learner,
            protocol=protocol,
            rounds=rounds,
            seed=seed,
            evaluate_every=rounds // 10,
            evaluation={"level": 0.9, "bands": bands, "global_samples": 400, "local_samples": 400},
        ).network
        half = len(table["round"]) // 2
        ends = [float(np.mean(table[name][half:] if name == "coverage" else table[name][-1:])) for name in COLUMNS]
        found.append(ends)
    return np.mean(found, axis=0), np.std(found, axis=0)


def line(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1500)
    asked = parser.parse_args()
    line("data", "learner", "protocol", "bands", "own inputs", "all inputs", "before each step", "width", "log density")
    line(*["---"] * 4, *["---:"] * 5)
    for problem, stream in PROBLEMS.items():
        for name, protocol, bands in WAYS:
            learner = {"name": "newton", "forgetting": 0.98} if "forgetting" in name else name
            mean, spread = measured(stream, learner, protocol, bands, asked.seeds, asked.rounds)
            kind = "conformal" if np.isnan(mean[4]) else "variance"
            own = f"{mean[0]:.3f} ± {spread[0]:.3f}"
            rest = [f"{value:.3f}" if np.isfinite(value) else "" for value in mean[1:3]]
            line(problem, name, protocol, kind, own, *rest, f"{mean[3]:.2f}", f"{mean[4]:.2f}".replace("nan", ""))
    print()
    line("budget of newton, isolated, iid", "own inputs", "width", "log density", "error")
    line("---", *["---:"] * 4)
    for share in (0.001, 0.02, 0.1, 0.3):
        learner = {"name": "newton", "budget": {"per_sample": share}}
        mean, _ = measured(PROBLEMS["iid"], learner, "isolated", "auto", asked.seeds, asked.rounds)
        line(f"{share:g}", f"{mean[0]:.3f}", f"{mean[3]:.2f}", f"{mean[4]:.2f}", f"{mean[5]:.4f}")


if __name__ == "__main__":
    main()
