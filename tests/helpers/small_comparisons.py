"""Small comparisons, stopped where a test wants it, and what is compared of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.comparison.compare import compare
from kernelswarm.simulations.comparison.comparison_runs import ComparisonProgress
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.outcome import Comparison
from kernelswarm.simulations.records.result import Result

TABLE: dict[str, Any] = {
    "seed": 3,
    "rounds": 40,
    "evaluate_every": 10,
    "topology": {"name": "erdos_renyi", "nodes": 5, "edge_probability": 0.7},
    "stream": {"name": "sine_regression"},
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}},
    "protocol": {"name": "consensus", "penalty": 0.05},
    "evaluation": {"local_samples": 20, "global_samples": 40},
}
PROTOCOLS = {"protocol.name": ["isolated", "consensus"]}


class Killed(BaseException):
    """What stops a comparison here, as a dying process does: nothing is notified."""


def experiment(**changes: Any) -> Experiment:
    return Experiment.from_dict({**TABLE, **changes})


def killed(out: Path, tried: Experiment, vary: dict[str, Any], seeds: int, share: float) -> None:
    """Compare until so much of all rounds is done, in this process."""

    def observe(progress: ComparisonProgress) -> None:
        if progress.share >= share:
            raise Killed

    with pytest.raises(Killed):
        compare(tried, vary, seeds, jobs=1, out=out, observe=observe)


def figures(found: Comparison) -> list[Any]:
    """Everything that a table or a figure is made of but the seconds."""
    left = [
        {
            "cell": found.cells[run.cell],
            "seed": run.seed,
            "final": {name: repr(value) for name, value in run.final.items() if name != "seconds"},
            "network": {name: column.tolist() for name, column in run.network.items() if name != "seconds"},
            "outcome": (run.failure, run.digest, dict(run.verdict), run.form, run.step),
        }
        for run in found.runs
    ]
    return json.loads(json.dumps(left, default=str))


def counts(found: Comparison) -> dict[str, int]:
    return dict(found.origins)


def finite(result: Result) -> set[tuple[str, float, int]]:
    """What trackers are to receive of a run: names, values and rounds of all figures of the network."""
    rounds = result.network["round"].tolist()
    return {
        (name, value, round)
        for name, column in result.network.items()
        for round, value in zip(rounds, column.tolist(), strict=True)
        if name != "round" and np.isfinite(value)
    }
