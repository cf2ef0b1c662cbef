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
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import (
    Claim,
    Curve,
    Figure,
    Panel,
    Reproduction,
    Request,
    drawn,
    mean_curve,
    notes,
)
from kernelswarm.simulations.reproductions.walks import (
    SLACK,
    evenly,
    listed,
    log_log,
    midpoints,
    named,
    rate,
    ridge_optimum,
    slope,
    walk,
)

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
    return Reproduction(
        _claims(arrays),
        notes("polk-theory", globals(), draws=draws, slack=SLACK, norm=math.sqrt(optimum.inner(optimum))),
        {"polk_theory": _figure(arrays)},
        arrays,
    )


def _curve(points: Array) -> Array:
    curve: Array = 2.0 * points + 3.0 * np.sin(6.0 * points)
    return curve


def _sample(samples: int, seed: Sequence[int]) -> tuple[Array, Array]:
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


def _claims(arrays: dict[str, Array]) -> list[Claim]:
    steps, constants, samples = arrays["steps"], arrays["constants"], arrays["samples"]
    varied = f"eps = {CONSTANT:g} eta^(3/2)"
    fixed = f"eta = {STEP:g}, eps = K eta^(3/2)"
    least, radii, late, packed = (
        np.concatenate([arrays[f"{name}_{what}"] for name in ("step", "constant")], axis=1)
        for what in ("least", "radius", "late", "packing")
    )
    shares, growth = least / radii, arrays["step_late"] - arrays["step_early"]
    falls, by_constant = arrays["falling_distance"], arrays["constant_late"]
    means = falls.mean(axis=0)
    return [
        rate(
            "distance to f*, constant steps",
            "O(sqrt eta) (theorem 2)",
            steps,
            arrays["step_distance"],
            varied,
            least=0.5,
        ),
        Claim(
            "infimum of the distance over its bound",
            "at most 1 (eq. 25)",
            f"at most {shares.max():.2g}, over all steps and constants",
            f"{varied}; {fixed}",
            bool((shares <= 1.0).all()),
        ),
        Claim(
            "distance to f*, by K",
            "within a radius that grows with K (eq. 25)",
            f"{listed(arrays['constant_distance'], constants)}; radius {listed(arrays['constant_radius'], constants)}",
            fixed,
            bool((arrays["constant_distance"] <= arrays["constant_radius"]).all()),
        ),
        Claim(
            "model order over the packing number",
            "at most 1 (theorem 3, eq. 76)",
            f"at most {float((late / packed).max()):.2g}, over all steps and constants",
            f"{varied}; {fixed}",
            bool((late <= packed).all()),
        ),
        Claim(
            "growth of the largest model order from the first half of a run to the second",
            "none after finitely many steps (theorem 3)",
            f"{growth.mean():.2g} in the mean, at most {growth.max():.0f}; M = {listed(arrays['step_late'], steps)}",
            varied,
            bool(growth.mean() <= SLACK * arrays["step_late"].mean()),
        ),
        Claim(
            "model order, by K",
            "falls as K grows (after theorem 3)",
            listed(by_constant, constants),
            fixed,
            bool((np.diff(by_constant.mean(axis=0)) <= 0.0).all()),
        ),
        Claim(
            "distance to f*, diminishing steps",
            "converges to 0 (theorem 1)",
            f"slope {slope(samples, means):.2f}: {listed(falls, samples)}",
            "eta_t = 0.5 / (1 + t / 100), eps_t = eta_t^2",
            bool((np.diff(means) < 0.0).all() and slope(samples[-3:], falls[:, -3:].mean(axis=0)) < -SLACK),
        ),
        Claim(
            "model order, diminishing steps",
            "no guarantee (table 1)",
            listed(arrays["falling_order"], samples),
            "the same",
        ),
    ]


def _figure(arrays: dict[str, Array]) -> Figure:
    steps, constants, samples = (arrays[name] for name in ("steps", "constants", "samples"))

    def mean(x: Array, name: str, color: str, label: str | None = None, **look: Any) -> Curve:
        return mean_curve(x, arrays[name], color, label, **look)

    near = [
        *log_log(steps, arrays["step_distance"], 0.5, "measured"),
        mean(steps, "step_radius", style.BLACK, "radius (eq. 25)", dash=":"),
    ]
    far = [
        mean(constants, "constant_distance", style.BLUE, marker="o"),
        mean(constants, "constant_radius", style.BLACK, dash=":"),
    ]
    many = [
        mean(constants, "constant_late", style.GREEN, "M", marker="o"),
        mean(constants, "constant_packing", style.BLACK, "packing number", dash="-."),
    ]
    fall = [
        mean(samples, "falling_distance", style.VERMILLION, "distance", marker="s"),
        mean(samples, "falling_order", style.GREEN, "M", marker="^"),
    ]
    room: dict[str, Any] = {"ylim": (None, 60.0)}  # for the legend
    panels = [
        Panel(near, "distance to f*", "step size", log="xy", ticks=steps[::2].tolist(), legend={}, axes=room),
        Panel(far, "distance to f*", "parsimony constant K", log="xy"),
        Panel(many, "model order", "parsimony constant K", log="xy", legend={}),
        Panel(fall, "diminishing steps", "samples", log="xy", legend={}),
    ]
    return drawn(panels, (11.0, 3.2))
