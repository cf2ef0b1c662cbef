"""Deviations of `KernelRegressor` where the noise varies with the input, and where it does not.

    python benchmarks/varying_noise.py [--splits 5]

With constant noise and with "auto": the share of held-out targets within 1.96 deviations, overall and in the fifth of
the rows, by their prediction, that is farthest from .95; the mean width of these bands as a share of the deviation of
y; and the mean logarithm of the density at the held-out targets. Inputs are standardised, 30% are held out.
The last column counts the splits in which "auto" let the noise vary.

    python benchmarks/varying_noise.py --networks

The same of the nodes of a ring under consensus, level .9: coverage of rows held out from each node, the fifth by
prediction that is farthest from .9, width, log density; nodes whose noise varies; seconds of the run. Means over seeds.
"""

import argparse
import gzip
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from kernelswarm import KernelRegressor, simulate
from kernelswarm.arrays import Array


def sets(data: str) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name, inputs and targets of each set."""
    draw = np.random.default_rng(0)
    with gzip.open(f"{data}/cal_housing.data.gz") as file:
        rows = np.loadtxt(file, delimiter=",", skiprows=1)
    rows = rows[draw.permutation(len(rows))[:6000]]
    yield "housing, 6,000 rows", rows[:, :-1], rows[:, -1]
    yield "its logarithm", rows[:, :-1], np.log(rows[:, -1])
    lidar = np.genfromtxt(f"{data}/lidar.csv", delimiter=",", skip_header=1)
    yield "lidar", lidar[:, :1], lidar[:, 1]
    x = draw.uniform(-2.0, 2.0, (3000, 1))
    noise = np.where(x[:, 0] > 0.0, 0.5, 0.05) * draw.normal(size=3000)
    yield "a step in the noise", x, np.sin(2.0 * x[:, 0]) + noise
    x = draw.uniform(size=(3000, 5))
    smooth = np.sin(5.0 * x[:, 0]) + x[:, 1]
    yield "noise by another input", x, smooth + np.exp(2.0 * x[:, 2] - 2.0) * draw.normal(size=3000)
    yield "constant noise, 3,000 rows", x, smooth + 0.3 * draw.normal(size=3000)
    yield "constant noise, 200 rows", x[:200], smooth[:200] + 0.3 * draw.normal(size=200)
    yield "Friedman, 2,000 rows", *make_friedman1(2000, noise=1.0, random_state=0)
    yield "diabetes", *load_diabetes(return_X_y=True)


def judge(targets: Array, predicted: Array, deviations: Array) -> tuple[float, float, float, float]:
    """Return coverage, that of the fifth farthest from .95, width and log density."""
    errors = np.abs(targets - predicted) / deviations
    inside = errors < 1.96
    fifths = [inside[part].mean() for part in np.array_split(np.argsort(predicted), 5)]
    worst = fifths[int(np.argmax(np.abs(np.array(fifths) - 0.95)))]
    density = np.mean(-0.5 * np.log(2.0 * np.pi * deviations**2) - 0.5 * errors**2)
    return float(inside.mean()), float(worst), float(np.mean(3.92 * deviations)), float(density)


def networks(data: str, seeds: int) -> None:
    """Print the table of nodes of networks."""
    judged = "coverage | worst fifth | width | log density | vary | seconds"
    print(f"| data | learner | {judged} | auto: {judged} |\n|---|---" + 12 * "|---:" + "|")
    chosen = {"housing, 6,000 rows", "a step in the noise", "noise by another input", "constant noise, 3,000 rows"}
    for name, x, y in sets(data):
        for learner in ("newton", "rls", "krls") if name in chosen else ():
            cells: list[list[float]] = []
            for noise in ("constant", "auto"):
                found = []
                for seed in range(seeds):
                    result = simulate(
                        data=(x, (y - y.mean()) / y.std()),
                        topology={"name": "ring", "nodes": 4},
                        learner=learner,
                        protocol="consensus",
                        rounds=500,
                        evaluate_every=50,
                        evaluation={"level": 0.9, "noise": noise},
                        seed=seed,
                    )
                    fifths = [part["coverage"] for part in result.summary["coverage"] if part["by"] == "prediction"]
                    figures = [float(result.network[key][-1]) for key in ("coverage", "width", "log_density")]
                    figures.insert(1, max(fifths, key=lambda share: abs(share - 0.9)))
                    varying = sum(key.startswith("posterior_levels") for key in result.models)
                    found.append([*figures, varying, result.final["seconds"]])
                cells.append(np.mean(found, axis=0).tolist())
            print(f"| {name} | {learner} | " + " | ".join(f"{cell:.3f}" for each in cells for cell in each), flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--data", default="../shared/data", help="the folder of cal_housing.data.gz and lidar.csv")
    parser.add_argument("--networks", action="store_true", help="nodes of networks")
    asked = parser.parse_args()
    if asked.networks:
        networks(asked.data, asked.splits)
        return
    judged = "coverage | worst fifth | width | log density"
    print(f"| data | {judged} | auto: {judged} | varies |")
    print("|---" + 9 * "|---:" + "|")
    for name, x, y in sets(asked.data):
        found: dict[str, list[tuple[float, float, float, float]]] = {"constant": [], "auto": []}
        varied = 0
        for seed in range(asked.splits):
            train, test, known, wanted = train_test_split(x, (y - y.mean()) / y.std(), test_size=0.3, random_state=seed)
            scaler = StandardScaler().fit(train)
            for noise, cells in found.items():
                model = KernelRegressor(noise=noise, random_state=0).fit(scaler.transform(train), known)
                cells.append(judge(wanted, *model.predict(scaler.transform(test), return_std=True)))
                varied += model.model_.posterior.levels is not None
        cells = " | ".join(f"{number:.3f}" for each in found.values() for number in np.mean(each, axis=0))
        print(f"| {name} | {cells} | {varied} |", flush=True)


if __name__ == "__main__":
    main()
