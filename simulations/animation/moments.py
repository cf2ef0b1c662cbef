"""The measurements of a run at each moment of its animation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import number_of
from kernelswarm.simulations.figures.network import Edge, node_risks, over_pairs
from kernelswarm.simulations.records.series import rows_at

if TYPE_CHECKING:
    from kernelswarm.simulations.records.result import Result


@dataclass(frozen=True)
class Moment:
    """One evaluation.

    Parameters
    ----------
    round : int
        After which round it was.
    samples : float
        Samples that a node had seen, on average.
    risks : dict of int to float
        The risk of each node on its own data.
    differences, duals : dict of (int, int) to float
        Of each edge, over both directions: the mean-square difference of its ends, and the dual variable.
    """

    round: int
    samples: float
    risks: dict[int, float]
    differences: dict[Edge, float]
    duals: dict[Edge, float]


def moments(result: Result, most: int) -> list[Moment]:
    """Return the evaluations of a run, or of more than ``most`` an even selection with the first and the last.

    Raises
    ------
    InputError
        The run has measured nothing, or only once.
    """
    rounds = np.unique(result.network.get("round", np.empty(0, dtype=np.int64)))
    if len(rounds) < 2:
        raise InputError(
            f"the run was measured {number_of(len(rounds), 'time')}, and an animation shows at least two: choose a "
            "smaller evaluate_every"
        )
    places = np.unique(np.linspace(0, len(rounds) - 1, min(most, len(rounds))).round().astype(int))
    found = []
    for round in rounds[places].tolist():
        edges = rows_at(result.edges, round)
        samples = rows_at(result.network, round)["samples"]
        found.append(
            Moment(
                int(round),
                float(samples[0]),
                node_risks(rows_at(result.nodes, round)),
                over_pairs(edges, "constraint"),
                over_pairs(edges, "dual"),
            )
        )
    return found
