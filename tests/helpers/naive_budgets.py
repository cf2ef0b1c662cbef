"""Learners on a budget as their papers state them, one sample at a time, with lists and least squares."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.arrays import Array


class NaiveSum:
    """A function as two lists: points and their weights."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.points: list[Array] = []
        self.weights: list[Array] = []

    def k(self, x: Array, y: Array) -> float:
        return float(self.kernel.cross(x[None, :], y[None, :])[0, 0])

    def __call__(self, x: Array) -> Array | float:
        if not self.points:
            return 0.0
        values = self.kernel.cross(np.array(self.points), x[None, :])[:, 0]
        return sum((w * k for k, w in zip(values, self.weights, strict=True)), 0.0)

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
        elements = np.array([self.points[i] for i in onto])
        shares = np.linalg.solve(self.kernel.cross(elements, elements), self.kernel.cross(elements, x[None, :])[:, 0])
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

            grid = np.linspace(0.0, 1.0, 201)[:, None]
            together = k ** ((1 - grid) ** 2) * a + k ** (grid**2) * b
            best = float(grid[np.argmax((together**2).sum(axis=1)), 0])
            near = minimize_scalar(kept, bounds=(max(best - 0.005, 0), min(best + 0.005, 1)), method="bounded")
            h = float(near.x) if near.fun < kept(best) else best
            found.append((float(a @ a + b @ b + 2 * k * a @ b) + kept(h), n, h, k))
        _, n, h, k = min(found)
        f.weights[m] = k ** ((1 - h) ** 2) * f.weights[m] + k ** (h**2) * f.weights[n]
        f.points[m] = h * f.points[m] + (1 - h) * f.points[n]
        f.pop(n)


def perceptron_coefficient(task: str, value: Array, target: float, insensitivity: float) -> Array:
    """The perceptron's coefficient of one sample."""
    if task == "regression":
        return np.where(np.abs(value - target) > insensitivity, np.sign(value - target), 0.0)
    if task == "binary":
        sign = 2 * target - 1
        return np.array([-sign if sign * value[0] <= 0 else 0.0])
    y = int(target)
    wrong = max((c for c in range(len(value)) if c != y), key=lambda c: (value[c], -c))
    unit = np.eye(len(value))
    return unit[wrong] - unit[y] if value[wrong] >= value[y] else np.zeros(len(value))


def aggressive_coefficient(task: str, value: Array, target: float, insensitivity: float, most: float) -> Array:
    """PA-I's coefficient of one sample, kappa(x, x) = 1: argmin 1/2 ||f' - f||^2 + C loss, by its closed form."""
    if task == "regression":
        return np.sign(value - target) * np.minimum(most, np.maximum(0.0, np.abs(value - target) - insensitivity))
    if task == "binary":
        sign = 2 * target - 1
        return np.array([-sign * min(most, max(0.0, 1 - sign * value[0]))])
    y = int(target)
    wrong = max((c for c in range(len(value)) if c != y), key=lambda c: (value[c], -c))
    unit = np.eye(len(value))
    return (unit[wrong] - unit[y]) * min(most, max(0.0, 1 + value[wrong] - value[y]) / 2)


class NaiveForgetron:
    """Dekel, Shalev-Shwartz and Singer's figure 3, phi by a search over a grid of (0, 1]."""

    def __init__(self, budget: int, eta: float) -> None:
        self.budget, self.eta, self.damage, self.mistakes = budget, eta, 0.0, 0

    def __call__(self, f: NaiveSum, x: Array, weight: Array) -> None:
        f.add(x, weight)
        self.mistakes += 1
        if len(f.points) <= self.budget:
            return
        oldest = f.weights[0]
        delta = float(np.linalg.norm(oldest)) / self.eta
        mu = float(oldest @ f(f.points[0])) / float(np.linalg.norm(oldest)) / self.eta

        def damages(phi: Array) -> Array:
            return self.damage + (delta * phi) ** 2 + 2 * delta * phi * (1 - phi * mu)

        # The largest phi that is allowed, to a millionth. The damage, a parabola that rises from 0, crosses the bound
        # upwards once at most, and where it comes down again phi = 1 is allowed: so the largest phi is less than a
        # thousandth above the last thousandth that is.
        grid = np.linspace(0.0, 1.0, 1001)
        last = float(grid[np.flatnonzero(damages(grid) <= 15 / 32 * self.mistakes)[-1]])
        finer = np.minimum(last + np.linspace(0.0, 1e-3, 1001), 1.0)
        phi = float(finer[np.flatnonzero(damages(finer) <= 15 / 32 * self.mistakes)[-1]])
        self.damage = float(damages(np.array(phi)))
        f.scale(phi)
        f.pop(0)


def projectron(f: NaiveSum, x: Array, weight: Array, tolerance: float, budget: int | None) -> None:
    """Orabona, Keshet and Caputo's figure 2, and LIBOL's projection of everything once the dictionary is full."""
    everything = list(range(len(f.points)))
    trial = NaiveSum(f.kernel)
    trial.points, trial.weights = list(f.points), [np.zeros_like(w) for w in f.weights]
    if everything:
        trial.project(x, weight, everything)
    trial.add(x, -weight)
    unit = float(np.linalg.norm(weight))
    lost = np.sqrt(max(sum(float(w @ trial(d)) for d, w in zip(trial.points, trial.weights, strict=True)), 0.0))
    if lost <= tolerance * unit or len(f.points) == budget:
        f.project(x, weight, everything)
    else:
        f.add(x, weight)


def margin_coefficient(f: NaiveSum, x: Array, task: str, value: Array, target: float, tolerance: float) -> Array:
    """Projectron++'s coefficient of a sample without a mistake: the largest useful step that does not overshoot.

    The element h that a mistake would add is projected as a whole, output by output, in explicit inner products. Of
    tau in (0, 1] the step is the largest of which the bound on its progress, tau (2 l - tau ||Ph||^2 - 2 ||h - Ph|| U),
    is not negative, 1 / U the norm that may be taken from h, and after which the margin is 1 at most.
    """
    unit = np.eye(len(value))
    if task == "regression":
        return np.zeros(len(value))
    if task == "binary":
        direction = np.array([2.0 * target - 1.0])
    else:
        y = int(target)
        wrong = max((c for c in range(len(value)) if c != y), key=lambda c: (value[c], -c))
        direction = unit[y] - unit[wrong]
    loss = 1.0 - float(direction @ value)
    gram = np.array([[f.k(a, b) for b in f.points] for a in f.points])
    cross = np.array([f.k(x, a) for a in f.points])
    inside = float(cross @ np.linalg.solve(gram, cross)) * float(direction @ direction)
    outside = max(f.k(x, x) * float(direction @ direction) - inside, 0.0)
    bound = 1.0 / (tolerance * float(np.linalg.norm(direction)))
    last = 2.0 * (loss - np.sqrt(outside) * bound) / inside
    return np.zeros(len(value)) if min(loss, last) <= 0.0 else -direction * min(1.0, loss / inside, last)


def _apart(f: NaiveSum, place: int, x: Array) -> float:
    """Return the squared distance of an element to that of x, less what all have in common."""
    return f.k(f.points[place], f.points[place]) - 2.0 * f.k(f.points[place], x)


def passive_aggressive_on_a_budget(
    f: NaiveSum, x: Array, weight: Array, budget: int, maintenance: str, received: bool = False
) -> None:
    """Wang and Vucetic: of all points to remove the one whose best replacement by the paper's subspace loses least.

    A received point may be the one, replaced by a single element.
    """
    if len(f.points) < budget:
        f.add(x, weight)
        return
    best = None
    for onto in range(len(f.points)) if received and maintenance != "projecting" else ():
        trial = NaiveSum(f.kernel)
        trial.points, trial.weights = list(f.points), list(f.weights)
        trial.project(x, weight, [onto])
        share = f.k(x, f.points[onto]) ** 2 / f.k(f.points[onto], f.points[onto])
        squared = float(weight @ weight) * (f.k(x, x) - share)
        if best is None or squared < best[0]:
            best = (squared, trial)
    for r in range(len(f.points)):
        trial = NaiveSum(f.kernel)
        trial.points, trial.weights = list(f.points), list(f.weights)
        gone, old = trial.pop(r)
        trial.add(x, weight)
        last = len(trial.points) - 1
        onto = [last]
        if maintenance == "projecting":
            onto = list(range(last + 1))
        elif maintenance == "nearest":
            near = min(range(last), key=lambda j: _apart(trial, j, gone))
            onto = [near, last]
        trial.project(gone, old, onto)
        # the distance between f + w kappa(x, .) and the trial
        points = [*f.points, x, *trial.points]
        weights = [*f.weights, weight, *(-w for w in trial.weights)]
        gram = f.kernel.cross(np.array(points), np.array(points))
        squared = float(np.sum(np.array(weights) * (gram @ np.array(weights))))
        if best is None or squared < best[0]:
            best = (squared, trial)
    assert best is not None
    f.points, f.weights = best[1].points, best[1].weights
