"""POLK section 4: where constant steps settle, how many points they keep, and what diminishing steps converge to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Parsimony, Quadratic
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.schedules import Constant, Diminishing
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.surveys.networks import slope
from kernelswarm.simulations.reproductions.theory.walks import (
    SLACK,
    evenly,
    listed,
    log_log,
    mark,
    midpoints,
    ridge_optimum,
    spread,
    walk,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

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


@dataclass(frozen=True)
class Settled:
    """What a run with a constant step came to: distances to f*, model orders, and the theorems' bounds on both."""

    distance: float
    least: float
    radius: float
    early: float
    late: float
    packing: float


def reproduce(request: Request) -> Reproduction:
    """POLK, theorems 1 to 3: distance to the optimum and model order against step size and parsimony constant."""
    draws, steps, decades = (3, STEPS[:5], DECADES[:5]) if request.quick else (10, STEPS, DECADES)
    optimum = ridge_optimum(KERNEL, _curve(midpoints()), REGULARIZATION)
    over_steps, over_constants, falls, orders = [], [], [], []
    for draw in range(draws):
        request.tell(f"draw {draw + 1} of {draws}", draw / draws)
        seed = [request.seed, draw]
        over_steps.append([_sync(step, CONSTANT, optimum, seed) for step in steps])
        over_constants.append([_sync(STEP, constant, optimum, seed) for constant in CONSTANTS])
        points, targets = _sample(decades[-1], seed)
        fall = walk(FALLING, points, targets, decades, lambda function, state: function.distance(optimum))
        falls.append(fall.measured)
        orders.append(fall.orders)
    arrays = {
        "steps": np.array(steps),
        "constants": np.array(CONSTANTS),
        "samples": np.array(decades, dtype=np.float64),
    }
    for name, table in (("step", over_steps), ("constant", over_constants)):
        for quantity in ("distance", "least", "radius", "early", "late", "packing"):
            arrays[f"{name}_{quantity}"] = _column(table, quantity)
    arrays |= {"falling_distance": np.stack(falls), "falling_order": np.stack(orders)}
    return Reproduction(
        claims=_claims(arrays),
        notes=_notes(draws, optimum),
        figures={"polk_theory": _figure(arrays)},
        arrays=arrays,
    )


def _curve(points: Array) -> Array:
    curve: Array = 2.0 * points + 3.0 * np.sin(6.0 * points)
    return curve


def _sample(samples: int, seed: Sequence[int]) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    points = generator.uniform(size=(samples, 1))
    return points, _curve(points) + generator.uniform(-NOISE, NOISE, size=(samples, 1))


def _sync(step: float, constant: float, optimum: KernelSum, seed: Sequence[int]) -> Settled:
    """Run with a constant step from f = 0 until the start is forgotten, and as long again."""
    budget = Parsimony(constant)
    learner = Polk(Squared(), KERNEL, Constant(step), REGULARIZATION, 1, budget)
    samples = round(CONTRACTIONS / (step * REGULARIZATION))
    points, targets = _sample(samples, seed)
    truth, largest, second = _curve(midpoints()), 0.0, 0.0

    def distance(function: Any, state: Any) -> float:
        nonlocal largest, second
        gaps = function.values(midpoints()) - truth
        largest = max(largest, 2.0 * (float(np.abs(gaps).max()) + NOISE))
        second = max(second, _second_moment(function, gaps))
        return float(function.distance(optimum))

    zero = KernelSum(KERNEL, 1, 1)
    distance(zero, None)
    found = walk(learner, points, targets, evenly(samples, 80), distance)
    epsilon = budget.bound(step, 0.0)
    deviation = second**0.5 + epsilon / step  # the projected gradient is as near to the gradient (proposition 6)
    half = len(found.orders) // 2
    return Settled(
        found.settled,
        float(found.measured.min()),
        radius(step, constant, deviation**2),
        float(found.orders[:half].max()),
        float(found.orders[half:].max()),
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


def _column(table: Sequence[Sequence[Settled]], quantity: str) -> Array:
    return np.array([[getattr(entry, quantity) for entry in row] for row in table])


def _claims(arrays: dict[str, Array]) -> list[Claim]:
    steps, constants, samples = arrays["steps"], arrays["constants"], arrays["samples"]
    varied = f"eps = {CONSTANT:g} eta^(3/2)"
    fixed = f"eta = {STEP:g}, eps = K eta^(3/2)"
    slopes = [slope(steps.tolist(), row.tolist()) for row in arrays["step_distance"]]
    shares = np.concatenate(
        [arrays[f"{name}_least"] / arrays[f"{name}_radius"] for name in ("step", "constant")], axis=1
    )
    late, packed = (
        np.concatenate([arrays[f"{name}_{what}"] for name in ("step", "constant")], axis=1)
        for what in ("late", "packing")
    )
    growth = arrays["step_late"] - arrays["step_early"]
    falls, orders = arrays["falling_distance"], arrays["falling_order"]
    return [
        Claim(
            "distance to f*, constant steps",
            "O(sqrt eta) (theorem 2)",
            f"slope {spread(slopes)}: {listed(arrays['step_distance'], steps)}",
            varied,
            float(np.mean(slopes)) >= 0.5 - SLACK,
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
            listed(arrays["constant_late"], constants),
            fixed,
            bool((np.diff(arrays["constant_late"].mean(axis=0)) <= 0.0).all()),
        ),
        Claim(
            "distance to f*, diminishing steps",
            "converges to 0 (theorem 1)",
            f"slope {slope(samples.tolist(), falls.mean(axis=0).tolist()):.2f}: {listed(falls, samples)}",
            "eta_t = 0.5 / (1 + t / 100), eps_t = eta_t^2",
            bool(
                (np.diff(falls.mean(axis=0)) < 0.0).all()
                and slope(samples[-3:].tolist(), falls[:, -3:].mean(axis=0).tolist()) < -SLACK
            ),
        ),
        Claim(
            "model order, diminishing steps",
            "no guarantee (table 1)",
            listed(orders, samples),
            "the same",
        ),
    ]


def _notes(draws: int, optimum: KernelSum) -> list[str]:
    norm = math.sqrt(optimum.inner(optimum))
    return [
        "y = 2x + 3 sin 6x + noise uniform on [-1, 1], x uniform on [0, 1], squared loss, Gaussian kernel of bandwidth "
        f"{BANDWIDTH:g}, lambda = {REGULARIZATION:g}; {draws} draws, the same for every setting. The squared "
        "loss has a Lipschitz constant on bounded sets only, and the iterates stay in one. f* minimises the expected "
        "regularised risk: kernel ridge regression on 400 midpoints with the noise integrated out; "
        f"||f*|| = {norm:.2f}.",
        f"Constant steps run for {CONTRACTIONS:g} / (eta lambda) samples. The distance in the Hilbert space is the "
        "mean over the second half of 80 looks. That is more than the limit inferior that the theorem bounds. The "
        "sigma^2 of the bound is the largest second moment of the gradient at any look, C the largest derivative of "
        "the loss.",
        f"A rate holds where the slope through logarithms is at most {SLACK:g} on the wrong side of the "
        "proved exponent, in the mean over the draws. O(sqrt eta) bounds the distance from above as eta falls, so that "
        "a steeper slope is no contradiction. Model orders: the largest of any look in the second half.",
    ]


def _figure(arrays: dict[str, Array]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 3.2), layout="constrained")
    near, far, many, fall = figure.subplots(1, 4)
    steps, constants, samples = (arrays[name].tolist() for name in ("steps", "constants", "samples"))
    log_log(near, steps, arrays["step_distance"], 0.5, "measured")
    near.loglog(steps, arrays["step_radius"].mean(axis=0), color=style.BLACK, linestyle=":", label="radius (eq. 25)")
    near.set_title("distance to f*")
    near.set_xlabel("step size")
    mark(near, steps[::2])
    near.set_ylim(None, 60.0)  # room for the legend
    far.loglog(constants, arrays["constant_distance"].mean(axis=0), marker="o", markersize=4, color=style.BLUE)
    far.loglog(constants, arrays["constant_radius"].mean(axis=0), color=style.BLACK, linestyle=":")
    far.set_title("distance to f*")
    far.set_xlabel("parsimony constant K")
    many.loglog(constants, arrays["constant_late"].mean(axis=0), marker="o", markersize=4, color=style.GREEN, label="M")
    many.loglog(
        constants, arrays["constant_packing"].mean(axis=0), color=style.BLACK, linestyle="-.", label="packing number"
    )
    many.set_title("model order")
    many.set_xlabel("parsimony constant K")
    fall.loglog(
        samples,
        arrays["falling_distance"].mean(axis=0),
        marker="s",
        markersize=4,
        color=style.VERMILLION,
        label="distance",
    )
    fall.loglog(samples, arrays["falling_order"].mean(axis=0), marker="^", markersize=4, color=style.GREEN, label="M")
    fall.set_title("diminishing steps")
    fall.set_xlabel("samples")
    for axes in (near, many, fall):
        axes.legend()
    return figure
