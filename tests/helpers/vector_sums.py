"""Protocols that average the sums of least squares, as their formulas say them, in plain numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from tests.helpers.vector_rules import Arrived, Known, Rule, Samples, metropolis, solved


@dataclass(frozen=True)
class Sums:
    """``Z'Z``, ``Z'Y`` and the number of samples."""

    gram: Array
    products: Array
    count: float

    @staticmethod
    def none(weights: Array) -> Sums:
        """Return those of no samples."""
        return Sums(np.zeros((len(weights), len(weights))), np.zeros_like(weights), 0.0)

    @staticmethod
    def of(samples: Samples) -> Sums:
        """Return those of a round's samples."""
        z, y = samples.features, samples.targets
        return Sums(z.T @ z, z.T @ y, float(len(y)))

    def scaled(self, by: float) -> Sums:
        """Return them times a number."""
        return Sums(by * self.gram, by * self.products, by * self.count)

    def plus(self, other: Sums) -> Sums:
        """Return both together."""
        return Sums(self.gram + other.gram, self.products + other.products, self.count + other.count)

    def solved(self, ridge: float, lambdas: Array) -> Array:
        """Return ``inv(Z'Z + ridge I + n/2 diag(lambda)) Z'Y``; of noisy sums that are none the nearest Z'Z."""
        whole = np.diag(ridge + 0.5 * max(self.count, 0.0) * lambdas)
        values, directions = np.linalg.eigh(self.gram)
        gram = self.gram
        if np.linalg.eigvalsh(gram + whole)[0] <= 0.0:
            gram = directions * np.maximum(values, 0.0) @ directions.T
        return solved(gram + whole, self.products)

    @property
    def vector(self) -> Array:
        """The upper triangle of the first, the second, and the third."""
        return np.concatenate([self.gram[np.triu_indices(len(self.gram))], self.products.reshape(-1), [self.count]])

    def taken_from(self, vector: Array) -> Sums:
        """Return sums of this shape from a vector."""
        upper = np.triu_indices(len(self.gram))
        gram, ends = np.zeros_like(self.gram), len(upper[0])
        gram[upper] = vector[:ends]
        return Sums(gram + np.triu(gram, 1).T, vector[ends:-1].reshape(self.products.shape), float(vector[-1]))


class DiffusionRls(Rule):
    """Sums are averaged, and solved."""

    def __init__(self, known: Known, ridge: float = 0.1, forgetting: float = 1.0, **_: Any) -> None:
        super().__init__(known)
        self.ridge, self.forgetting, self.shares = ridge, forgetting, metropolis(known)
        self.sums = Sums.none(self.weights)

    def adapt(self, samples: Samples) -> None:
        if len(samples.targets):
            self.sums = self.sums.scaled(self.forgetting).plus(Sums.of(samples))

    def send(self) -> Array:
        return self.sums.vector

    def receive(self, arrived: Arrived, samples: Samples) -> None:
        self.sums = self.sums.taken_from(arrived.averaged(self.send(), self.shares))
        self.weights = self.sums.solved(self.ridge, samples.lambdas)


class Drfgp(DiffusionRls):
    """Each round's sums are averaged K times, and added up."""

    def __init__(self, known: Known, exchanges: int = 1, every: int = 1, **keys: Any) -> None:
        super().__init__(known, **keys)
        self.every = every
        self.moving = [self.sums] * exchanges
        """Of the samples since the last message, and of those before, averaged once, twice, ..."""

    def adapt(self, samples: Samples) -> None:
        self.moving[0] = self.moving[0].plus(Sums.of(samples))

    def send(self) -> Array:
        return np.concatenate([each.vector for each in self.moving])

    def receive(self, arrived: Arrived, samples: Samples) -> None:
        if self.every > 1 and not arrived.counts.any():
            return
        mean = np.split(arrived.averaged(self.send(), self.shares), len(self.moving))
        averaged = [self.sums.taken_from(each) for each in mean]
        left = self.forgetting if averaged[0].count > 0.0 else 1.0
        oldest = averaged[-1].scaled(self.forgetting ** (len(averaged) - 1))
        self.sums = self.sums.scaled(left).plus(oldest)
        self.moving = [Sums.none(self.weights), *averaged[:-1]]
        whole = self.sums
        for age, each in enumerate(self.moving[1:]):
            whole = whole.plus(each.scaled(self.forgetting**age))
        self.weights = whole.solved(self.ridge, samples.lambdas)
