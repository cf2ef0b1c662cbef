"""Learners on a budget as their papers state them, one sample at a time, with lists and least squares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from kernelswarm.agents.kernels import Kernel

Array = npt.NDArray[np.float64]


class NaiveSum:
    """A function as two lists: points and their weights."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.points: list[Array] = []
        self.weights: list[Array] = []

    def k(self, x: Array, y: Array) -> float:
        return float(self.kernel.cross(x[None, :], y[None, :])[0, 0])

    def __call__(self, x: Array) -> Array | float:
        return sum((w * self.k(d, x) for d, w in zip(self.points, self.weights, strict=True)), 0.0)

    def scale(self, factor: float) -> None:
        self.weights = [factor * w for w in self.weights]

    def add(self, x: Array, weight: Array) -> None:
        self.points.append(x)
        self.weights.append(weight)

    def pop(self, place: int) -> tuple[Array, Array]:
        return self.points.pop(place), self.weights.pop(place)

    def smallest(self) -> int:
        norms = [float(w @ w) * self.k(d, d) for d, w in zip(self.points, self.weights, strict=True)]
        return int(np.argmin(norms))

    def project(self, x: Array, weight: Array, onto: list[int]) -> None:
        """Give ``weight kappa(x, .)`` to its least-squares fit by the elements ``onto``."""
        inside = np.array([[self.k(self.points[i], self.points[j]) for j in onto] for i in onto])
        shares = np.linalg.solve(inside, np.array([self.k(self.points[i], x) for i in onto]))
        for i, share in zip(onto, shares, strict=True):
            self.weights[i] = self.weights[i] + share * weight


def norma(f: NaiveSum, budget: int) -> None:
    while len(f.points) > budget:
        f.pop(0)


def removal(f: NaiveSum, budget: int) -> None:
    while len(f.points) > budget:
        f.pop(f.smallest())


def projection(f: NaiveSum, budget: int) -> None:
    while len(f.points) > budget:
        x, weight = f.pop(f.smallest())
        f.project(x, weight, list(range(len(f.points))))


def merging(f: NaiveSum, budget: int) -> None:
    """Wang, Crammer and Vucetic, section 4.3, with h found by a fine grid and a bounded search from its best point."""
    while len(f.points) > budget:
        m = f.smallest()
        found = []
        for n in range(len(f.points)):
            if n == m:
                continue
            k = f.k(f.points[m], f.points[n])
            a, b = f.weights[m], f.weights[n]

            def kept(h: float, a: Array = a, b: Array = b, k: float = k) -> float:
                together = k ** ((1 - h) ** 2) * a + k ** (h**2) * b
                return -float(together @ together)

            grid = np.linspace(0.0, 1.0, 201)
            best = float(grid[np.argmin([kept(h) for h in grid])])
            near = minimize_scalar(kept, bounds=(max(best - 0.005, 0), min(best + 0.005, 1)), method="bounded")
            h = float(near.x) if near.fun < kept(best) else best
            found.append((float(a @ a + b @ b + 2 * k * a @ b) + kept(h), n, h, k))
        _, n, h, k = min(found)
        f.weights[m] = k ** ((1 - h) ** 2) * f.weights[m] + k ** (h**2) * f.weights[n]
        f.points[m] = h * f.points[m] + (1 - h) * f.points[n]
        f.pop(n)
