"""Small networks of POLK learners, and what a run on one comes to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate

GRAPHS = ("ring", "grid", "erdos_renyi", "complete")
SIZES = (5, 10, 20, 50)
_ROWS = {5: 1, 10: 2, 20: 4, 50: 5}
"""Of the grids; five nodes can only be a path."""

SINE: dict[str, Any] = {"name": "sine_regression", "noise": 0.5}
"""A target that all nodes share."""

FIELD: dict[str, Any] = {"name": "sensor_field", "noise": 1.5, "length": 2.0}
"""Targets that differ from node to node, alike nearby."""


class Outcome(NamedTuple):
    """What a run came to, means over its nodes; NaN with the reason in ``failure`` where it came to nothing."""

    error: float
    risk: float
    progressive: float
    disagreement: float
    order: float
    scalars: float
    violation: float
    regret: float = math.nan
    dynamic_regret: float = math.nan
    failure: str = ""
    errors: tuple[float, ...] = ()
    """Of several runs, the errors by seed."""


_NOTHING = Outcome(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan)


def graph(name: str, nodes: int) -> dict[str, Any]:
    """Return the table of a topology.

    Erdos-Renyi graphs have an edge with probability 2 log(n) / n, twice what connects almost all of them.
    """
    if name == "grid":
        return {"name": name, "rows": _ROWS[nodes], "columns": nodes // _ROWS[nodes]}
    if name == "erdos_renyi":
        return {"name": name, "nodes": nodes, "edge_probability": min(1.0, 2.0 * math.log(nodes) / nodes)}
    return {"name": name, "nodes": nodes}


def outcome(
    topology: Mapping[str, Any],
    stream: Mapping[str, Any],
    protocol: Mapping[str, Any] | str,
    rounds: int,
    seed: int = 0,
    regret: Sequence[str] = (),
    **learner: Any,
) -> Outcome:
    """Run a network of POLK learners; a run that is refused or diverges has no figures, and says which it was.

    Of "regret" and "dynamic_regret" those are measured that ``regret`` names.
    """
    try:
        experiment = Experiment.from_dict(
            {
                "seed": seed,
                "rounds": rounds,
                "evaluate_every": rounds,
                "topology": dict(topology),
                "stream": dict(stream),
                "learner": {"name": "polk", "kernel": {"bandwidth": 0.1}, "step_size": 0.1, **learner},
                "protocol": protocol if isinstance(protocol, str) else dict(protocol),
                "evaluation": {
                    "local_samples": 200,
                    "global_samples": 200,
                    "rkhs_distance": False,
                    **dict.fromkeys(regret, True),
                },
            }
        )
        final = simulate(experiment).final
    except InputError as refusal:
        if "is unstable at node" not in str(refusal):
            raise
        return _NOTHING._replace(failure="refused")
    except SimulationError:
        return _NOTHING._replace(failure="diverged")

    def figure(name: str) -> float:
        value = final.get(name)
        return math.nan if value is None else value

    return Outcome(
        figure("error"),
        figure("risk"),
        figure("progressive_risk"),
        figure("disagreement"),
        figure("model_order"),
        figure("scalars_sent"),
        figure("violation"),
        figure("regret"),
        figure("dynamic_regret"),
    )


def mean(outcomes: Sequence[Outcome]) -> Outcome:
    """Average over the seeds of a setting; one that failed makes all of them fail."""
    failure = next((entry.failure for entry in outcomes if entry.failure), "")
    if failure:
        return _NOTHING._replace(failure=failure)
    errors = tuple(entry.error for entry in outcomes)
    return Outcome(*np.mean([entry[:9] for entry in outcomes], axis=0).tolist())._replace(errors=errors)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Fit log y = a + s log x by least squares and return s."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
