"""SURVEY section III, its rates: regret, constraint violation, disagreement and model order, as slopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.reproductions.contract import Reproduction, Request, Table, beyond, errs_more
from kernelswarm.simulations.reproductions.sheets import Sheet
from kernelswarm.simulations.reproductions.survey_networks import FIELD, SINE, Outcome, graph, mean, outcome
from kernelswarm.simulations.reproductions.walks import SLACK, slope

SHEET = Sheet("survey-theory", globals())


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


def reproduce(request: Request) -> Reproduction:
    """SURVEY eq. 21 and around: regret, violation, disagreement and model order against the rates that are proved."""
    horizons, seeds = (HORIZONS[:5], 2) if request.quick else (HORIZONS, 6)
    draws = [request.seed + draw for draw in range(seeds)]
    over_horizons = _over_horizons(horizons, draws, request.part(0.0, 0.6))
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
    request.tell("memory and accuracy", 0.95)
    rounds_kept = 500 if request.quick else 2000
    kept = [_on_ring(NODES, SINE, "consensus", rounds_kept, draws, budget={"epsilon": eps}) for eps in BUDGETS]
    numbers = {
        "regret_x": horizons,
        "violation_x": horizons,
        "disagreement_x": PENALTIES,
        "order_x": RATIOS,
        "alone_y": over_horizons[2],
        "regret_y": over_horizons[0],
        "violation_y": over_horizons[1],
        "disagreement_y": disagreement,
        "order_y": orders,
        "periods": PERIODS,
        "drift": [run.dynamic_regret / rounds for run in moving],
        "budgets": BUDGETS,
        "kept": [run.order for run in kept],
        "errors": [run.errors for run in kept],
    }
    return judged({name: np.array(values, dtype=np.float64) for name, values in numbers.items()}, seeds=seeds)


def judged(arrays: dict[str, Array], **values: object) -> Reproduction:
    """Set the rates beside what was measured.

    Less memory holds where every larger budget leaves fewer points; less accuracy where the largest errs more than the
    smallest on the same draws, by more than twice the difference's standard error. A rate of violation that nodes reach
    that never talk shows nothing about others.
    """
    violation, alone = (slope(arrays["violation_x"], arrays[f"{name}_y"]) for name in ("violation", "alone"))
    errors = arrays["errors"]
    said = SHEET.given(
        arrays,
        values,
        alone=alone,
        means=errors.mean(axis=1),
        deviations=np.std(errors, axis=1, ddof=1),
        difference=beyond(errors[-1], errors[0]),
    )
    claims = said.claims(
        violation=violation <= 0.75 + SLACK < alone,
        memory=(np.diff(arrays["kept"]) < 0.0).all(),
        accuracy=errs_more(errors[-1], errors[0]),
    )
    return said.found(claims, arrays)


def _over_horizons(horizons: Sequence[int], draws: Sequence[int], request: Request) -> Array:
    """Measure regret and violation of the published method, with step and budget for each horizon.

    The third line is the violation of nodes that never talk: their dual variables stay at 0. Returns (3, horizons).
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
    return np.array(found).T.copy()


def _on_ring(
    nodes: int,
    stream: Table,
    rule: Table | str,
    rounds: int,
    draws: Sequence[int],
    regret: Sequence[str] = (),
    **learner: Any,
) -> Outcome:
    """Run a ring with the seed of each draw, and average."""
    return mean([outcome(graph("ring", nodes), stream, rule, rounds, seed, regret, **learner) for seed in draws])


def _over_penalties(rounds: int, draws: Sequence[int]) -> list[float]:
    """Measure disagreement where targets differ, with small noise, steps and budgets: the penalty alone decides it."""
    found, quiet = [], {**FIELD, "noise": 0.1}
    for penalty in PENALTIES:
        rule = {"name": "consensus", "penalty": penalty, "form": "symmetric", "step": "explicit"}
        run = _on_ring(NODES, quiet, rule, rounds, draws, step_size=0.01, budget={"epsilon": 1e-4})
        found.append(run.disagreement)
    return found
