"""Row by row beside river: error before learning, in random order and in order of time.

    pip install river && python benchmarks/beside_river.py [--rows 3000] [--data ../shared/data]

Each row is predicted and then learned from. Errors are mean square errors from row 101 on, over the variance of these
targets; behind the slash are processor seconds. The air's rows are hourly and keep their order of time, or are
shuffled; its targets are measured from the cheap sensors' columns. Houses and Friedman's function have no time.
"""

import argparse
import gzip
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from river import ensemble, forest, linear_model, neighbors, preprocessing, rules, stats, tree
from scipy.io import loadmat
from sklearn.datasets import make_friedman1

from kernelswarm import IncrementalRegressor, KernelRegressor, PolkRegressor
from kernelswarm.arrays import Array

SENSORS = [0, 2, 5, 7, 9, 10, 11, 12]
TARGETS = {"carbon monoxide": 1, "nitrogen oxides": 6, "nitrogen dioxide": 8, "ozone sensor": -1}


class Running:
    """The mean of all targets so far, or the last one: what needs no inputs."""

    def __init__(self, statistic: Any) -> None:
        self.statistic = statistic

    def predict_one(self, x: object) -> float:
        """Return the present number."""
        return float(self.statistic.get() or 0.0)

    def learn_one(self, x: object, y: float) -> None:
        """Take a target."""
        self.statistic.update(y)


class Last:
    """The last target, as a statistic."""

    value = 0.0

    def get(self) -> float:
        """Return it."""
        return self.value

    def update(self, y: float) -> None:
        """Take a target."""
        self.value = y


def scaled(model: Any) -> Any:
    """Return a model of standardised inputs and targets: most of river's want them."""
    return preprocessing.StandardScaler() | preprocessing.TargetStandardScaler(model)


MODELS: dict[str, Callable[[], Any]] = {
    "mean so far": lambda: Running(stats.Mean()),
    "last value": lambda: Running(Last()),
    "Bayesian ridge": lambda: scaled(linear_model.BayesianLinearRegression()),
    "neighbours": lambda: scaled(neighbors.KNNRegressor()),
    "Hoeffding tree": lambda: scaled(tree.HoeffdingAdaptiveTreeRegressor(seed=0)),
    "rules": lambda: scaled(rules.AMRules()),
    "bagged trees": lambda: scaled(ensemble.BaggingRegressor(tree.HoeffdingAdaptiveTreeRegressor(seed=0), seed=0)),
    "random forest": lambda: scaled(forest.ARFRegressor(seed=0)),
    "`PolkRegressor`": lambda: IncrementalRegressor(PolkRegressor()),
    "`KernelRegressor`": lambda: IncrementalRegressor(KernelRegressor()),
}


def sets(data: str, rows: int) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name, inputs and targets of each set."""
    draw = np.random.default_rng(0)
    found = loadmat(f"{data}/air_quality.mat")
    table = np.column_stack([found["X"], found["Y"]])
    for name, place in TARGETS.items():
        whole = table[(table[:, place] > -200) & (table[:, SENSORS] > -200).all(axis=1)][:rows]
        yield f"{name}, in time", whole[:, SENSORS], whole[:, place]
        mixed = draw.permutation(whole)
        yield f"{name}, shuffled", mixed[:, SENSORS], mixed[:, place]
    with gzip.open(f"{data}/cal_housing.data.gz") as file:
        houses = draw.permutation(np.loadtxt(file, delimiter=",", skiprows=1))[:rows]
    yield "houses", houses[:, :-1], houses[:, -1]
    yield "Friedman", *make_friedman1(rows, noise=1.0, random_state=0)


def judge(model: Any, x: Array, y: Array) -> tuple[float, float]:
    """Return the error before learning, and processor seconds."""
    samples = [(dict(enumerate(row)), float(wanted)) for row, wanted in zip(x.tolist(), y, strict=True)]
    begun, errors = time.process_time(), []
    for point, wanted in samples:
        errors.append(float(model.predict_one(point) or 0.0) - wanted)
        model.learn_one(point, wanted)
    return float(np.mean(np.square(errors[100:])) / y[100:].var()), time.process_time() - begun


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument(
        "--data", default="../shared/data", help="the folder of air_quality.mat and cal_housing.data.gz"
    )
    asked = parser.parse_args()
    print("| data | " + " | ".join(MODELS) + " |\n|---" + len(MODELS) * "|---:" + "|")
    for name, x, y in sets(asked.data, asked.rows):
        judge(MODELS["`KernelRegressor`"](), x[:200], y[:200])  # compiled before it is timed
        judge(MODELS["`PolkRegressor`"](), x[:200], y[:200])
        cells = (judge(make(), x, y) for make in MODELS.values())
        print(f"| {name} | " + " | ".join(f"{error:.3f} / {spent:.1f}" for error, spent in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
