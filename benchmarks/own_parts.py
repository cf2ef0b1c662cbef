"""Parts in plain Python in compiled rounds: microseconds a node-round, agent by agent, in the compiled round, compiled.

All three learn the same, up to the last bits of numpy's functions; the first two learn the same bits.

    python benchmarks/own_parts.py
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

from kernelswarm import Experiment
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Logistic
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.running.network import open_network

Array = npt.NDArray[np.float64]

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
class OwnConsensus(Consensus):
    """Consensus, by its methods."""


@dataclass(frozen=True)
class OwnProximity(Proximity):
    """Proximity, by its methods."""


FORMS = {
    "one-sided, explicit": {"form": "one_sided", "step": "explicit"},
    "symmetric, implicit": {"form": "symmetric", "step": "implicit"},
}


def engine(loss: Any, kernel: Any, protocol: Any, compiled: bool) -> SerialEngine:
    """Return a ring past its first rounds."""
    described = Experiment.from_dict(
        {
            "topology": nx.cycle_graph(NODES),
            "stream": {"name": "gaussian_mixture", "classes": 2},
            "learner": {"name": "polk", "loss": loss, "step_size": 0.5, "kernel": kernel, "budget": {"epsilon": 0.1}},
            "protocol": protocol,
        }
    )
    found = SerialEngine([open_network(described).plans], compiled)
    found.run(200)
    return found


def main() -> None:
    """Measure each part in both forms, the three ways in turns, and print the least of the turns."""
    print(f"load {os.getloadavg()[0]:.1f}; microseconds of processor time a node-round, ring of {NODES}, M about 10")
    print(f"{'':32} {'agents':>8} {'round':>8} {'compiled':>8} {'agents / round':>15}")
    loss, kernel = Logistic(), Gaussian(0.7746)
    for form, keys in FORMS.items():
        consensus = Consensus(0.1, **keys)  # type: ignore[arg-type]
        for part, own, built_in in (
            ("loss", (OwnLogistic(), kernel, consensus), (loss, kernel, consensus)),
            ("kernel", (loss, OwnGaussian(0.7746), consensus), (loss, kernel, consensus)),
            ("consensus", (loss, kernel, OwnConsensus(0.1, **keys)), (loss, kernel, consensus)),  # type: ignore[arg-type]
            ("proximity", (loss, kernel, OwnProximity(**keys)), (loss, kernel, Proximity(**keys))),  # type: ignore[arg-type]
        ):
            ways = [engine(*own, False), engine(*own, True), engine(*built_in, True)]
            least = [float("inf")] * len(ways)
            for _ in range(TURNS):
                for k, running in enumerate(ways):
                    began = time.thread_time()
                    running.run(ROUNDS)
                    least[k] = min(least[k], 1e6 * (time.thread_time() - began) / NODES / ROUNDS)
            row = f"{least[0]:8.1f} {least[1]:8.1f} {least[2]:8.2f} {least[0] / least[1]:15.1f}"
            print(f"{part + ', ' + form:32} {row}", flush=True)


if __name__ == "__main__":
    main()
