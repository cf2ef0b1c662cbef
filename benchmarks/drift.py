"""What forgetting errs on targets that move, and costs on those that stay: constants, "auto", random walks, and POLK.

    python benchmarks/drift.py [--seeds 3] [--first 10] [--learner newton] [--protocols isolated consensus summaries]

A ring of 8 nodes that draw one sample a round. Prints Markdown: the mean squared error beside the noise at the nodes'
own inputs, with the largest and the least of the seeds where it is "auto". Where targets move it is the mean over the
last four fifths of the run, else that of the end.
"""

import argparse
from typing import Any

import numpy as np

from kernelswarm import simulate

SINE = {"name": "sine_regression", "noise": 0.3}
PROBLEMS: dict[str, tuple[dict[str, Any], int]] = {
    "stays, noise .3": (SINE, 1000),
    "stays, noise .1": ({**SINE, "noise": 0.1}, 1000),
    "patches, noise .3": ({**SINE, "split": "patches"}, 600),
    "sensor field, noise 1.5": ({"name": "sensor_field", "noise": 1.5}, 600),
    "drifting, period 8,000": ({"name": "drifting", "period": 8000.0}, 1000),
    "2,000": ({"name": "drifting", "period": 2000.0}, 1000),
    "2,000, patches": ({"name": "drifting", "period": 2000.0, "split": "patches"}, 1000),
    "500": ({"name": "drifting", "period": 500.0}, 1000),
}
FORGETTING = (1.0, 0.98, 0.95, "auto")
WALKING = (1e-4, 1e-3, 1e-2, 1e-1)
"""Process noises, of rls."""


def errors(stream: dict[str, Any], rounds: int, learner: Any, protocol: str, seeds: range) -> list[float]:
    """Return the error of each seed."""
    found = []
    for seed in seeds:
        table = simulate(
            topology={"name": "ring", "nodes": 8},
            stream=stream,
            learner=learner,
            protocol=protocol,
            rounds=rounds,
            seed=seed,
            evaluate_every=rounds // 20,
        ).network
        late = np.asarray(table["error"])[4:] if stream["name"] == "drifting" else np.asarray(table["error"])[-1:]
        found.append(float(np.mean(late)))
    return found


def number(error: float) -> str:
    return f"{error:.4f}".lstrip("0")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=10)
    parser.add_argument("--learner", choices=["newton", "rls", "krls"], default="newton")
    parser.add_argument("--protocols", nargs="+", default=["isolated", "consensus"])
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.seeds)
    memories = [("forgetting", share) for share in FORGETTING]
    memories += [("process_noise", noise) for noise in WALKING] if asked.learner == "rls" else []
    print("| target | protocol | polk |", " | ".join(f"{key} {value}" for key, value in memories), "|")
    print("|---|---|", "---:|" * (1 + len(memories)), sep="")
    for name, (stream, rounds) in PROBLEMS.items():
        for protocol in asked.protocols:
            cells = [number(float(np.mean(errors(stream, rounds, "polk", protocol, seeds))))]
            for key, value in memories:
                if protocol == "summaries" and (value == "auto" or key == "process_noise"):  # refused
                    cells.append("")
                    continue
                each = errors(stream, rounds, {"name": asked.learner, key: value}, protocol, seeds)
                range_of = f" ({number(min(each))} to {number(max(each))})" if value == "auto" else ""
                cells.append(number(float(np.mean(each))) + range_of)
            print(f"| {name} | {protocol} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
