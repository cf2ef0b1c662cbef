"""POLK section 4: where constant steps settle, how many points they keep, and what diminishing steps converge to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Parsimony, Quadratic
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.schedules import Constant, Diminishing
from kernelswarm.arrays import Array
from kernelswarm.simulations.reproductions.contract import Reproduction, Request, Samples
from kernelswarm.simulations.reproductions.sheets import Sheet
from kernelswarm.simulations.reproductions.walks import SLACK, evenly, midpoints, named, ridge_optimum, slope, walk

SHEET = Sheet("polk-theory", globals())
BANDWIDTH, REGULARIZATION, NOISE = 0.1, 0.1, 1.0
KERNEL = Gaussian(BANDWIDTH)
STEPS = (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125, 0.00625)
CONSTANTS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CONSTANT, STEP = 0.3, 0.05
"""The parsimony constant while the step varies, and the step while the constant varies."""

CONTRACTIONS = 20.0
"""Samples of a run in units of 1 / (eta lambda), after which the start is forgotten."""

DECADES = (100, 316, 1000, 3162, 10_000, 31_623, 100_000)
FALLING = Polk(Squared(), KERNEL, Diminishing(0.5, 100.0), REGULARIZATION, 1, Quadratic(1.0))


QUANTITIES = ("distance", "least", "radius", "early", "late", "packing")
"""Of a run with a constant step: distances to f*, model orders, and the theorems' bounds on both."""


def reproduce(request: Request) -> Reproduction:
    """POLK, theorems 1 to 3: distance to the optimum and model order against step size and parsimony constant."""
    draws, steps, decades = (3, STEPS[:5], DECADES[:5]) if request.quick else (10, STEPS, DECADES)
    optimum = ridge_optimum(KERNEL, _curve(midpoints()), REGULARIZATION)
    over_steps, over_constants, falls = [], [], []
    for draw in request.draws(draws):
        seed = [request.seed, draw]
        over_steps.append([_settled(step, CONSTANT, optimum, seed) for step in steps])
        over_constants.append([_settled(STEP, constant, optimum, seed) for constant in CONSTANTS])
        samples = _sample(decades[-1], seed)
        falls.append(walk(FALLING, *samples, decades, lambda function, state: function.distance(optimum)))
    arrays = {
        "steps": np.array(steps),
        "constants": np.array(CONSTANTS),
        "samples": np.array(decades, dtype=np.float64),
        **named("step_", QUANTITIES, over_steps),
        **named("constant_", QUANTITIES, over_constants),
        "falling_distance": np.stack([fall.measured for fall in falls]),
        "falling_order": np.stack([fall.orders for fall in falls]),
    }
    return judged(arrays, draws=draws, norm=math.sqrt(optimum.inner(optimum)))


def _curve(points: Array) -> Array:
    curve: Array = 2.0 * points + 3.0 * np.sin(6.0 * points)
    return curve


def _sample(samples: int, seed: Sequence[int]) -> Samples:
    generator = np.random.default_rng(seed)
    points = generator.uniform(size=(samples, 1))
    return points, _curve(points) + generator.uniform(-NOISE, NOISE, size=(samples, 1))


def _settled(step: float, constant: float, optimum: KernelSum, seed: Sequence[int]) -> tuple[float, ...]:
    """Run with a constant step from f = 0 until the start is forgotten, and as long again; returns QUANTITIES."""
    budget = Parsimony(constant)
    learner = Polk(Squared(), KERNEL, Constant(step), REGULARIZATION, 1, budget)
    samples = round(CONTRACTIONS / (step * REGULARIZATION))
    truth, largest, second = _curve(midpoints()), 0.0, 0.0

    def distance(function: Any, state: Any) -> float:
        nonlocal largest, second
        gaps = function.values(midpoints()) - truth
        largest = max(largest, 2.0 * (float(np.abs(gaps).max()) + NOISE))
        second = max(second, _second_moment(function, gaps))
        return float(function.distance(optimum))

    distance(KernelSum(KERNEL, 1, 1), None)
    found = walk(learner, *_sample(samples, seed), evenly(samples, 80), distance)
    deviation = second**0.5 + budget.bound(step, 0.0) / step  # the projected gradient is as near (proposition 6)
    early, late = np.split(found.orders, [len(found.orders) // 2])
    return (
        found.settled,
        float(found.measured.min()),
        radius(step, constant, deviation**2),
        float(early.max()),
        float(late.max()),
        packing(constant * step**0.5 / largest),
    )


def _second_moment(function: KernelSum, gaps: Array) -> float:
    """Compute E ||l' kappa(x, .) + lambda f||^2 over inputs and noise."""
    slopes, values = 2.0 * gaps, gaps + _curve(midpoints())
    losses = float(np.mean(slopes**2)) + 4.0 * NOISE**2 / 3.0
    mixed = float(np.mean(slopes * values))
    return losses + 2.0 * REGULARIZATION * mixed + REGULARIZATION**2 * function.inner(function)


def radius(step: float, constant: float, variance: float) -> float:
    """Compute the radius of convergence ``sqrt(eta)/lambda (K + sqrt(K^2 + lambda sigma^2))`` (POLK eq. 25)."""
    return math.sqrt(step) / REGULARIZATION * (constant + math.sqrt(constant**2 + REGULARIZATION * variance))


def packing(separation: float) -> float:
    """Count the points of [0, 1] whose kernels can be ``separation`` apart from one another (POLK eq. 76)."""
    if separation**2 >= 2.0:
        return 1.0  # no two Gaussian kernels are sqrt(2) apart
    apart = BANDWIDTH * math.sqrt(-2.0 * math.log1p(-0.5 * separation**2))
    return math.floor(1.0 / apart) + 1.0


def judged(arrays: dict[str, Array], **values: object) -> Reproduction:
    """Set the theorems' bounds beside what was measured."""
    least, radii, late, packed = (
        np.concatenate([arrays[f"{name}_{what}"] for name in ("step", "constant")], axis=1)
        for what in ("least", "radius", "late", "packing")
    )
    samples, falls = arrays["samples"], arrays["falling_distance"].mean(axis=0)
    growth = arrays["step_late"] - arrays["step_early"]
    said = SHEET.given(
        arrays, values, shares=least / radii, packed=late / packed, growth=growth, fall=slope(samples, falls)
    )
    claims = said.claims(
        infimum=(least <= radii).all(),
        radius=(arrays["constant_distance"] <= arrays["constant_radius"]).all(),
        packing=(late <= packed).all(),
        growth=growth.mean() <= SLACK * arrays["step_late"].mean(),
        order=(np.diff(arrays["constant_late"].mean(axis=0)) <= 0.0).all(),
        falling=(np.diff(falls) < 0.0).all() and slope(samples[-3:], falls[-3:]) < -SLACK,
    )
    return said.found(claims, arrays)
