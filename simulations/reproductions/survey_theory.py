"""SURVEY section III, its rates: regret, constraint violation, disagreement and model order, as slopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import (
    Claim,
    Curve,
    Figure,
    Panel,
    Reproduction,
    Request,
    beyond,
    drawn,
    errs_more,
    notes,
)
from kernelswarm.simulations.reproductions.survey_networks import FIELD, SINE, Outcome, graph, mean, outcome
from kernelswarm.simulations.reproductions.walks import log_log, slope

NODES = 10
HORIZONS = (100, 200, 400, 800, 1600, 3200, 6400)
STEP = 1.0
"""Of the step sizes ``STEP / sqrt(T)`` (eq. 21)."""

COMPRESSION = 4.0
"""Of the budgets ``COMPRESSION / T``."""

TOLERANCE = 0.0
"""Where all nodes share the target, which f* meets whatever the tolerance."""

DIFFERING: dict[str, Any] = {**FIELD, "length": 0.5}
"""Targets of which neighbours' differ, so that nodes that never talk violate the constraint in every round anew."""

WITHIN = 0.1
"""The tolerance there."""

PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0)
RATIOS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
PERIODS = (1000.0, 4000.0, 16000.0)
BUDGETS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2)


@dataclass
class Line:
    """A quantity against another, means over the seeds, and the slope that theory bounds."""

    x: Sequence[float]
    y: Sequence[float]
    bound: float

    @property
    def slope(self) -> float:
        """The slope of log y against log x."""
        return slope(self.x, self.y)


def reproduce(request: Request) -> Reproduction:
    """SURVEY eq. 21 and around: regret, violation, disagreement and model order against the rates that are proved."""
    horizons, seeds = (HORIZONS[:5], 2) if request.quick else (HORIZONS, 6)
    draws = [request.seed + draw for draw in range(seeds)]
    regret, violation, alone = _over_horizons(horizons, draws, request.part(0.0, 0.6))
    rounds = 1000 if request.quick else 4000
    request.tell("disagreement", 0.6)
    disagreement = _over_penalties(1500 if request.quick else 4000, draws[:2])
    request.tell("model order", 0.8)
    orders = [
        _on_ring(3, SINE, "isolated", rounds, draws[:2], step_size=0.1, budget={"epsilon": 0.1 / ratio}).order
        for ratio in RATIOS
    ]
    request.tell("drifting targets", 0.9)
    targets = [{"name": "drifting", "period": period} for period in PERIODS]
    moving = [
        _on_ring(NODES, target, "consensus", rounds, draws[:2], ("dynamic_regret",), step_size=0.2)
        for target in targets
    ]
    drift = [run.dynamic_regret / rounds for run in moving]
    request.tell("memory and accuracy", 0.95)
    rounds = 500 if request.quick else 2000
    kept = [_on_ring(NODES, SINE, "consensus", rounds, draws, budget={"epsilon": eps}) for eps in BUDGETS]
    lines = {"regret": regret, "violation": violation, "disagreement": disagreement, "order": Line(RATIOS, orders, 1.0)}
    return Reproduction(
        [*_claims(lines, alone, drift), *trade(kept)],
        notes("survey-theory", globals(), seeds=seeds, first=horizons[0], last=horizons[-1]),
        {"survey_theory": _figure(lines, kept)},
        {
            **{f"{name}_x": np.array(line.x) for name, line in lines.items()},
            "alone_y": np.array(alone.y),
            **{f"{name}_y": np.array(line.y) for name, line in lines.items()},
            "periods": np.array(PERIODS),
            "drift": np.array(drift),
            "budgets": np.array(BUDGETS),
            "kept": np.array([run.order for run in kept]),
            "errors": np.array([run.errors for run in kept]),
        },
    )


def _over_horizons(horizons: Sequence[int], draws: Sequence[int], request: Request) -> tuple[Line, Line, Line]:
    """Measure regret and violation of the published method, with step and budget for each horizon.

    The third line is the violation of nodes that never talk: their dual variables stay at 0.
    """
    published = {"name": "proximity", "as_published": True}
    alone = {"name": "proximity", "form": "one_sided", "step": "explicit", "dual_step": 1e-12, "gamma": WITHIN}
    found: list[list[float]] = []
    for rounds in request.each(horizons, lambda rounds: f"regret and violation, T = {rounds}"):
        learner: dict[str, Any] = {"step_size": STEP / rounds**0.5, "budget": {"epsilon": COMPRESSION / rounds}}
        own, network = [], graph("ring", NODES)
        for seed in draws:
            common = outcome(network, SINE, {**published, "gamma": TOLERANCE}, rounds, seed, ("regret",), **learner)
            differing = [
                outcome(network, DIFFERING, rule, rounds, seed, **learner).violation
                for rule in ({**published, "gamma": WITHIN}, alone)
            ]
            own.append([common.regret, *differing])
        found.append(np.mean(own, axis=0).tolist())
    x = [float(rounds) for rounds in horizons]
    regret, violation, silent = (list(values) for values in zip(*found, strict=True))
    return Line(x, regret, 0.5), Line(x, violation, 0.75), Line(x, silent, 0.75)


def _on_ring(
    nodes: int,
    stream: Mapping[str, Any],
    rule: Mapping[str, Any] | str,
    rounds: int,
    draws: Sequence[int],
    regret: Sequence[str] = (),
    **learner: Any,
) -> Outcome:
    """Run a ring with the seed of each draw, and average."""
    return mean([outcome(graph("ring", nodes), stream, rule, rounds, seed, regret, **learner) for seed in draws])


def _over_penalties(rounds: int, draws: Sequence[int]) -> Line:
    """Measure disagreement where targets differ, with small noise, steps and budgets: the penalty alone decides it."""
    found, quiet = [], {**FIELD, "noise": 0.1}
    for penalty in PENALTIES:
        rule = {"name": "consensus", "penalty": penalty, "form": "symmetric", "step": "explicit"}
        run = _on_ring(NODES, quiet, rule, rounds, draws, step_size=0.01, budget={"epsilon": 1e-4})
        found.append(run.disagreement)
    return Line(PENALTIES, found, -1.0)


def trade(kept: Sequence[Outcome]) -> list[Claim]:
    """Write the rows of memory against accuracy, from the smallest budget to the largest.

    Less memory holds where every larger budget leaves fewer points; less accuracy where the largest errs more than the
    smallest on the same draws, by more than twice the difference's standard error.
    """
    at = ", ".join(f"{eps:g}" for eps in BUDGETS)
    orders, most, least = [run.order for run in kept], kept[-1].errors, kept[0].errors
    falls = all(after < before for before, after in pairwise(orders))
    errors = ", ".join(f"{run.error:.3g}" for run in kept)
    return [
        Claim(
            "memory on a network, by budget",
            "less memory for a larger eps",
            f"M = {', '.join(f'{order:.1f}' for order in orders)} at {at}",
            "consensus, eta = 0.1",
            falls,
        ),
        Claim(
            "accuracy on a network, by budget",
            "less accuracy for a larger eps",
            f"error {errors} at {at}; from the smallest to the largest {beyond(most, least)}",
            "consensus, eta = 0.1",
            errs_more(most, least),
        ),
    ]


SLACK = 0.05
"""By which a slope may exceed the exponent that is proved."""


def _claims(lines: dict[str, Line], alone: Line, drift: Sequence[float]) -> Iterator[Claim]:
    horizon = f"eta = {STEP:g} / sqrt T, eps = {COMPRESSION:g} / T"
    words = {
        "regret": ("regret against a batch solution", "O(sqrt T) (eq. 21)", f"{horizon}, gamma = {TOLERANCE:g}"),
        "violation": ("constraint violation", "O(T^(3/4)) (eq. 21)", f"{horizon}, gamma = {WITHIN:g}, sensor field"),
        "disagreement": ("disagreement", "O(1 / c)", "eta = 0.01, eps = 1e-4, symmetric, explicit"),
        "order": ("model order", "O((eta / eps)^p), here p = 1", "eta = 0.1, isolated"),
    }
    for name, (quantity, published, settings) in words.items():
        line = lines[name]
        values = ", ".join(f"{y:.3g}" for y in line.y)
        measured = f"slope {line.slope:.2f}: {values} at {', '.join(f'{x:g}' for x in line.x)}"
        holds = line.slope <= line.bound + SLACK
        if name == "violation":  # such a claim about nodes that never talk proves nothing about others
            measured += f"; of nodes that never talk {alone.slope:.2f}"
            holds = holds and alone.slope > alone.bound + SLACK
        yield Claim(quantity, published, measured, settings, holds)
    measured = ", ".join(f"{value:.3g} at {period:g}" for value, period in zip(drift, PERIODS, strict=True))
    yield Claim("dynamic regret a round, by the target's period", "", measured, "consensus, eta = 0.2")


def _figure(lines: dict[str, Line], kept: Sequence[Outcome]) -> Figure:
    titles = {
        "regret": ("regret", "rounds T"),
        "violation": ("violation", "rounds T"),
        "disagreement": ("disagreement", "penalty c"),
        "order": ("model order", "eta / eps"),
    }
    panels = []
    for name, (title, x_label) in titles.items():
        line = lines[name]
        curves = log_log(np.array(line.x), np.array([line.y]), line.bound, "measured")
        panels.append(Panel(curves, title, x_label, log="xy", legend={}))
    errors = np.array([run.errors for run in kept])
    spread = np.std(errors, axis=1, ddof=1)
    orders = [run.order for run in kept]
    last = Curve(orders, errors.mean(axis=1), style.BLUE, marker="o", spread=spread)
    panels.append(Panel([last], "error, by budget", "model order", axes={"ylim": (0.0, None)}))
    return drawn(panels, (13.5, 3.0))
