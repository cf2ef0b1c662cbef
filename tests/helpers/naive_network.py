"""The round as the formulas state it: nothing is compressed, nothing sent ahead, every function a plain sum."""

import numpy as np

from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.arrays import Array


class NaiveNode:
    """A function as the list of all points it ever took, and the dual variables of the node's edges."""

    def __init__(self, kernel: Kernel, inputs: int, outputs: int, neighbors: list[int]) -> None:
        self.kernel = kernel
        self.points: Array = np.zeros((0, inputs))
        self.weights: Array = np.zeros((0, outputs))
        self.duals = dict.fromkeys(neighbors, 0.0)
        self.seen = 0

    def values(self, points: Array) -> Array:
        return self.kernel.cross(points, self.points) @ self.weights

    def add(self, points: Array, weights: Array, shrink: float) -> None:
        self.points = np.concatenate([self.points, points])
        self.weights = np.concatenate([shrink * self.weights, weights])


def squared_loss_round(nodes, batches, strength, eta, regularization, symmetric, implicit, size):
    """Take every node through SURVEY eq. 17 or 19 with the squared loss and edge strengths ``strength(i, j)``.

    Every sample has the rate eta / size, however many are left. The implicit step first moves a node by its coupling,
    every pair of an edge and a point as far as its limit, and then solves for the values of its own loss's proximal
    step there; the library solves for the coefficients. Without any samples there is no step. Points of a batch that
    have no targets, behind those that do, are replayed: they have the coupling's terms alone.
    """
    steps = {}
    for i, node in nodes.items():
        points, targets = batches[i]
        values = node.values(points)
        moves = [(points, np.zeros_like(values))]
        together = 0.0
        for j in node.duals:
            s = strength(i, j)
            together += np.broadcast_to(s, len(points))[: len(targets)]
            if implicit:
                s = limited(s, row_sums(nodes, batches, i, j, points, eta, symmetric), size)
            moves[0] = points, moves[0][1] - eta / size * np.reshape(s, (-1, 1)) * (values - nodes[j].values(points))
        if symmetric:
            for j in node.duals:
                theirs, s = batches[j][0], strength(j, i)
                if implicit:
                    s = limited(s, row_sums(nodes, batches, i, j, theirs, eta, symmetric), size)
                apart = node.values(theirs) - nodes[j].values(theirs)
                moves.append((theirs, -eta / size * np.reshape(s, (-1, 1)) * apart))
        x = np.concatenate([entry[0] for entry in moves])
        weights = np.concatenate([entry[1] for entry in moves])
        share, samples, values = 1.0, points[: len(targets)], values[: len(targets)]
        gram = node.kernel.cross(samples, samples)
        if implicit and len(samples) and node.duals:
            gain, reach = np.mean(np.diag(gram)), np.mean(np.abs(gram).sum(axis=1))
            node.seen += len(samples)
            order = len(np.unique(node.points, axis=0))
            share = own_part(eta / size, gain, reach, 2.0, np.max(together), order, node.seen)
        rate = share * eta / size
        if implicit:
            reached = values + node.kernel.cross(samples, x) @ weights
            values = np.linalg.solve(np.eye(len(samples)) + 2.0 * rate * gram, reached + 2.0 * rate * gram @ targets)
        weights[: len(samples)] -= rate * 2.0 * (values - targets)
        steps[i] = (x, weights, share)
    constraint_values = {
        (i, j): float(np.mean(np.sum((node.values(batches[i][0]) - nodes[j].values(batches[i][0])) ** 2, axis=1)))
        for i, node in nodes.items()
        for j in node.duals
    }
    for i, (x, weights, share) in steps.items():
        nodes[i].add(x, weights, 1.0 - eta * share * regularization if len(x) else 1.0)
    return constraint_values


def row_sums(nodes, batches, i, j, points, eta, symmetric):
    """Compute eta times the row sums of all pairs' inner products at the points of edge (i, j), for both its ends.

    A one-sided node only knows its own pairs, and counts them twice.
    """

    def row_sum(node):
        sets = [batches[node][0]] * len(nodes[node].duals)
        if symmetric:
            sets += [batches[other][0] for other in nodes[node].duals]
        return sum(np.abs(nodes[node].kernel.cross(points, x)).sum(axis=1) for x in sets)

    return eta * (row_sum(i) + (row_sum(j) if symmetric else row_sum(i)))


def limited(strength, row_sums, size):
    """Compute ``min(c, b / E)`` for each point."""
    return np.minimum(strength, size / np.maximum(row_sums, 1e-300))


def own_part(rate, gain, reach, curvature, coupling, order, samples):
    """Compute which part of its step a node that listens takes on its own samples."""
    whole = rate * gain * (curvature or 1.0)
    least = max(0.04, 2.0 * order / samples)
    return max(1.0 / (1.0 + rate * reach * coupling), min(1.0, least / whole))
