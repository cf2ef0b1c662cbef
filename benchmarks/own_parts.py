"""Parts in plain Python in compiled rounds: microseconds a node-round, by their methods and compiled.

Both learn the same, up to the last bits of numpy's functions.

    python benchmarks/own_parts.py
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from kernelswarm import Experiment
from kernelswarm.agents.learners.multi_kernel import MultiKernel
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Logistic
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Isolated
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.protocols.parameters.gradient_tracking import GradientTracking
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.running.network import open_network

NODES, ROUNDS, TURNS = 20, 50, 5


class OwnLogistic(Logistic):
    """The logistic loss in numpy."""

    def values(self, predictions: Array, targets: Array) -> Array:
        return np.logaddexp(0.0, np.where(targets == 1.0, -1.0, 1.0) * predictions)[:, 0]

    def derivatives(self, predictions: Array, targets: Array) -> Array:
        signs = np.where(targets == 1.0, -1.0, 1.0)
        return signs / (1.0 + np.exp(-signs * predictions))


class OwnGaussian(Gaussian):
    """The Gaussian kernel in numpy."""

    def cross(self, points: Array, centers: Array) -> Array:
        squares = ((points[:, np.newaxis] - centers) ** 2).sum(axis=2)
        return np.exp(squares / (-2.0 * self.bandwidth**2))  # type: ignore[operator]


@dataclass(frozen=True)
class OwnPolk(Polk):
    """POLK, by its methods."""


@dataclass(frozen=True)
class OwnConsensus(Consensus):
    """Consensus, by its methods."""


@dataclass(frozen=True)
class OwnProximity(Proximity):
    """Proximity, by its methods."""


@dataclass(frozen=True)
class OwnDiffusion(Diffusion):
    """Diffusion, by its methods."""


@dataclass(frozen=True)
class OwnGradientTracking(GradientTracking):
    """Gradient tracking, by its methods."""


@dataclass(frozen=True)
class OwnStacking(Stacking):
    """Stacking, by its methods."""


FORMS = {
    "one-sided, explicit": {"form": "one_sided", "step": "explicit"},
    "symmetric, implicit": {"form": "symmetric", "step": "implicit"},
}


def learner(kind: type[Any], loss: Any, kernel: Any) -> Any:
    """Return a learner of a kind."""
    return kind(loss=loss, step_size=Constant(0.5), kernel=kernel, budget=Epsilon(0.1))


def engine(learner: Any, protocol: Any, links: Any) -> SerialEngine:
    """Return a ring past its first rounds."""
    described = Experiment.from_dict(
        {
            "topology": nx.cycle_graph(NODES),
            "stream": {"name": "gaussian_mixture", "classes": 2},
            "learner": learner,
            "protocol": protocol,
            **links,
        }
    )
    found = SerialEngine([open_network(described).plans])
    found.run(200)
    return found


def cases() -> Iterator[tuple[str, tuple[Any, Any], tuple[Any, Any], Any]]:
    """Yield what is in Python: the learner and the protocol with it, the same compiled, and links."""
    loss, kernel, lossy = Logistic(), Gaussian(0.7746), {"links": {"loss": 0.2}}
    polk = learner(Polk, loss, kernel)
    own, mixture = learner(OwnPolk, loss, kernel), learner(MultiKernel, loss, kernel)
    yield "learner, isolated", (own, Isolated()), (polk, Isolated()), {}
    for form, keys in FORMS.items():
        consensus: Any = Consensus(0.1, **keys)  # type: ignore[arg-type]
        for part, mine, built_in in (
            ("loss", (learner(Polk, OwnLogistic(), kernel), consensus), (polk, consensus)),
            ("kernel", (learner(Polk, loss, OwnGaussian(0.7746)), consensus), (polk, consensus)),
            ("consensus", (polk, OwnConsensus(0.1, **keys)), (polk, consensus)),  # type: ignore[arg-type]
            ("proximity", (polk, OwnProximity(**keys)), (polk, Proximity(**keys))),  # type: ignore[arg-type]
            ("learner", (own, consensus), (polk, consensus)),
            ("multi_kernel", (mixture, consensus), (polk, consensus)),
        ):
            yield f"{part}, {form}", mine, built_in, {}
        yield f"learner, {form}, lossy", (own, consensus), (polk, consensus), lossy
    features = RandomFeatures(loss=loss, step_size=Constant(0.5), kernel=kernel, features=50)
    for where, links in (("ideal", {}), ("lossy", lossy)):
        for name, with_it, my, built in (
            ("diffusion", features, OwnDiffusion(), Diffusion()),
            ("gradient tracking", features, OwnGradientTracking(), GradientTracking()),
            ("stacking", polk, OwnStacking(0.1, 1.0), Stacking(0.1, 1.0)),
        ):
            yield f"{name}, {where}", (with_it, my), (with_it, built), links


def main() -> None:
    """Measure each part in both forms, the two ways in turns, and print the least of the turns."""
    print(f"load {os.getloadavg()[0]:.1f}; microseconds of processor time a node-round, ring of {NODES}, M about 10")
    print(f"{'':36} {'methods':>8} {'compiled':>8} {'ratio':>6}")
    for name, mine, built_in, links in cases():
        ways = [engine(*mine, links), engine(*built_in, links)]
        least = [float("inf")] * len(ways)
        for _ in range(TURNS):
            for k, running in enumerate(ways):
                began = time.thread_time()
                running.run(ROUNDS)
                least[k] = min(least[k], 1e6 * (time.thread_time() - began) / NODES / ROUNDS)
        row = f"{least[0]:8.1f} {least[1]:8.2f} {least[0] / least[1]:6.1f}"
        print(f"{name:36} {row}", flush=True)


if __name__ == "__main__":
    main()
