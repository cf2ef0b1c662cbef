"""The round as the formulas state it: nothing is compressed, nothing sent ahead, every function a plain sum."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.kernels import Kernel

Array = npt.NDArray[np.float64]


class NaiveNode:
    """A function as the list of all points it ever took, and the dual variables of the node's edges."""

    def __init__(self, kernel: Kernel, inputs: int, outputs: int, neighbors: list[int]) -> None:
        self.kernel = kernel
        self.points: Array = np.zeros((0, inputs))
        self.weights: Array = np.zeros((0, outputs))
        self.duals = dict.fromkeys(neighbors, 0.0)

    def values(self, points: Array) -> Array:
        return self.kernel.cross(points, self.points) @ self.weights

    def add(self, points: Array, weights: Array, shrink: float) -> None:
        self.points = np.concatenate([self.points, points])
        self.weights = np.concatenate([shrink * self.weights, weights])


def squared_loss_round(nodes, batches, strength, eta, regularization, symmetric, implicit, size):
    """Take every node through SURVEY eq. 17 or 19 with the squared loss and edge strengths ``strength(i, j)``.

    Every sample has the rate eta / size, however many are left. The implicit step is solved for the new function's
    values, the library solves for the coefficients. Without any samples there is no step.
    """
    steps = {}
    for i, node in nodes.items():
        points, targets = batches[i]
        sets = [(points, eta / size, 2.0, 2.0 * targets)]
        for j in node.duals:
            x, rate, curvature, pull = sets[0]
            s = strength(i, j)
            sets[0] = (x, rate, curvature + s, pull + s * nodes[j].values(points))
        if symmetric:
            for j in node.duals:
                theirs = batches[j][0]
                s = strength(j, i)
                sets.append((theirs, eta / size, s, s * nodes[j].values(theirs)))
        x = np.concatenate([entry[0] for entry in sets])
        rate = np.concatenate([np.full(len(entry[0]), entry[1]) for entry in sets])
        curvature = np.concatenate([np.full(len(entry[0]), entry[2]) for entry in sets])
        pull = np.concatenate([entry[3] for entry in sets])
        values = node.values(x)
        if implicit:
            gram = node.kernel.cross(x, x)
            values = np.linalg.solve(np.eye(len(x)) + gram * (rate * curvature), values + gram @ (rate[:, None] * pull))
        steps[i] = (x, -rate[:, None] * (curvature[:, None] * values - pull))
    gaps = {
        (i, j): float(np.mean(np.sum((node.values(batches[i][0]) - nodes[j].values(batches[i][0])) ** 2, axis=1)))
        for i, node in nodes.items()
        for j in node.duals
    }
    for i, (x, weights) in steps.items():
        nodes[i].add(x, weights, 1.0 - eta * regularization if len(x) else 1.0)
    return gaps
