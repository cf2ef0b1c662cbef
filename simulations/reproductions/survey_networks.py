"""Small networks of POLK learners, and the final figures of a run on one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.reproductions.contract import Figure, Request, Table
from kernelswarm.simulations.reproductions.sheets import Sheet
from kernelswarm.simulations.running.simulation import simulate

# Runs of the networks of reproductions: an experiment by its tables, and the columns of its record.


def ended(rounds: int, evaluate_every: int | None = None, evaluation: Any = None, **tables: Any) -> Result | None:
    """Run the experiment of these tables, evaluated at its end when nothing else is said; None where it was stopped.

    Raises
    ------
    InputError
        A table is refused, or the run before its start.
    """
    described = {
        "rounds": rounds,
        "evaluate_every": evaluate_every or rounds,
        "evaluation": {"rkhs_distance": False, **(evaluation or {})},
        **tables,
    }
    try:
        return simulate(Experiment.from_dict(described))
    except SimulationError:
        return None


GRAPHS = ("ring", "grid", "erdos_renyi", "complete")
SIZES = (5, 10, 20, 50)
_ROWS = {5: 1, 10: 2, 20: 4, 50: 5}
"""Of the grids; five nodes can only be a path."""

SINE: dict[str, Any] = {"name": "sine_regression", "noise": 0.5}
"""A target that all nodes share."""

FIELD: dict[str, Any] = {"name": "sensor_field", "noise": 1.5, "length": 2.0}
"""Targets that differ from node to node, alike nearby."""


COLUMNS = (
    "error",
    "risk",
    "progressive_risk",
    "disagreement",
    "model_order",
    "scalars_sent",
    "violation",
    "regret",
    "dynamic_regret",
)


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


_NOTHING = Outcome._make([*[math.nan] * len(COLUMNS), "", ()])


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
    topology: Table,
    stream: Table,
    protocol: Table | str,
    rounds: int,
    seed: int = 0,
    regret: Sequence[str] = (),
    **learner: Any,
) -> Outcome:
    """Run a network of POLK learners; a run that is refused or diverges has no figures, and says which it was.

    Of "regret" and "dynamic_regret" those are measured that ``regret`` names.
    """
    try:
        result = ended(
            rounds,
            evaluation={"local_samples": 200, "global_samples": 200, **dict.fromkeys(regret, True)},
            seed=seed,
            topology=dict(topology),
            stream=dict(stream),
            learner={"name": "polk", "kernel": {"bandwidth": 0.1}, "step_size": 0.1, **learner},
            protocol=protocol if isinstance(protocol, str) else dict(protocol),
        )
    except InputError as refusal:
        if "is unstable at node" not in str(refusal):
            raise
        return _NOTHING._replace(failure="refused")
    if result is None:
        return _NOTHING._replace(failure="diverged")
    return _of([result.final.get(name) for name in COLUMNS])


def _of(figures: Sequence[float | None]) -> Outcome:
    """Return the outcome of a value for each of COLUMNS."""
    values = [math.nan if value is None else value for value in figures]
    return Outcome._make([*values, "", ()])


def mean(outcomes: Sequence[Outcome]) -> Outcome:
    """Average over the seeds of a setting; one that failed makes all of them fail."""
    failure = next((entry.failure for entry in outcomes if entry.failure), "")
    if failure:
        return _NOTHING._replace(failure=failure)
    means = np.mean(np.array([entry[: len(COLUMNS)] for entry in outcomes], dtype=np.float64), axis=0)
    return _of(means.tolist())._replace(errors=tuple(entry.error for entry in outcomes))


Setting = TypeVar("Setting", bound=tuple[Any, ...])
"""A row of settings; the first two are the number of nodes and the graph."""


def measured(
    settings: Iterable[Setting],
    rule: Callable[[Setting], Table | str],
    stream: Table,
    rounds: int,
    seeds: int,
    request: Request,
) -> dict[Setting, Outcome]:
    """Run every setting on its graph, and average over so many seeds."""
    return {
        setting: mean(
            [
                outcome(graph(setting[1], setting[0]), stream, rule(setting), rounds, request.seed + draw)
                for draw in range(seeds)
            ]
        )
        for setting in request.each(list(settings), lambda setting: f"{setting[0]} nodes, {setting[1]}")
    }


def arrays(found: Mapping[Setting, Outcome], *words: Sequence[str]) -> dict[str, Array]:
    """Return the settings as numbers with their final figures, a row each; a word is its place among its like."""
    codes: dict[Any, Any] = {"": -1} | {word: place for like in words for place, word in enumerate(like)}
    outcomes = np.array([entry[:7] for entry in found.values()])
    return {"settings": np.array([[codes.get(key, key) for key in row] for row in found]), "outcomes": outcomes}


def hyphened(word: str) -> str:
    """Write a name of the experiment file as a word."""
    return word.replace("_", "-")


def figure(said: Sheet, graphs: Sequence[str], shown: Table) -> Figure:
    """Draw the sheet's curves of each graph's error above those of its disagreement."""
    panels = {
        name: {"graph": hyphened(name), "error": "" if place else "error", "apart": "" if place else "disagreement"}
        for place, name in enumerate(graphs)
    }
    return said.given(shown, graphs=panels).figure("networks", "pictures", columns=len(graphs))
