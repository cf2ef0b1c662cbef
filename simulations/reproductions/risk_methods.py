"""The methods that the risk-aware regressions compare: one entry each, and how one of them learns a set."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.nodes.node import DIVERGED
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.reproductions.contract import Claim, Request, beyond, errs_more

BANDWIDTH = 0.06
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""The step sizes that a tuned method tries."""

_KERNEL = {"name": "gaussian", "bandwidth": BANDWIDTH}
_COLK = {"name": "colk", "kernel": _KERNEL, "step_size": 0.02, "budget": {"quadratic": 5.0}, "tracking_rate": 0.01}
_POLK = {"name": "polk", "kernel": _KERNEL, "step_size": 0.02, "budget": {"quadratic": 5.0}}
_RBF = {
    "name": "rbf_network",
    "kernel": {"name": "gaussian", "bandwidth": BANDWIDTH / 2**0.5},  # exp(-(x - c)^2 / r^2), r = 0.06
    "centers": 50,
    "low": 0.0,
    "high": 1.0,
    "dispersion": "central_moments",
    "dispersion_weight": 0.1,
    "tracking_rate": 0.01,
}


@dataclass(frozen=True)
class Method:
    """A row of the comparison.

    Attributes
    ----------
    table : mapping
        The learner, as an experiment file has it.
    settings : str
        What distinguishes it, for the table.
    tuned : bool
        Whether its step size is the best of STEPS on samples that are used for nothing else.
    printed : bool
        Whether the paper's figure has it; the others are controls.
    """

    table: Mapping[str, Any]
    settings: str
    tuned: bool = False
    printed: bool = True


# A further method of the paper is one entry here.
METHODS: dict[str, Method] = {
    "COLK": Method(
        {**_COLK, "dispersion": "central_moments", "dispersion_weight": 0.1},
        "alpha = 0.02, eps = 5 alpha^2, beta = 0.01, weight 0.1 on moments 2 to 4, as printed",
    ),
    "POLK": Method(
        {**_POLK, "step_size": 0.5, "budget": {"quadratic": 0.09}}, "alpha = 0.5, eps = 0.09 alpha^2, as printed"
    ),
    "BSGD": Method(
        {"name": "bsgd", "kernel": _KERNEL, "budget_size": 21, "maintenance": "merging"}, "M = 21, merging", tuned=True
    ),
    "NPBSGD": Method(
        {"name": "npbsgd", "kernel": _KERNEL, "budget_size": 21, "growth": 5e-4},
        "M = 21, growing by 1 in 2,000 samples",
        tuned=True,
    ),
    "RBF network": Method(_RBF, "50 centers, r = 0.06, COLK's objective", tuned=True),
    "POLK, COLK's step": Method(_POLK, "alpha = 0.02, eps = 5 alpha^2", printed=False),
    "COLK, weight 0": Method({**_COLK, "dispersion_weight": 0.0}, "COLK's settings, no dispersion", printed=False),
    "COLK, variance": Method(
        {**_COLK, "dispersion": "variance", "dispersion_weight": 0.1}, "COLK's settings, variance alone", printed=False
    ),
    "COLK, sliding pairs": Method(
        {
            **_COLK,
            "dispersion": "central_moments",
            "dispersion_weight": 0.1,
            "pairs": "sliding",
            "batch_size": 1,
        },
        "COLK's settings, a step at every sample",
        printed=False,
    ),
}


@dataclass
class Fit:
    """What a method made of a set.

    Attributes
    ----------
    function : Function or None
        The function learned; None where the iteration diverged.
    samples, orders : list of int
        The model order after numbers of samples.
    values : list of Array
        The function's values at the probes after as many, (n, 1) each.
    """

    function: Function | None = None
    samples: list[int] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)

    def error(self, points: Array, targets: Array) -> float:
        """Return the mean square error; NaN where it diverged."""
        return float("nan") if self.function is None else mean_square(self.function, points, targets)


def learn(learner: Any, points: Array, targets: Array, probes: Array | None = None, looks: int = 0) -> Fit:
    """Learn a set batch by batch, and look at the values at ``probes`` (n, p) so many times.

    Divergence is what :class:`~kernelswarm.agents.nodes.agent.Agent` takes for it.
    """
    state = learner.init(points.shape[1], targets.shape[1])
    size: int = learner.batch_size
    limit = DIVERGED * (1.0 + float(np.abs(targets).max()))
    starts = range(0, len(points), size)
    wanted = set(np.linspace(0, len(starts) - 1, looks).round().astype(int).tolist()) if looks else set()
    found = Fit()
    for step, start in enumerate(starts):
        own = learner.evaluate(state, points[start : start + size])
        if not float(np.abs(own.values).max()) <= limit:
            return found
        gradient = learner.gradient(state, own, targets[start : start + size])
        learner.step(state, [own], [gradient], None, targets[start : start + size])
        if probes is not None and step in wanted:
            function = learner.function(state)
            found.samples.append(min(start + size, len(points)))
            found.orders.append(function.order)
            found.values.append(function.values(probes))
    found.function = learner.function(state)
    return found


def prepared(method: Method, training: tuple[Array, Array], validation: tuple[Array, Array]) -> tuple[Any, str]:
    """Build a method's learner, its step size tuned if it is to be; returns it with its settings in words."""
    if not method.tuned:
        return build("learner", dict(method.table)), method.settings
    errors: dict[float, float] = {}
    for step in STEPS:
        function = learn(build("learner", {**method.table, "step_size": step}), *training).function
        errors[step] = np.inf if function is None else mean_square(function, *validation)
    best = min(errors, key=lambda step: errors[step])
    learner = dataclasses.replace(build("learner", dict(method.table)), step_size=Constant(best))
    return learner, f"{method.settings}; alpha = {best:g}, tuned"


def compared(
    request: Request,
    tuning: tuple[tuple[Array, Array], tuple[Array, Array]],
    sets: Sequence[tuple[Array, Array]],
    probes: Array | None = None,
    looks: int = 0,
) -> tuple[dict[str, list[Fit]], dict[str, str]]:
    """Learn all sets with every method, tuned on the samples of ``tuning``; returns the fits, and the settings."""
    runs: dict[str, list[Fit]] = {}
    settings: dict[str, str] = {}
    for name in request.each(METHODS):
        learner, settings[name] = prepared(METHODS[name], *tuning)
        runs[name] = [learn(learner, *samples, probes, looks) for samples in sets]
    return runs, settings


def mean_square(function: Function, points: Array, targets: Array) -> float:
    """Compute the mean squared difference of the function's values and the targets; NaN beyond all numbers."""
    return float(np.mean((function.values(points) - targets) ** 2))


def spread(values: Sequence[float]) -> str:
    """Write the mean of measured values, with their standard deviation and how many diverged."""
    finite = np.array([value for value in values if np.isfinite(value)])
    diverged = len(values) - len(finite)
    if not len(finite):
        return f"diverged on all {diverged} sets"
    text = f"{finite.mean():.4f} ± {finite.std():.4f}"
    return f"{text}, diverged on {diverged} of {len(values)} sets" if diverged else text


def final_orders(runs: Sequence[Fit]) -> list[float]:
    """Return the model orders at the end of the runs that did not diverge."""
    return [float(run.function.order) for run in runs if run.function is not None]


def rows_of(
    measured: Mapping[str, Sequence[float]],
    runs: Mapping[str, Sequence[Fit]],
    settings: Mapping[str, str],
    quantity: str,
    published: str,
) -> Iterator[Claim]:
    """Write one row for each method: its error with the spread, and its model order."""
    for name, found in measured.items():
        orders = final_orders(runs[name])
        size = f"; M = {np.mean(orders):.1f}" if orders else ""
        place = published if METHODS[name].printed else ""
        yield Claim(f"{quantity}, {name}", place, spread(found) + size, settings[name])


def least(measured: Mapping[str, Sequence[float]], names: Sequence[str], statistic: str) -> str:
    """Return which of the methods has the least "mean" or "deviation"; one that diverged anywhere has neither."""
    figure = np.mean if statistic == "mean" else np.std

    def value(name: str) -> float:
        found = float(figure(np.array(measured[name])))
        return found if np.isfinite(found) else np.inf

    return min(names, key=value)


def first_of(
    measured: Mapping[str, Sequence[float]],
    names: Sequence[str],
    statistic: str,
    quantity: str,
    published: str,
    settings: str,
) -> Claim:
    """Return the claim that of some methods COLK has the least "mean" or "deviation", by more than the sets' spread.

    Every other one that diverged nowhere must err more on the same sets, or lie farther from its median (Brown and
    Forsythe), by two standard errors of the difference. Nothing is checked where there are too few sets.
    """

    def strays(name: str) -> list[float]:
        values = np.asarray(measured[name], dtype=np.float64)
        return list(values if statistic == "mean" else np.abs(values - np.median(values)))

    words: str = least(measured, names, statistic)
    holds: bool | None = False
    others = [name for name in names if name != "COLK" and np.all(np.isfinite(measured[name]))]
    if np.all(np.isfinite(measured["COLK"])):
        verdicts = [errs_more(strays(name), strays("COLK")) for name in others]
        holds = None if None in verdicts else all(verdicts)
        if others:
            nearest = least(measured, others, statistic)
            words += f"; from COLK to {nearest} {beyond(strays(nearest), strays('COLK'))}"
    return Claim(quantity, published, words, settings, holds)
