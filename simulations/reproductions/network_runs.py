"""Runs of the networks of reproductions: an experiment by its tables, and the columns of its record."""

from __future__ import annotations

from typing import Any

from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import simulate


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
