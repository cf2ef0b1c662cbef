"""A small network that learns by weights of random features, and its samples as a formula needs them."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7), (7, 8)])


NODES = sorted(GRAPH)


ADJACENCY = nx.to_numpy_array(GRAPH, NODES)


DEGREES = ADJACENCY.sum(axis=0)


FEATURES, ETA, LAMBDA, BATCH = 20, 0.3, 1e-3, 2


EXPLICIT = {"step": "explicit"}


MIXTURE = {"name": "raker", "factors": [0.4, 1.0, 3.0], "seed": 5}


def described(protocol: Any, rounds: int = 25, **tables: Any) -> Experiment:
    learner = {
        "name": "random_features",
        "features": FEATURES,
        "step_size": ETA,
        "regularization": LAMBDA,
        "batch_size": BATCH,
        "kernel": {"name": "gaussian", "bandwidth": 0.3},
        **tables.pop("learner", {}),
    }
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": learner,
            "protocol": protocol,
            "rounds": rounds,
            "evaluate_every": rounds,
            **tables,
        }
    )


def learned(experiment: Experiment) -> np.ndarray:
    """The weights of all nodes, (V, L)."""
    engine = SerialEngine([open_network(experiment).plans])
    engine.run(experiment.rounds)
    return np.stack([agent.function.weights[:, 0] for agent in engine.blocks[0].agents])


class Data:
    """The samples of every node, as features and targets, round after round."""

    def __init__(self, experiment: Experiment) -> None:
        plans = open_network(experiment).plans
        self.sources = [plan.source for plan in plans]
        self.function = plans[0].learner.init(plans[0].inputs, 1).function
        self.zs: list[np.ndarray] = []
        self.ys: list[np.ndarray] = []

    def draw(self) -> None:
        drawn = [source.draw(BATCH) for source in self.sources]
        self.zs = [self.function.features(points) for points, _ in drawn]
        self.ys = [targets[:, 0] for _, targets in drawn]

    def gradients(self, weights: np.ndarray) -> np.ndarray:
        """Of the mean squared loss and half the ridge, at each node's weights."""
        return np.stack(
            [2.0 * z.T @ (z @ w - y) / BATCH + LAMBDA * w for z, y, w in zip(self.zs, self.ys, weights, strict=True)]
        )

    def implicit(self, weights: np.ndarray) -> np.ndarray:
        """Where an implicit step leads: the ridge at the old weights, the loss at the new ones."""
        found = []
        for z, y, w in zip(self.zs, self.ys, weights, strict=True):
            rate = 2.0 * ETA / BATCH
            residual = np.linalg.solve(np.eye(BATCH) + rate * z @ z.T, z @ w - y)
            found.append((1.0 - ETA * LAMBDA) * w - rate * z.T @ residual)
        return np.stack(found)


def metropolis() -> np.ndarray:
    weights = ADJACENCY / (1.0 + np.maximum(DEGREES[:, None], DEGREES[None, :]))
    return weights + np.diag(1.0 - weights.sum(axis=1))
