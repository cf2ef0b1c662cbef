"""SPPPOT section IV: where steps in the dual space settle, how many points they keep, and that f stays positive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.spppot import Spppot
from kernelswarm.agents.parts.budgets import Proportional
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.mirror_maps import SquaredNorm
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.simulations.reproductions.contract import Reproduction, Request
from kernelswarm.simulations.reproductions.sheets import Sheet
from kernelswarm.simulations.reproductions.walks import Walk, evenly, largest_at_the_coarsest, midpoints, walk

SHEET = Sheet("spppot-theory", globals())
KERNEL, NOISE = Gaussian(0.15), 0.5
CENTERS, WEIGHTS = np.array([[0.2], [0.5], [0.8]]), (0.8, 0.6)
STEPS = (0.2, 0.1, 0.05, 0.025, 0.0125)
BUDGETS = (0.01, 0.03, 0.1, 0.3, 1.0, 2.0)
SMALL, RATIO = 1e-3, 0.3
"""alpha where the step alone decides, and alpha over sqrt(eta) where both fall together."""

LENGTH = 400.0
"""Samples of a run in units of 1 / eta."""

REGRESSION = Spppot(loss=Squared(), kernel=KERNEL)
POISSON = Spppot(loss=PoissonProcess(cells=(50,)), kernel=KERNEL)


def reproduce(request: Request) -> Reproduction:
    """SPPPOT, theorem 1 and corollary 3: excess risk and model order against step size and budget, and positivity."""
    draws, steps, length = (3, STEPS[:4], LENGTH / 4) if request.quick else (10, STEPS, LENGTH)
    middle = 0.02 if not request.quick else 0.05
    found: list[dict[str, Any]] = []
    for draw in request.draws(draws):
        seed = [request.seed, draw]
        runs = {
            "step": [_regress(step, SMALL, length, seed) for step in steps],
            "both": [_regress(step, RATIO * step**0.5, length, seed) for step in steps],
            "budget": [_regress(middle, alpha, length, seed) for alpha in BUDGETS],
        }
        _, linear = _regress(middle, SMALL, length, seed, replace(REGRESSION, mirror_map=SquaredNorm()))
        found.append(
            {
                **{f"excess_{name}": [walked.settled for walked, _ in walks] for name, walks in runs.items()},
                "excess_poisson": [_density(step, length, seed).settled for step in steps],
                "orders": [walked.orders[len(walked.orders) // 2 :].mean() for walked, _ in runs["budget"]],
                "least_kl": min(lowest for walks in runs.values() for _, lowest in walks),
                "least_squared_norm": linear,
            }
        )
    arrays = {"steps": np.array(steps), "alphas": np.array(BUDGETS), "budgets": middle * np.array(BUDGETS)}
    arrays |= {name: np.array([numbers[name] for numbers in found]) for name in found[0]}
    return judged(arrays, middle, draws=draws, length=length)


def judged(arrays: dict[str, Array], middle: float, **values: object) -> Reproduction:
    """Set the theorem's rates beside what was measured."""
    steps, alphas = arrays["steps"], arrays["alphas"]
    lowest, below = arrays["least_kl"], arrays["least_squared_norm"]
    by_step = arrays["excess_both"].mean(axis=0) / ((1.0 + RATIO**2) * steps)
    ratios = np.concatenate([by_step, arrays["excess_budget"].mean(axis=0) / (middle + alphas**2)])
    said = SHEET.given(arrays, values, middle=middle, ratios=ratios, below=below < 0.0)
    said = said.given(distance=np.sqrt(arrays["excess_step"]), inverse=1.0 / arrays["budgets"])
    coarse = (int(np.argmax(steps)), len(steps) + int(np.argmax(alphas)))
    claims = said.claims(both=largest_at_the_coarsest(ratios, coarse), positive=(lowest > 0.0).all())
    return said.found(claims, arrays)


@cache
def optimum() -> KernelSum:
    """Return z* = log f*, three kernels whose weights make f* a density on [0, 1]."""

    def dual(middle: float) -> KernelSum:
        first, last = WEIGHTS
        return KernelSum(KERNEL, 1, 1).assign(CENTERS, np.array([[first], [middle], [last]]))

    def surplus(middle: float) -> float:
        return float(np.exp(dual(middle).values(midpoints())).mean()) - 1.0

    return dual(float(brentq(surplus, -10.0, 3.0)))


def _regress(
    step: float, alpha: float, length: float, seed: Sequence[int], learner: Spppot = REGRESSION
) -> tuple[Walk, float]:
    """Learn f* from noisy values; returns E (f - f*)^2 on the way, and the least value of any f after the start."""
    generator = np.random.default_rng(seed)
    points = generator.uniform(size=(round(length / step), 1))
    targets = np.exp(optimum().values(points)) + generator.uniform(-NOISE, NOISE, size=points.shape)
    truth, least = np.exp(optimum().values(midpoints())), np.inf

    def excess(function: Any, state: Any) -> float:
        nonlocal least
        values = function.values(midpoints())
        least = min(least, float(values.min()))
        return float(np.mean((values - truth) ** 2))

    chosen = replace(learner, step_size=Constant(step), budget=Proportional(alpha))
    return walk(chosen, points, targets, evenly(len(points), 80), excess), least


def _density(step: float, length: float, seed: Sequence[int]) -> Walk:
    """Learn the density f* from its events; measures R(f) - R(f*) = E log(f*/f) - int f* + int f."""
    generator = np.random.default_rng(seed)
    count = round(length / step)
    grid = midpoints()
    truth = np.exp(optimum().values(grid))[:, 0]
    places = np.searchsorted(np.cumsum(truth) / truth.sum(), generator.uniform(size=count))
    points = (places[:, np.newaxis] + generator.uniform(size=(count, 1))) / len(grid)  # uniform within a cell

    def excess(function: Any, state: Any) -> float:
        values = function.values(grid)[:, 0]
        return float(np.mean(truth * np.log(truth / values) - truth + values))

    learner = replace(POISSON, step_size=Constant(step), budget=Proportional(SMALL))
    return walk(learner, points, np.ones_like(points), evenly(count, 80), excess)
