"""What do learned tolerances cost where there is nothing to disagree about? One target, ten nodes, own regions.

Ten nodes learn one smooth function of eight inputs from 200 samples each. With spread 0 all draw their inputs from one
distribution; otherwise each node's inputs lie around a place of its own, N(0, spread^2) in every input. The script
compares isolated learning, consensus and proximity with adaptive tolerances on data written as an npz file, whose rows
name their node. It prints the mean-square error on held-out samples, in units of the targets' variance: in a node's own
region, mean and standard deviation over draws of data and network, and pooled over all regions.

    python examples/common_target.py                       everything: about ten minutes
    python examples/common_target.py --draws 2 --epochs 1  a first look
"""

import argparse
from pathlib import Path

import numpy as np

from kernelswarm import Experiment, simulate

NODES, INPUTS, ROWS = 10, 8, 250
SPREADS = [0.0, 1.0, 2.0]
RULES: list[dict[str, object]] = [
    {"label": "isolated", "name": "isolated", "step": "implicit"},
    *(
        {"label": f"consensus, c = {c:g}", "name": "consensus", "penalty": c, "form": "symmetric", "step": "implicit"}
        for c in (0.2, 1.0)
    ),
    *(
        {
            "label": f"adaptive, scale {scale:g}" + (", one-sided" if form == "one_sided" else ""),
            "name": "proximity",
            "gamma": {"name": "adaptive", "scale": scale},
            "form": form,
            "step": "implicit",
            "dual_step": 1.0,
        }
        for form in ("symmetric", "one_sided")
        for scale in (1.0, 2.0)
    ),
]


def write_data(path: Path, spread: float, draw: int) -> None:
    """Write the samples of one draw: x (N, 8), y (N,) and the node of each row."""
    generator = np.random.default_rng([draw, 8])
    directions = generator.standard_normal((INPUTS, 3)) / np.sqrt(INPUTS)
    phases = generator.uniform(0.0, 2.0 * np.pi, 3)
    places = spread * generator.standard_normal((NODES, INPUTS))
    node = np.repeat(np.arange(NODES), ROWS)
    x = places[node] + generator.standard_normal((len(node), INPUTS))
    y = np.sin(1.5 * x @ directions + phases).sum(axis=1) + 0.5 * x @ directions[:, 0]
    np.savez(path, x=x, y=y + 0.1 * generator.standard_normal(len(node)), node=node)


def experiment(path: Path, draw: int, epochs: int, batch: int) -> Experiment:
    """Ten nodes with 200 training samples each."""
    rounds = epochs * ROWS * 4 // 5 // batch
    return Experiment.from_dict(
        {
            "seed": draw,
            "rounds": rounds,
            "evaluate_every": rounds,
            "topology": {"name": "random_geometric", "nodes": NODES, "radius": 0.5},
            "stream": {
                "name": "file",
                "path": str(path.resolve()),
                "epochs": epochs,
            },
            "learner": {
                "name": "polk",
                "loss": "squared",
                "step_size": 0.5 * batch,
                "batch_size": batch,
                "kernel": {"name": "gaussian", "bandwidth": 2.0},
                "budget": {"epsilon": 0.05},
            },
            "protocol": {"name": "isolated", "step": "implicit"},
            "evaluation": {"rkhs_distance": False},
        }
    )


def measure(folder: Path, spread: float, epochs: int, draws: int, batch: int) -> dict[str, list[list[float]]]:
    """Return, for each rule and draw, the error in the node's own region and the pooled one."""
    found: dict[str, list[list[float]]] = {}
    for draw in range(draws):
        path = folder / f"spread_{spread:g}_draw_{draw}.npz"
        write_data(path, spread, draw)
        common = experiment(path, draw, epochs, batch)
        for rule in RULES:
            protocol = {key: value for key, value in rule.items() if key != "label"}
            network = simulate(common.with_changes({"protocol": protocol})).network
            found.setdefault(str(rule["label"]), []).append([network["error"][-1], network["global_error"][-1]])
    return found


def main() -> None:
    """Run all conditions; print and write the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=6, help="draws of data and network (6)")
    options.add_argument("--epochs", type=int, nargs="+", default=[1, 10], help="passes over the data (1 10)")
    options.add_argument("--batch", type=int, default=1, help="samples of a mini-batch (1)")
    options.add_argument("--out", type=Path, default=Path("runs/common_target"), help="folder of data and table")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    lines = [
        "| spread | epochs | " + " | ".join(str(rule["label"]) for rule in RULES) + " |",
        "|---" * (2 + len(RULES)) + "|",
    ]
    for spread in SPREADS:
        for epochs in given.epochs:
            found = measure(given.out, spread, epochs, given.draws, given.batch)
            cells = [
                f"{np.mean(own):.3f} ± {np.std(own):.3f}, {np.mean(pooled):.2f}"
                for own, pooled in (np.transpose(found[str(rule["label"])]) for rule in RULES)
            ]
            lines.append(f"| {spread:g} | {epochs} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    text = "\n".join(lines)
    (given.out / "table.md").write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}\n\n{given.out / 'table.md'}")


if __name__ == "__main__":
    main()
