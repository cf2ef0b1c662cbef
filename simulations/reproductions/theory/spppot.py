"""SPPPOT section IV: where steps in the dual space settle, how many points they keep, and that f stays positive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.spppot import Spppot
from kernelswarm.agents.parts.budgets import Proportional
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.mirror_maps import SquaredNorm
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.surveys.networks import slope
from kernelswarm.simulations.reproductions.theory.walks import (
    SLACK,
    Walk,
    evenly,
    largest_at_the_coarsest,
    listed,
    log_log,
    mark,
    midpoints,
    spread,
    walk,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

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
    excess: dict[str, list[list[float]]] = {"step": [], "both": [], "budget": [], "poisson": []}
    orders: list[list[float]] = []
    least: dict[str, list[float]] = {"kl": [], "squared norm": []}
    for draw in range(draws):
        request.tell(f"draw {draw + 1} of {draws}", draw / draws)
        seed = [request.seed, draw]
        small = [_regress(step, SMALL, length, seed) for step in steps]
        both = [_regress(step, RATIO * step**0.5, length, seed) for step in steps]
        budgets = [_regress(middle, alpha, length, seed) for alpha in BUDGETS]
        linear = _regress(middle, SMALL, length, seed, replace(REGRESSION, mirror_map=SquaredNorm()))
        for name, walks in (("step", small), ("both", both), ("budget", budgets)):
            excess[name].append([found.settled for found, _ in walks])
        excess["poisson"].append([_density(step, length, seed).settled for step in steps])
        orders.append([float(found.orders[len(found.orders) // 2 :].mean()) for found, _ in budgets])
        least["kl"].append(min(lowest for _, lowest in [*small, *both, *budgets]))
        least["squared norm"].append(linear[1])
    arrays = {"steps": np.array(steps), "alphas": np.array(BUDGETS), "budgets": middle * np.array(BUDGETS)}
    arrays |= {f"excess_{name}": np.array(rows) for name, rows in excess.items()}
    arrays |= {"orders": np.array(orders)}
    arrays |= {f"least_{name.replace(' ', '_')}": np.array(values) for name, values in least.items()}
    return Reproduction(
        claims=_claims(arrays, middle),
        notes=_notes(draws, length),
        figures={"spppot_theory": _figure(arrays)},
        arrays=arrays,
    )


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


def _claims(arrays: dict[str, Array], middle: float) -> list[Claim]:
    steps, alphas = arrays["steps"], arrays["alphas"]
    means = {name: arrays[f"excess_{name}"].mean(axis=0) for name in ("step", "both", "budget", "poisson")}
    regression, poisson = f"squared loss, f = exp(z), alpha = {SMALL:g}", f"Poisson process, alpha = {SMALL:g}"
    claims = []
    for name, words in (("step", regression), ("poisson", poisson)):
        slopes = [slope(steps.tolist(), row.tolist()) for row in arrays[f"excess_{name}"]]
        measured = f"slope {spread(slopes)}: {listed(arrays[f'excess_{name}'], steps)}"
        holds = float(np.mean(slopes)) >= 1.0 - SLACK
        claims.append(Claim("excess risk, by eta", "O(eta) where alpha = 0 (after theorem 1)", measured, words, holds))
    ratios = np.concatenate([means["both"] / ((1.0 + RATIO**2) * steps), means["budget"] / (middle + alphas**2)])
    coarse = (int(np.argmax(steps)), len(steps) + int(np.argmax(alphas)))
    measured = (
        f"ratio {ratios.min():.2g} to {ratios.max():.2g}; alpha = {RATIO:g} sqrt eta: excess "
        f"{listed(arrays['excess_both'], steps)}; eta = {middle:g}: {listed(arrays['excess_budget'], alphas)}"
    )
    claims.append(
        Claim(
            "excess risk, by eta and alpha",
            "O(eta + (1 + eta) alpha^2) (after theorem 1)",
            measured,
            "squared loss, f = exp(z), eps = alpha eta",
            largest_at_the_coarsest(ratios, coarse),
        )
    )
    roots = np.sqrt(arrays["excess_step"])
    slopes = [slope(steps.tolist(), row.tolist()) for row in roots]
    claims.append(
        Claim(
            "distance to f*, by eta",
            "O(eta + alpha) (after theorem 1)",
            f"slope {spread(slopes)}: {listed(roots, steps)}",
            regression,
            float(np.mean(slopes)) >= 1.0 - SLACK,
        )
    )
    epsilons, orders = arrays["budgets"], arrays["orders"]
    rises = [slope((1.0 / epsilons).tolist(), row.tolist()) for row in orders]
    claims.append(
        Claim(
            "model order, by eps",
            "O(1/eps)^d, here d = 1 (corollary 3)",
            f"slope {spread(rises)} in 1/eps: {listed(orders, epsilons)}",
            f"squared loss, f = exp(z), eta = {middle:g}",
            float(np.mean(rises)) <= 1.0 + SLACK,
        )
    )
    lowest, below = arrays["least_kl"], arrays["least_squared_norm"]
    claims.append(
        Claim(
            "least value of f on the way",
            "positive throughout training (after eq. 26)",
            f"{lowest.min():.2g}; with f = z {below.min():.2g}, negative in {int((below < 0.0).sum())} of {len(below)}",
            "squared loss, all runs; f = z with one of the settings",
            bool((lowest > 0.0).all()),
        )
    )
    return claims


def _notes(draws: int, length: float) -> list[str]:
    return [
        f"x uniform on [0, 1], Gaussian kernel of bandwidth {KERNEL.bandwidth:g}; z* = log f* is a sum of three "
        "kernels with weights such that f* integrates to one. Squared loss: y = f*(x) + noise uniform on "
        f"[-{NOISE:g}, {NOISE:g}], and the excess risk is E (f - f*)^2. Poisson process: events of density f*, 50 grid "
        "points, and the excess risk is E log(f*/f) + int f - 1. In both f* is the optimum, and no regulariser is "
        "needed for the risk to be strongly convex in f. Beside a grid events lie in its span and eps changes nothing, "
        "so that alpha and the model order are measured with the squared loss.",
        f"{draws} draws, the same for every setting; runs of {length:g} / eta samples, of which the second half of 80 "
        "looks is averaged. A rate holds where the slope through logarithms is at most "
        f"{SLACK:g} on the wrong side of the proved exponent, in the mean over the draws. O(eta + alpha^2) holds where "
        "the excess over eta + alpha^2 is nowhere more than that share above what it is at the largest step or budget.",
        "The paper takes the root of (47) and prints O(eta + alpha) for the distance. The root of O(eta + alpha^2) is "
        "O(sqrt eta + alpha): that is what is measured, and what is printed does not hold. Tried: larger and smaller "
        "steps and alpha = 0.3 sqrt eta, with the same slope.",
    ]


def _figure(arrays: dict[str, Array]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 3.2), layout="constrained")
    step, budget, many = figure.subplots(1, 3)
    steps, alphas, budgets = (arrays[name].tolist() for name in ("steps", "alphas", "budgets"))
    log_log(step, steps, arrays["excess_step"], 1.0, "squared loss")
    means = arrays["excess_poisson"].mean(axis=0)
    step.loglog(steps, means, marker="s", markersize=4, color=style.ORANGE, label="Poisson process")
    step.set_title("excess risk")
    step.set_xlabel("step size")
    mark(step, steps)
    budget.loglog(alphas, arrays["excess_budget"].mean(axis=0), marker="o", markersize=4, color=style.BLUE)
    budget.set_title("excess risk")
    budget.set_xlabel("alpha = eps / eta")
    log_log(many, budgets, arrays["orders"], -1.0, "M", style.GREEN)
    many.set_title("model order")
    many.set_xlabel("budget eps")
    for axes in (step, many):
        axes.legend()
    return figure
