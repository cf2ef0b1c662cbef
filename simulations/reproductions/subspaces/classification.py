"""Online classification of Adult: features on a budget beside other learners (OKFEB figure 9a)."""

from __future__ import annotations

import math

import numpy as np

from kernelswarm.simulations.reproductions.contract import Request
from kernelswarm.simulations.reproductions.data_sets import ADULT_FILE, adult
from kernelswarm.simulations.reproductions.subspaces.progressive import Method, TunedCurve, best_learning_curve, timed

NAME = "Adult"
RANK, BUDGET, WIDTH, COST = 50, 60, math.sqrt(0.5 * 20.0), 10.0
"""Of table II: B = 1.2 r, gamma = 2 s^2 = 20, and C, the weight of the mean hinge loss beside half of ||w||^2."""

_FEATURES = {"loss": "hinge", "rank": RANK, "budget_size": BUDGET, "censoring_from": "budget"}
_PUBLISHED = {**_FEATURES, "follow": False, "coordinates": "points"}
_PEGASOS = {"regularization": 1.0 / COST, "step_size": {"name": "diminishing", "initial": 0.5 * COST, "offset": 2.0}}
_HINGE = {"loss": "hinge", "budget_size": BUDGET}
_MISTAKES = {**_HINGE, "insensitivity": 0.0}

METHODS = (
    Method("OK-FEB", "okfeb", {**_PUBLISHED, **_PEGASOS}, step="Pegasos"),
    Method("OK-FEB, constant step", "okfeb", _PUBLISHED),
    Method("OK-FEB, weights follow", "okfeb", _FEATURES),
    Method("POLK", "polk", {"loss": "hinge", "budget": {"target_order": BUDGET, "alpha": 0.1}}),
    Method("Nystroem", "nystroem", {"loss": "hinge", "landmarks": BUDGET}),
    Method("random features", "random_features", {"loss": "hinge", "features": BUDGET}),
    Method("BSGD, removal", "bsgd", _HINGE),
    Method("BSGD, merging", "bsgd", {**_HINGE, "maintenance": "merging"}),
    Method("dual space", "dual_sgd", {**_HINGE, "features": BUDGET}),
    Method("BOGD", "bogd", {**_HINGE, "weight_bound": 1.0}),
    Method("BPA", "bpa", {**_MISTAKES, "aggressiveness": 1.0}),
    Method("Forgetron", "forgetron", _MISTAKES),
    Method("Projectron", "projectron", _MISTAKES),
    Method("perceptron", "perceptron", {"loss": "hinge", "insensitivity": 0.0}, budgeted=False),
    Method("NORMA", "norma", _HINGE),
    Method("OGD", "ogd", {"loss": "hinge"}, budgeted=False),
)

NOTE = (
    "Adult has the rank, the budget and the kernel of table II, inputs 0 and 1 as they are, and its rows in a random "
    "order. OK-FEB's weights follow Pegasos, steps of 1 / (lambda (t + 2)) with lambda = 1 / C, and in the row with a "
    "constant step the best of those that all other learners have. Its features are the published ones, and samples "
    "are left out once the budget is full. The dual space has as many random features as points."
)


def measured(request: Request, tuning: int) -> dict[str, TunedCurve]:
    """Learn the rows of Adult with each learner; empty where the folder of the data has none."""
    if request.data is None or not (request.data / ADULT_FILE).is_file():
        return {}
    points, targets = adult(request.data / ADULT_FILE)
    order = np.random.default_rng((request.seed, 0)).permutation(len(points))[: 1500 if request.quick else len(points)]
    points, targets = points[order], targets[order]
    found = {}
    for number, method in enumerate(METHODS):
        request.tell(f"{NAME}, {method.label}", number / len(METHODS))
        found[method.label] = (
            timed(method, points, targets, math.nan, WIDTH)
            if method.step
            else best_learning_curve(method, points, targets, tuning, [WIDTH])
        )
    return found
