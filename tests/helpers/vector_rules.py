"""Protocols of vectors as their formulas say them, in plain numpy, for a node alone: dense matrices and nothing kept.

A node's samples are its features Z (n, L) and targets Y (n, C). A rule sees them (`adapt`), sends a vector, and
receives what its neighbours sent, each with a count: 1, less where it is old, 0 where nothing has arrived.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.agents.parts.losses import Loss
from kernelswarm.arrays import Array


class Samples(NamedTuple):
    """The samples of a node's round, and what its step is made of."""

    features: Array  # (n, L)
    targets: Array  # (n, C)
    batch_size: int
    eta: float
    lambdas: Array  # (L,) the regularization of each feature
    loss: Loss
    implicit: bool

    def descend(self, weights: Array) -> Array:
        """Return the weights after a step: of an implicit one the derivatives are those that it leads to, as far as the
        loss's curvature says where that is."""
        if not len(self.targets):
            return weights
        z, rate = self.features, self.eta / self.batch_size
        slopes = self.loss.derivatives(z @ weights, self.targets)
        if self.implicit:
            slopes = np.linalg.solve(np.eye(len(z)) + rate * self.loss.curvature * z @ z.T, slopes)
        return np.asarray((1.0 - self.eta * self.lambdas)[:, np.newaxis] * weights - rate * z.T @ slopes)

    def gradient(self, weights: Array) -> Array:
        """Return where a step leads, in units of its size."""
        return np.asarray((weights - self.descend(weights)) / self.eta)


def solved(matrix: Array, right: Array) -> Array:
    """Return ``inv(A + 1e-12 max(diag A) I) B``, of several matrices too: features alike have small weights."""
    largest = np.diagonal(matrix, axis1=-2, axis2=-1).max(axis=-1)[..., np.newaxis, np.newaxis]
    return np.linalg.solve(matrix + 1e-12 * largest * np.eye(matrix.shape[-1]), right)


class Known(NamedTuple):
    """What a node knows of the network before the first round."""

    weights: Array  # (L, C)
    degrees: Array  # (deg,) of its neighbours
    kept: int  # rounds of which sums are kept


class Arrived(NamedTuple):
    """What a node receives."""

    last_sent: Array  # (n,)
    vectors: Array  # (deg, n)
    counts: Array  # (deg,)

    def averaged(self, own: Array, weights: Array) -> Array:
        """Return a vector moved to the neighbours'."""
        return np.asarray(own + (self.counts * weights) @ (self.vectors - own))

    def apart(self, size: int) -> Array:
        """Return how far the first numbers of what was sent are from the neighbours', added up."""
        return np.asarray(self.counts @ (self.last_sent - self.vectors)[:, :size])


def metropolis(known: Known) -> Array:
    """Return ``1 / (1 + max(deg_i, deg_j))``."""
    return np.asarray(1.0 / (1.0 + np.maximum(len(known.degrees), known.degrees)))


class Rule(ABC):
    """A protocol of weights alone: those of a node's function, which it sends as they are."""

    def __init__(self, known: Known) -> None:
        self.weights = known.weights

    def adapt(self, samples: Samples) -> None:  # noqa: B027  most only look at samples with what arrives
        pass

    def send(self) -> Array:
        return self.weights.reshape(-1)

    @abstractmethod
    def receive(self, arrived: Arrived, samples: Samples) -> None:
        """Take in what has arrived."""

    def shaped(self, vector: Array) -> Array:
        return vector.reshape(self.weights.shape)


class Diffusion(Rule):
    """``psi = theta - eta grad``, ``theta = sum_j a_ij psi_j``; or the average first."""

    def __init__(
        self,
        known: Known,
        combination: str = "metropolis",
        order: str = "adapt_then_combine",
        rate: float = 0.1,
        **_: Any,
    ) -> None:
        super().__init__(known)
        self.name, self.first, self.rate = combination, order == "adapt_then_combine", rate
        self.shares = metropolis(known)
        self.stepped = self.before = self.weights
        self.squares: list[float | None] = [None] * (1 + len(known.degrees))

    def adapt(self, samples: Samples) -> None:
        if self.first:
            self.before, self.stepped = self.weights, samples.descend(self.weights)

    def send(self) -> Array:
        return self.stepped.reshape(-1)

    def receive(self, arrived: Arrived, samples: Samples) -> None:
        if self.name == "received":
            self.shares = np.full(len(arrived.counts), 1.0 / (1.0 + arrived.counts.sum()))
        elif self.name == "adaptive":
            self.shares = self.adapted_shares(arrived)
        mean = self.shaped(arrived.averaged(self.stepped.reshape(-1), self.shares))
        if self.first:
            self.weights = mean
        else:
            self.before, self.weights = mean, samples.descend(mean)
            self.stepped = self.weights

    def adapted_shares(self, arrived: Arrived) -> Array:
        """Return shares as 1 over running means of squared distances, of all that were ever received."""
        for place, vector in enumerate([self.stepped.reshape(-1), *arrived.vectors]):
            if place and not arrived.counts[place - 1]:
                continue
            square = float(np.sum((vector - self.before.reshape(-1)) ** 2))
            old = self.squares[place]
            self.squares[place] = (1.0 - self.rate) * old + self.rate * square if old else square
        inverse = np.array([0.0 if square is None else 1.0 / max(square, 1e-300) for square in self.squares])
        return np.asarray(inverse[1:] / inverse.sum())


class Tracking(Rule):
    """Gradient tracking: weights are averaged, and with them trackers, or sums of steps that neighbours take in."""

    def __init__(self, known: Known, sends: str = "sums", as_published: bool = False, **_: Any) -> None:
        super().__init__(known)
        self.trackers, self.shares = sends == "trackers" or as_published, metropolis(known)
        self.moved, self.second = self.weights, np.zeros_like(self.weights)
        self.gradient, self.inflow = self.second, self.second
        self.sums = np.zeros((len(known.degrees), self.weights.size))

    def adapt(self, samples: Samples) -> None:
        if self.trackers:
            gradient = samples.gradient(self.weights)
            self.second, self.gradient = self.second + gradient - self.gradient, gradient
            self.moved = self.weights - samples.eta * self.second
        else:
            step = self.weights - samples.descend(self.weights) + self.inflow
            self.moved, self.second = self.weights - step, self.second + step

    def send(self) -> Array:
        return np.concatenate([self.moved.reshape(-1), self.second.reshape(-1)])

    def receive(self, arrived: Arrived, samples: Samples) -> None:
        size, mean = self.weights.size, arrived.averaged(self.send(), self.shares)
        self.weights = self.shaped(mean[:size])
        if self.trackers:
            self.second = self.shaped(mean[size:])
            return
        for place in np.flatnonzero(arrived.counts):
            self.sums[place] = arrived.vectors[place, size:]
        self.inflow = self.shaped(self.shares @ (self.sums - self.second.reshape(-1)))


class Multitask(Rule):
    """A step, and a pull to the neighbours' weights, on edges of weight 1."""

    def __init__(self, known: Known, penalty: float = 0.1, **_: Any) -> None:
        super().__init__(known)
        self.penalty, self.degrees, self.adapted = penalty, known.degrees, self.weights

    def adapt(self, samples: Samples) -> None:
        self.adapted = samples.descend(self.weights)

    def send(self) -> Array:
        return self.adapted.reshape(-1)

    def receive(self, arrived: Arrived, samples: Samples) -> None:
        part = np.full(len(self.degrees), samples.eta * self.penalty)
        if samples.implicit:
            part = part / (1.0 + part * (len(self.degrees) + self.degrees))
        self.weights = self.shaped(arrived.averaged(self.send(), part))


class Mocha(Multitask):
    """A step, and the proximal step of the relations that the neighbourhood's weights tell."""

    def receive(self, arrived: Arrived, samples: Samples) -> None:
        own = self.send()
        together = [own, *(own + c * (v - own) for c, v in zip(arrived.counts, arrived.vectors, strict=True) if c)]
        mean = np.mean(together, axis=0)
        apart = np.array(together) - mean
        values, directions = np.linalg.eigh(apart @ apart.T)
        root = directions * np.sqrt(np.maximum(values, 0.0)) @ directions.T
        pull = samples.eta * self.penalty * np.trace(root)
        kept = np.linalg.solve(root + pull * np.eye(len(root)), root)[0] if pull else np.eye(len(root))[0]
        self.weights = self.shaped(mean + kept @ apart)


class Ditto(Multitask):
    """A common function by diffusion, and the node's own near it."""

    def __init__(self, known: Known, penalty: float = 0.1, **_: Any) -> None:
        super().__init__(known, penalty)
        self.shared, self.shares = self.weights, metropolis(known)

    def adapt(self, samples: Samples) -> None:
        self.adapted = samples.descend(self.shared)

    def receive(self, arrived: Arrived, samples: Samples) -> None:
        before, self.shared = self.shared, self.shaped(arrived.averaged(self.send(), self.shares))
        own, pull = samples.descend(self.weights), samples.eta * self.penalty
        if samples.implicit:
            self.weights = (own + pull * self.shared) / (1.0 + pull)
        else:
            self.weights = own - pull * (self.weights - before)
