"""Parts of every kind and name, for all tests that hold for every part: a new part stands here once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kernelswarm.agents.parts.budgets import Epsilon, Parsimony, PerSample, Proportional, Quadratic, TargetOrder
from kernelswarm.agents.parts.dispersions import CentralMoments, ConditionalValueAtRisk, Semivariance, Variance
from kernelswarm.agents.parts.image_kernel import Images
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial, StudentT, Trended
from kernelswarm.agents.parts.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Loss,
    MulticlassHinge,
    MulticlassLogistic,
    MulticlassSquaredHinge,
    Squared,
    SquaredHinge,
)
from kernelswarm.agents.parts.mirror_maps import KullbackLeibler, SquaredNorm
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.agents.parts.schedules import Auto, Constant, Diminishing, Horizon, Relative, Settling
from kernelswarm.agents.parts.subspace_rules import MovingAverage, Normalized, Power, Threshold
from kernelswarm.graphs import directed, elementary, files, nearest, random_families, schedules
from kernelswarm.protocols import distances, tolerances
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Batch, Centralized, Flooding, Isolated
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.protocols.links import arrivals, clocks, distortion
from kernelswarm.protocols.links import arrivals as link_losses
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.protocols.parameters.diffusion_rls import DiffusionRls
from kernelswarm.protocols.parameters.ditto import Ditto
from kernelswarm.protocols.parameters.dkla import Dkla
from kernelswarm.protocols.parameters.domkl import Domkl
from kernelswarm.protocols.parameters.drfgp import Drfgp
from kernelswarm.protocols.parameters.gradient_tracking import GradientTracking
from kernelswarm.protocols.parameters.mocha import Mocha
from kernelswarm.protocols.parameters.multitask import Multitask
from kernelswarm.protocols.parameters.odkla import Odkla
from kernelswarm.protocols.parameters.statistics import Statistics
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.protocols.robust import Defence
from kernelswarm.protocols.summaries import Summaries
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.parts import build, part_name
from tests.contracts.specimen import Specimen, ready
from tests.contracts.stream_specimens import ENDLESS, FINITE

# --- learners

KERNEL = {"name": "gaussian", "bandwidth": 0.4}
SIZES: dict[str, dict[str, object]] = {
    "polk": {"kernel": KERNEL},
    "newton": {"kernel": KERNEL},
    "krls": {"kernel": KERNEL},
    "qklms": {"kernel": KERNEL},
    "rls": {"kernel": KERNEL, "features": 60},
    "multi_kernel": {"kernel": KERNEL, "factors": [0.5, 1.0, 2.0], "forgetting": 0.9},
    "raker": {"kernel": KERNEL, "factors": [0.5, 1.0, 2.0], "features": 40, "forgetting": 0.9},
    "adaraker": {"kernel": KERNEL, "factors": [0.5, 2.0], "features": 30, "intervals": 3, "shortest": 3},
    "spppot": {"kernel": KERNEL, "mirror_map": "kl"},
    "colk": {"kernel": KERNEL, "dispersion": "variance"},
    "policy_evaluation": {"kernel": KERNEL, "batch_size": 4, "discount": 0.5},
    "nystroem": {"kernel": KERNEL, "landmarks": 25},
    "shared_nystroem": {"kernel": KERNEL, "landmarks": 25},
    "random_features": {"kernel": KERNEL, "features": 60},
    "linear": {},
    "okfe": {"kernel": KERNEL, "rank": 8},
    "okfeb": {"kernel": KERNEL, "rank": 8, "budget_size": 20},
    "ogd": {"kernel": KERNEL},
    "norma": {"kernel": KERNEL, "regularization": 0.01, "budget_size": 150},
    "bsgd": {"kernel": KERNEL, "budget_size": 25, "maintenance": "merging"},
    "npbsgd": {"kernel": KERNEL, "budget_size": 40},
    "dual_sgd": {"kernel": KERNEL, "budget_size": 20, "leaving": 2, "features": 60},
    "bogd": {"kernel": KERNEL, "budget_size": 100, "weight_bound": 1e300},
    "perceptron": {"kernel": KERNEL},
    "forgetron": {"kernel": KERNEL, "budget_size": 300, "loss": "squared"},
    "projectron": {"kernel": KERNEL, "budget_size": 25},
    "projectron_plus": {"kernel": KERNEL, "budget_size": 25},
    "bpa": {"kernel": KERNEL, "budget_size": 25, "maintenance": "nearest"},
    "rbf_network": {"kernel": {"name": "gaussian", "bandwidth": 0.1}, "centers": 12, "dispersion": "variance"},
}
"""The keys with which each learner learns the small networks of the tests."""
TRANSITIONS = {"name": "markov_reward", "discount": 0.5}  # whatever other learners see, policy_evaluation sees these


def learner(name: str, **keys: Any) -> Specimen:
    """A learner by its name, small enough to have removed and merged something after a dozen steps."""
    extra = {"stream": TRANSITIONS} if name == "policy_evaluation" else {}
    label = " ".join([name, *(str(value) for value in keys.values())])
    table = {"name": name, "step_size": 0.1, "batch_size": 2, **SIZES[name], **keys}
    return Specimen(label, lambda _: build("learner", table), extra)


SMALL = {"budget_size": 10}
LEARNERS = [
    *(learner(name) for name in SIZES if "budget_size" not in SIZES[name]),
    *(learner(name, **SMALL) for name in SIZES if "budget_size" in SIZES[name]),
    *(learner(name, tracking="average") for name in ("colk", "rbf_network")),
    learner("colk", pairs="sliding", batch_size=3),
    *(learner("bsgd", maintenance=maintenance, **SMALL) for maintenance in ("removal", "projection")),
    learner("okfeb", follow=False, coordinates="points", **SMALL),
    Specimen(
        "spppot poisson_process",
        lambda _: build(
            "learner",
            {
                "name": "spppot",
                "loss": {"name": "poisson_process", "cells": [40]},
                "kernel": {"name": "gaussian", "bandwidth": 0.0806},
                "step_size": 0.03,
                "batch_size": 8,
                "budget": {"proportional": 0.01},
            },
        ),
        {"stream": "gaussian_density"},
    ),
    *(learner("polk", batch_size=batch, loss=loss) for batch, loss in ((1, "absolute"), (5, "huber"))),
    *(
        learner("newton", batch_size=batch, loss=loss, forgetting=0.99)
        for batch, loss in ((1, "squared"), (5, "huber"))
    ),
    *(learner("newton", batch_size=batch, forgetting="auto") for batch in (1, 5)),
    learner("newton", compression="hellinger", budget={"epsilon": 0.3}),
    learner("rls", kernel={"name": "linear", "offset": 1.0}, forgetting=0.99),
    learner("rls", batch_size=2, forgetting="auto"),
    learner("rls", batch_size=2, process_noise=0.01),
    learner("krls", forgetting=0.95),
    learner("krls", batch_size=3, forgetting="auto"),
]

# --- what learners are made of

KERNELS = [
    Gaussian(bandwidth=0.8),
    Gaussian(bandwidth=(0.8, 0.3, 2.0)),
    Laplacian(bandwidth=1.3),
    Matern(bandwidth=0.9, smoothness=1.5),
    Matern(bandwidth=0.9, smoothness=2.5),
    StudentT(bandwidth=0.9, degrees=2.0),
    Polynomial(degree=3, offset=0.5, scale=0.4),
    Linear(offset=0.3),
    Trended(bandwidth=0.8, trend=3.0),
    Trended((0.8, 0.3, 2.0), 3.0, (0.1, -0.2, 0.0), (0.7, 1.0, 2.0)),
    Images(shape=(5, 4), bandwidth=0.8),
    Images(shape=(8, 6), spacing=1.5, bandwidth=0.5),
]
LOSSES: list[Loss] = [
    Squared(),
    Absolute(),
    Huber(),
    Huber(threshold=0.3),
    Logistic(),
    Hinge(),
    MulticlassLogistic(),
    MulticlassHinge(),
    SquaredHinge(),
    MulticlassSquaredHinge(),
]
"""The losses of numbers and classes; that of events has an integral besides."""
EVENTS = np.arange(100.0).reshape(100, 1) % 3.0
DISPERSIONS = [Variance(), CentralMoments(), CentralMoments((3,)), Semivariance(0.3), ConditionalValueAtRisk(0.6)]
BUDGETS = [
    Epsilon(0.3),
    Parsimony(0.7),
    Quadratic(1.3),
    Proportional(0.9),
    PerSample(0.2, 1.7),
    TargetOrder(20, 0.01, gain=0.003),
]
SCHEDULES = [Constant(0.3), Diminishing(0.7, 13.0), Horizon(2.0, 77), Settling(0.1, 7.0, 30.0)]

# --- protocols and networks

DEFENCES: tuple[Defence, ...] = ("trimmed", "median", "clipped", "trust")

EXCHANGES = [
    {"name": name, "form": form, "step": step}
    for name in ("consensus", "proximity")
    for form in ("one_sided", "symmetric")
    for step in ("explicit", "implicit")
]
"""Every protocol in which neighbours talk, in every form and step, as experiment files say it."""
RULES = [
    Isolated(),
    *(build("protocol", table) for table in EXCHANGES),
    Consensus(penalty=0.7, as_published=True),
    *(Consensus(penalty=0.7, robust=name) for name in DEFENCES),
    Consensus(penalty=0.7, robust="trimmed", distance=distances.Absolute()),
    *(Proximity(gamma=tolerances.Constant(0.1), robust=name) for name in DEFENCES),
    Proximity(robust="trust", form="one_sided"),
    Proximity(robust="clipped", distance=distances.KullbackLeibler()),
    Consensus(penalty=0.7, distance=distances.Absolute()),
    Consensus(penalty=0.7, form="one_sided", distance=distances.KullbackLeibler()),
    *(Proximity(gamma=gamma) for gamma in (tolerances.Constant(0.1), tolerances.Adaptive(1.0))),
    Proximity(distance=distances.Absolute()),
    Proximity(gamma=tolerances.Adaptive(1.0), form="one_sided", distance=distances.KullbackLeibler()),
    Centralized(),
    Centralized(averaged=True),
    Batch(),
    Flooding(),
    Flooding(share=0.5),
    Stacking(),
    Stacking(penalty=0.5, dual_step=2.0),
    Stacking(robust="trust"),
    Summaries(),
    Summaries(cells=5, growth=0.3, relation="one", reach=2, budget=9, least=2),
]
VECTOR_RULES = [
    *(Diffusion(combination=name) for name in ("metropolis", "uniform", "relative_degree", "received", "adaptive")),
    *(Diffusion(combination=name, order="combine_then_adapt") for name in ("metropolis", "adaptive")),
    Diffusion(as_published=True),
    GradientTracking(),
    GradientTracking(as_published=True),
    Odkla(),
    Odkla(penalty=0.3, as_published=True),
    Dkla(),
    Dkla(penalty=0.5, forgetting=0.9),
    Domkl(),
    Domkl(penalty=0.5, rate=2.0, forgetting=1.0),
    DiffusionRls(),
    DiffusionRls(forgetting=0.9),
    Drfgp(),
    Drfgp(exchanges=3, forgetting=0.9),
    Diffusion(every=2),
    Drfgp(exchanges=2, every=3),
    Statistics(every=5),
    Multitask(),
    Multitask(penalty=0.5, as_published=True),
    Mocha(),
    Ditto(),
    Ditto(penalty=0.5, as_published=True),
]
"""Every protocol that sends vectors."""
TOLERANCES = [
    tolerances.Constant(0.3),
    tolerances.Edges({"0-1": 0.1, "4-0": 0.7}, default=0.2),
    tolerances.Location(scale=2.0, length=0.5),
    tolerances.TrueDifference(0.5),
    tolerances.Adaptive(),
    tolerances.Adaptive(scale=1.5, rate=0.05),
]
DETERMINISTIC: list[Any] = [
    *(
        family(nodes)
        for family in (
            elementary.Ring,
            elementary.Path,
            elementary.Exponential,
            elementary.Star,
            elementary.Complete,
        )
        for nodes in (1, 2, 3, 20)
    ),
    *(directed.DirectedRing(nodes) for nodes in (1, 2, 3, 20)),
    *(elementary.BalancedTree(*sizes) for sizes in ((), (1, 4), (3, 2), (2, 0))),
    *(elementary.BalancedTree(2, nodes=1), elementary.BalancedTree(3, nodes=20)),
    elementary.BalancedTree(2, height=4, nodes=20),
    *(family() for family in (elementary.Grid, elementary.Torus, elementary.Caveman, elementary.Barbell)),
    *(
        family(rows, columns)
        for family in (elementary.Grid, elementary.Torus)
        for rows, columns in ((1, 1), (1, 5), (2, 2), (2, 7), (6, 3))
    ),
    *(family(nodes=nodes) for family in (elementary.Grid, elementary.Torus) for nodes in (1, 2, 3, 36)),
    *(elementary.Caveman(*sizes) for sizes in ((1, 5), (2, 3), (3, 3), (6, 4))),
    *(elementary.Caveman(nodes=3), elementary.Caveman(nodes=4)),
    *(elementary.Barbell(*sizes) for sizes in ((4,), (5,), (21,), (20, 8), (20, 0))),
    nearest.NearestNeighbors(positions=((0.0, 0.0), (3.0, 0.0), (0.0, 4.0), (3.0, 1.0))),
    nearest.NearestNeighbors(positions=((5.0, 7.0),)),
]
RANDOM: list[Any] = [
    *(directed.RandomAsking(*sizes) for sizes in ((), (1, 1), (2, 1), (6, 5))),
    *(random_families.ErdosRenyi(*sizes) for sizes in ((), (1,), (2, 1.0), (40, 0.1))),
    *(random_families.RandomGeometric(*sizes) for sizes in ((), (1,), (60, 0.3), (5, 2.0))),
    *(random_families.SmallWorld(*sizes) for sizes in ((), (3, 2), (21, 4, 1.0), (12, 6, 0.0))),
    *(random_families.ScaleFree(*sizes) for sizes in ((), (2, 1), (50, 1), (10, 9))),
    *(random_families.Regular(*sizes) for sizes in ((), (2, 1), (9, 8), (9, 6), (30, 3), (8, 2))),
    *(nearest.NearestNeighbors(*sizes) for sizes in ((), (1,), (2, 1), (6, 9), (60, 2))),
]


def networks_in_turn(folder: Path) -> schedules.Sequence:
    for place, hops in enumerate(((1,), (2, 4))):
        pairs = [f"{i} {(i + hop) % 8}" for hop in hops for i in range(8)]
        (folder / f"{place}.edges").write_text("\n".join(pairs))
    return schedules.Sequence((folder / "0.edges", folder / "1.edges"), rounds=3)


def network_file(folder: Path) -> files.File:
    """A path of four nodes in a file."""
    path = folder / "network.edgelist"
    path.write_text("0 1\n1 2\n2 3\n", encoding="utf-8")
    return files.File(path)


SPECIMENS: dict[str, list[Specimen]] = {
    "learner": LEARNERS,
    "kernel": ready(*KERNELS),
    "loss": [*ready(*LOSSES), *ready(PoissonProcess(), PoissonProcess(floor=0.5), targets=EVENTS)],
    "mirror_map": ready(SquaredNorm(), KullbackLeibler()),
    "dispersion": ready(*DISPERSIONS),
    "schedule": ready(*SCHEDULES),
    "budget": ready(*BUDGETS),
    "subspace_step": ready(Normalized(), Normalized(0.3), Power(0.5), Power(0.5, 20.0, 0.6)),
    "censoring": ready(Threshold(), Threshold(0.3), MovingAverage(), MovingAverage(7, 0.5)),
    "protocol": ready(*RULES, *VECTOR_RULES),
    "distance": ready(distances.Squared(), distances.Absolute(), distances.KullbackLeibler()),
    "tolerance": ready(*TOLERANCES),
    "link_loss": ready(
        link_losses.Uniform(0.3), link_losses.Bursts(), link_losses.EdgeLoss(), link_losses.DistanceLoss()
    ),
    "link_delay": ready(
        arrivals.Constant(2), arrivals.Between(1, 3), arrivals.Geometric(4.0), arrivals.DistanceDelay()
    ),
    "link_noise": ready(distortion.Gaussian(0.1), distortion.Laplace(0.2, "both")),
    "clock": ready(
        clocks.Synchronous(),
        clocks.Bernoulli(0.2),
        clocks.Poisson(),
        clocks.Cyclic(),
        clocks.Stragglers(),
        clocks.Churn(),
        clocks.Churn(memory=False),
        clocks.Joining(nodes=(1,), rounds=(7,)),
    ),
    "graph_schedule": [
        *ready(schedules.Always(), schedules.Activation(), schedules.Failures()),
        *ready(schedules.Gossip(), schedules.Mobile(), schedules.OnePeer()),
        Specimen("sequence", networks_in_turn),
    ],
    "topology": [*ready(*DETERMINISTIC, *RANDOM), Specimen("file", network_file)],
    "stream": [*ready(*ENDLESS), *FINITE],
    "backend": ready(Serial(), Ray(nodes_per_actor=2)),
}
WORDS = {("schedule", part_name(Auto())), ("schedule", part_name(Relative(1.0)))}
"""Parts that only stand for others until data turn them into numbers: there is nothing to check of them."""


def specimens(*kinds: str) -> Iterable[tuple[str, Specimen]]:
    """Every specimen of some kinds, of all when none is named, with its kind."""
    return [(kind, specimen) for kind in kinds or SPECIMENS for specimen in SPECIMENS[kind]]
