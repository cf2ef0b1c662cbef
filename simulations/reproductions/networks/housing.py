"""California housing in a network whose nodes each know the houses around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.reproductions.data_sets import HOUSING_FILE, housing
from kernelswarm.simulations.reproductions.networks import methods
from kernelswarm.simulations.reproductions.networks.methods import Task

Array = npt.NDArray[np.float64]

ROUNDS = 400
"""A node has about 413 rows to learn from."""

TEST_FRACTION = 0.2

BANDWIDTH = 2.0
"""Of inputs with standard deviation 1, of which there are eight."""

WITH_HOUSING = (
    "Housing: longitude and latitude are cut into as many boxes with equally many houses as there are nodes. The boxes "
    "are given out as the nodes lie, so that neighbours know areas side by side. A fifth of each node's rows is kept "
    f"for testing, of the others it learns from {ROUNDS}, one a round. Errors are those on the test rows of all areas, "
    "or on a node's own. They are shares of the targets' variance, for no target is known without noise. Inputs and "
    f"targets are standardised, the kernel's bandwidth is {BANDWIDTH:g}. Methods are tuned on one half of the rows, "
    "drawn once and for all, and measured on the other. Each error has the settings that are best by it. Forgetting is "
    "left out, since no target moves. Networks with krls, and newton that learns from all samples at every node, keep "
    "most of the points here. They take half a minute a run and more, and have no row."
)
WITHOUT_HOUSING = "California housing by location is left out: its data is not at hand."


def housing_by_location(data: Path) -> Task:
    """Make the task: the value of houses, of which every node sees those of its own area.

    Parameters
    ----------
    data : Path
        The file of :func:`~kernelswarm.simulations.reproductions.data_sets.housing`, or a folder that holds it.

    Raises
    ------
    InputError
        The file is not there, or is not what was published.
    """
    points, targets = housing(data / HOUSING_FILE if data.is_dir() else data)
    order = np.random.default_rng(0).permutation(len(points))
    halves = [(points[rows], targets[rows]) for rows in np.array_split(order, 2)]
    measured, validation = (_task(*half) for half in halves)
    return measured._replace(validation=validation)


def _task(points: Array, targets: Array) -> Task:
    stream = {
        "task": "regression",
        "split": "patches",
        "split_columns": [0, 1],
        "standardize": True,
        "standardize_targets": True,
        "test_fraction": TEST_FRACTION,
    }
    return Task(
        stream,
        {"kernel": {"name": "gaussian", "bandwidth": BANDWIDTH}},
        {", all areas": "global_error", ", own area": "error"},
        data=(points, targets),
        large=True,
        budgets=True,
        rounds=min(ROUNDS, int((1.0 - TEST_FRACTION) * (len(points) // methods.GRAPH["nodes"])) - 1),
    )
