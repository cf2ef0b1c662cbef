"""Learners and what they are made of refuse numbers that make no sense, by the key, and name the rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernelswarm.agents.learners.adaraker import AdaRaker
from kernelswarm.agents.learners.bpa import Bpa
from kernelswarm.agents.learners.bsgd import Bsgd
from kernelswarm.agents.learners.colk import Colk
from kernelswarm.agents.learners.dual_sgd import DualSgd
from kernelswarm.agents.learners.krls import Krls
from kernelswarm.agents.learners.linear import Linear
from kernelswarm.agents.learners.multi_kernel import MultiKernel
from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.nystroem import Nystroem
from kernelswarm.agents.learners.ogd import Ogd
from kernelswarm.agents.learners.okfe import Okfeb
from kernelswarm.agents.learners.policy_evaluation import PolicyEvaluation
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.qklms import Qklms
from kernelswarm.agents.learners.raker import Raker
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.learners.rbf_network import RbfNetwork
from kernelswarm.agents.learners.rls import Rls
from kernelswarm.agents.learners.subspace import Tracking
from kernelswarm.agents.parts.budgets import Epsilon, TargetOrder
from kernelswarm.agents.parts.dispersions import CentralMoments, ConditionalValueAtRisk, Semivariance
from kernelswarm.agents.parts.kernels import Laplacian, Polynomial
from kernelswarm.agents.parts.losses import Absolute, Hinge, Huber, Logistic
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.agents.parts.schedules import Constant, Diminishing, Horizon, Settling
from kernelswarm.refused_key import RefusedKey

BEYOND: list[tuple[Any, dict[str, float]]] = [
    (Constant(0.3), {"value": 0.0}),
    (Diminishing(0.1, 9.0), {"offset": 0.0}),
    (Horizon(1.0, 9), {"horizon": 0}),
    (Settling(0.1, 2.0, 9.0), {"value": 0.0}),
    (Epsilon(0.1), {"epsilon": -0.1}),
    (TargetOrder(5), {"target_order": 0, "alpha": 0.0, "gain": 0.0}),
    (Semivariance(0.1), {"smoothing": 0.0}),
    (ConditionalValueAtRisk(0.5), {"level": 1.0}),
    (Polk(), {"batch_size": 0, "regularization": -1.0}),
    (Newton(), {"batch_size": 0, "ridge": 0.0, "forgetting": 0.0}),
    (Krls(), {"dependency": 1.0, "ridge": -0.1, "forgetting": 1.5}),
    (Rls(), {"ridge": 0.0, "forgetting": 0.0, "features": 0}),
    (Qklms(), {"quantization": -0.1}),
    (MultiKernel(), {"batch_size": 0, "rate": 0.0, "forgetting": 0.0}),
    (Raker(), {"batch_size": 0, "rate": 0.0, "features": 0, "seed": -1}),
    (AdaRaker(), {"intervals": 0, "shortest": 0, "ratio": 1, "rate": 0.0}),
    (Colk(), {"batch_size": 0, "dispersion_weight": -0.1, "tracking_rate": Constant(1.5)}),
    (PolicyEvaluation(), {"batch_size": 3, "tracking_rate": Constant(2.0)}),
    (RbfNetwork(), {"centers": 1, "batch_size": 5}),
    (Tracking(), {"rank": 0, "recency": 1.1}),
    (Bsgd(maintenance="merging"), {"budget_size": 1}),
    (Bpa(maintenance="nearest"), {"budget_size": 1}),
    (DualSgd(), {"leaving": 0, "features": 7}),
]
AUTO = r'^forgetting = "auto" compares likelihoods'
NO_FEATURES = r"^kernel = Polynomial\(.*has no random Fourier features"
NO_CURVATURE = r'^loss = .* has no curvature.*learner.name = "polk"$'
REFUSED: list[tuple[type, dict[str, Any], str]] = [
    *((kind, {"loss": Hinge()}, NO_CURVATURE) for kind in (Newton, Krls)),
    (Krls, {"loss": PoissonProcess()}, r'^loss = .* has no curvature.* or learner.name = "spppot"$'),
    (Krls, {"loss": Logistic(), "ridge": 0.0}, r"^loss = Logistic\(\) is not quadratic, .* ridge must be positive"),
    *((Krls, {"forgetting": word, "ridge": 0.0}, "^ridge = 0 leaves no function") for word in (0.99, "auto")),
    *((kind, {"forgetting": "auto", "loss": Huber(0.3)}, AUTO) for kind in (Newton, Krls, Rls)),
    (Newton, {"forgetting": "often"}, "^forgetting = 'often' must be"),
    (Rls, {"loss": Absolute()}, "^loss = .* has no curvature"),
    *(
        (Rls, {"process_noise": 0.1, "forgetting": word}, f"^forgetting = {word!r} beside process_noise = 0.1 forgets")
        for word in (0.99, "auto")
    ),
    *((kind, {"kernel": Polynomial()}, NO_FEATURES) for kind in (Rls, Raker, RandomFeatures, DualSgd)),
    *((kind, {"features": 7, "phases": "paired"}, "^features = 7 must be even") for kind in (Raker, RandomFeatures)),
    (MultiKernel, {"kernel": Polynomial()}, "no bandwidth"),
    *((MultiKernel, {"factors": factors}, "^factors") for factors in ((), (1.0, -1.0))),
    (Raker, {"factors": (1.0, -1.0)}, "^factors"),
    *(
        (
            kind,
            {"step_size": Constant(2.0), "regularization": 0.5},
            r"^step_size = 2.0 must be below 1 / regularization",
        )
        for kind in (Polk, Ogd, RandomFeatures, Nystroem, Linear)
    ),
    (Nystroem, {"landmarks": 8, "rank": 9}, "^rank = 9 must be"),
    (Colk, {"batch_size": 3}, "^batch_size = 3 must be even"),
    (Colk, {"batch_size": 0, "pairs": "sliding"}, "^batch_size = 0 must be at least 1"),
    *((CentralMoments, {"orders": orders}, r"^orders = \[.*\] must be") for orders in ((2, 5), ())),
    (RbfNetwork, {"low": 2.0, "high": 1.0}, "^low = 2.0 must be below high = 1.0"),
    (
        Bsgd,
        {"kernel": Laplacian(), "maintenance": "merging"},
        r"^kernel = Laplacian\(.* has no merging of two points",
    ),
    (DualSgd, {"leaving": 6, "budget_size": 5}, "^leaving = 6 must be from 1 to budget_size = 5"),
    (Tracking, {"rank": 8, "budget_size": 7}, "^rank = 8 must not be above budget_size = 7"),
    (Tracking, {"censoring_from": "budget"}, '^censoring_from = "budget" needs a budget_size'),
    (Okfeb, {"coordinates": "points"}, '^coordinates = "points" needs follow = false'),
]


@pytest.mark.parametrize(("part", "keys"), BEYOND, ids=lambda value: type(value).__name__)
def test_numbers_beyond_their_range_are_refused(part: Any, keys: dict[str, Any]) -> None:
    for key, value in keys.items():
        with pytest.raises(RefusedKey) as refusal:
            replace(part, **{key: value})
        assert refusal.value.key == key


@pytest.mark.parametrize(("kind", "keys", "message"), REFUSED, ids=lambda value: getattr(value, "__name__", None))
def test_what_makes_no_sense_is_refused(kind: type, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedKey, match=message):
        kind(**keys)
