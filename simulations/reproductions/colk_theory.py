"""COLK section IV: where pairs of samples settle, how well the mean loss is tracked, and which pairs to make."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import minimize

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.colk import Colk
from kernelswarm.agents.learners.compositional import Pairing, TrackedMean
from kernelswarm.agents.parts.budgets import Quadratic
from kernelswarm.agents.parts.dispersions import Variance
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.simulations.reproductions.contract import Reproduction, Request
from kernelswarm.simulations.reproductions.sheets import Sheet
from kernelswarm.simulations.reproductions.walks import evenly, largest_at_the_coarsest, midpoints, named, walk

SHEET = Sheet("colk-theory", globals())
KERNEL, REGULARIZATION, WEIGHT, NOISE = Gaussian(0.1), 0.3, 0.2, 0.3
STEPS = (0.2, 0.1, 0.05, 0.025, 0.0125)
RATES = (0.01, 0.03, 0.1, 0.3, 0.9)
BUDGETS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""K of eps = K alpha^2."""

STEP, RATE, BUDGET = 0.05, 0.3, 1.0
"""alpha, beta and K where another setting varies."""

LENGTH = 60.0
"""Steps of a run in units of 1 / (alpha lambda)."""

WAYS: dict[str, tuple[TrackedMean, Pairing]] = {
    "difference, disjoint": ("difference", "disjoint"),
    "average, disjoint": ("average", "disjoint"),
    "difference, sliding": ("difference", "sliding"),
    "average, sliding": ("average", "sliding"),
}
"""How the mean loss is tracked, and how samples are paired."""


QUANTITIES = ("distance", "tracking", "order", "start")
"""Of a run: ||f - f*||^2, (g - E l)^2 and M where it settles; and ||f - f*||^2 after the first samples."""


def reproduce(request: Request) -> Reproduction:
    """COLK, theorems 1 and 2: squared distance to the optimum and model order against steps and budget."""
    draws, steps, length = (2, STEPS[:4], LENGTH / 3) if request.quick else (6, STEPS, LENGTH)
    rates = RATES[::2] if request.quick else RATES
    runs: dict[str, list[tuple[Any, ...]]] = {
        "together": [(step, step, BUDGET) for step in steps],
        "fixed": [(step, RATE, BUDGET) for step in steps],
        "budgets": [(STEP, STEP, budget) for budget in BUDGETS],
        **{way: [(STEP, rate, BUDGET, *keys) for rate in rates] for way, keys in WAYS.items()},
    }
    found = [
        {
            name: [_settled(length, [request.seed, draw], *setting) for setting in settings]
            for name, settings in runs.items()
        }
        for draw in request.draws(draws)
    ]
    arrays = {"steps": np.array(steps), "rates": np.array(rates), "budgets": np.array(BUDGETS)}
    for name in runs:
        arrays |= named(name.replace(", ", "_") + "_", QUANTITIES, [settled[name] for settled in found])
    return judged(arrays, draws=draws, length=length)


def judged(arrays: dict[str, Array], **values: object) -> Reproduction:
    """Set the theorems' rates beside what was measured."""
    steps, rates = arrays["steps"], arrays["rates"]
    cells = [arrays[f"{name}_distance"].mean(axis=0) for name in ("together", "fixed", "difference_disjoint")]
    ratios = np.concatenate(cells) / np.concatenate([steps, steps, np.full(len(rates), STEP)])
    said = SHEET.given(arrays, values, ratios=ratios, spans=1.0 / (arrays["budgets"] * STEP))
    return said.found(said.claims(ratios=largest_at_the_coarsest(ratios, [0])), arrays)


def _curve(points: Array) -> Array:
    curve: Array = 0.5 * points + 0.5 * np.sin(6.0 * points)
    return curve


def _residuals(values: Array) -> Array:
    """Compute f(x) - y for both values of the noise, from f at the midpoints (n, 1): (n, 2)."""
    residuals: Array = values - _curve(midpoints()) - np.array([[-NOISE, NOISE]])
    return residuals


@cache
def optimum() -> KernelSum:
    """Return the f that minimises mean loss, its variance times the weight, and the regulariser, by L-BFGS."""
    points = midpoints()
    eigenvalues, vectors = np.linalg.eigh(KERNEL.cross(points, points))
    kept = eigenvalues > 1e-10 * eigenvalues[-1]
    roots, vectors = np.sqrt(eigenvalues[kept]), vectors[:, kept]
    basis = vectors * roots  # of orthonormal functions, at the midpoints

    def objective(theta: Array) -> tuple[float, Array]:
        residuals = _residuals((basis @ theta)[:, np.newaxis])
        losses = residuals**2
        mean = losses.mean()
        slopes = 2.0 * residuals * (1.0 + 2.0 * WEIGHT * (losses - mean))
        value = mean + WEIGHT * np.mean((losses - mean) ** 2) + 0.5 * REGULARIZATION * theta @ theta
        return float(value), basis.T @ slopes.mean(axis=1) / len(points) + REGULARIZATION * theta

    theta = minimize(
        objective,
        np.zeros(len(roots)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10},
    ).x
    return KernelSum(KERNEL, 1, 1).assign(points, (vectors @ (theta / roots))[:, np.newaxis])


def _settled(
    length: float,
    seed: Sequence[int],
    step: float,
    rate: float,
    budget: float,
    tracking: TrackedMean = "difference",
    pairs: Pairing = "disjoint",
) -> list[float]:
    """Return the QUANTITIES of a run."""
    learner = Colk(
        Squared(),
        KERNEL,
        Constant(step),
        REGULARIZATION,
        budget=Quadratic(budget),
        dispersion=Variance(),
        dispersion_weight=WEIGHT,
        tracking=tracking,
        tracking_rate=Constant(rate),
        batch_size=2 if pairs == "disjoint" else 1,
        pairs=pairs,
    )
    generator = np.random.default_rng(seed)
    count = 2 * round(length / (step * REGULARIZATION))
    points = generator.uniform(size=(count, 1))
    targets = _curve(points) + NOISE * generator.choice([-1.0, 1.0], size=points.shape)
    first = 2 * round(0.5 / (step * REGULARIZATION))
    errors = []

    def distance(function: Any, state: Any) -> float:
        errors.append((state.center - float(np.mean(_residuals(function.values(midpoints())) ** 2))) ** 2)
        return float(function.distance(optimum())) ** 2

    found = walk(learner, points, targets, sorted({first, *evenly(count, 60, 2)}), distance)
    half = len(errors) // 2
    start = float(found.measured[found.samples == first][0])
    return [found.settled, float(np.mean(errors[half:])), float(found.orders[half:].mean()), start]
