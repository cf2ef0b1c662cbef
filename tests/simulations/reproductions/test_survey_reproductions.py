"""The reproductions of the survey's section III: what they measure, and when a claim holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.reproductions import survey_consensus, survey_proximity, survey_theory
from kernelswarm.simulations.reproductions.contract import Request
from kernelswarm.simulations.reproductions.survey_networks import GRAPHS, SINE, SIZES, Outcome, graph, mean, outcome
from kernelswarm.simulations.reproductions.walks import slope

GOOD = Outcome(error=0.1, risk=0.2, progressive=0.3, disagreement=0.4, order=9.0, scalars=60.0, violation=1.0)
NETWORKS = (5,)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("nodes", SIZES)
def test_graphs_have_the_size_that_is_asked_for(name: str, nodes: int) -> None:
    assert build("topology", graph(name, nodes)).build(np.random.default_rng(0)).number_of_nodes() == nodes


def test_a_run_that_breaks_the_stability_rule_is_named_and_a_wrong_one_is_raised() -> None:
    rule = {"name": "consensus", "penalty": 1000.0, "as_published": True}
    found = outcome(graph("ring", 5), SINE, rule, 20)
    assert found.failure == "refused" and math.isnan(found.error)
    assert mean([GOOD, found]).failure == "refused"
    assert mean([GOOD, GOOD._replace(error=0.3)])[0] == pytest.approx(0.2)
    assert mean([GOOD, GOOD._replace(error=0.3)]).errors == (0.1, 0.3)
    assert mean([GOOD, GOOD._replace(error=0.3)]).error == pytest.approx(0.2)
    with pytest.raises(ValueError, match="penality"):
        outcome(graph("ring", 5), SINE, {"name": "consensus", "penality": 1.0}, 20)


def test_slopes_are_exponents() -> None:
    x = [1.0, 10.0, 100.0]
    assert slope(x, [3.0 * value**0.75 for value in x]) == pytest.approx(0.75)


def judged(exponents: tuple[float, ...], orders: Sequence[float], errors: Sequence[float]) -> list[bool | None]:
    """Verdicts on powers of regret, violation (and of nodes that never talk), disagreement and model order.

    Errors are those of the largest budget, by draw, where all others err by .1.
    """
    x = np.array([10.0, 100.0, 1000.0])
    names = ("regret", "violation", "alone", "disagreement", "order")
    arrays = {f"{name}_y": x**exponent for name, exponent in zip(names, exponents, strict=True)}
    arrays |= {f"{name}_x": x for name in names if name != "alone"}
    arrays |= {"periods": x, "drift": x, "budgets": np.arange(7.0), "kept": np.array(orders)}
    arrays["errors"] = np.array([[0.1] * len(errors)] * 6 + [list(errors)])
    return [claim.holds for claim in survey_theory.judged(arrays, seeds=3).claims]


FALLING, LEVEL = (9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0), (9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 4.0)


@pytest.mark.parametrize(
    ("exponents", "orders", "errors", "holds"),
    [
        ((0.5, 0.75, 1.1, -1.0, 1.0), FALLING, (0.2, 0.3, 0.4), (True, True, True, True, None, True, True)),
        ((0.7, 0.75, 0.81, -2.0, 0.3), LEVEL, (0.2, 0.3, 0.4), (False, True, True, True, None, False, True)),
        # Nodes that never talk reach the rate of violation; less accuracy by one draw of three, and by two draws.
        ((0.1, 0.5, 0.79, -0.5, 1.5), FALLING, (0.1, 0.2, 0.6), (True, False, False, False, None, True, False)),
        ((0.1, 0.9, 1.1, -1.0, 1.0), FALLING, (0.2, 0.3), (True, False, True, True, None, True, None)),
    ],
)
def test_rates_hold_up_to_their_exponents_and_memory_is_paid_in_accuracy(
    exponents: tuple[float, ...], orders: tuple[float, ...], errors: tuple[float, ...], holds: tuple[bool | None, ...]
) -> None:
    assert tuple(judged(exponents, orders, errors)) == holds


def test_nodes_that_never_talk_violate_every_round_anew() -> None:
    horizons = (100, 400, 1600)
    _, violation, alone = survey_theory._over_horizons(horizons, [0], Request())
    assert slope(horizons, alone) > 0.8 > slope(horizons, violation)


@pytest.mark.parametrize(
    ("change", "quantity", "holds"),
    [
        ({}, "disagreement, symmetric, implicit", True),
        ({("symmetric", "implicit", 10.0): {"disagreement": 9.0}}, "disagreement, symmetric, implicit", False),
        ({("symmetric", "implicit", 10.0): {"disagreement": 9.0}}, "disagreement, one_sided, implicit", True),
        ({}, "error, ring", True),
        ({("symmetric", "implicit", 10.0): {"errors": (0.8, 0.9, 0.7)}}, "error, ring", False),
        ({("symmetric", "implicit", 10.0): {"errors": (0.1, 0.7, 0.6)}}, "error, ring", False),  # by one seed of three
        ({("symmetric", "implicit", 10.0): {"errors": (0.1, 0.2)}}, "error, ring", False),  # one run did not end
        ({("symmetric", "explicit", 10.0): {"failure": "diverged", "disagreement": math.nan}}, "error, ring", True),
    ],
)
def test_claims_on_consensus(change: dict[tuple[str, str, float], dict[str, Any]], quantity: str, holds: bool) -> None:
    found = {}
    for setting in survey_consensus._settings(NETWORKS):
        entry = (
            GOOD._replace(error=0.5, errors=(0.5, 0.6, 0.4))
            if setting.penalty < 0.0
            else GOOD._replace(errors=(0.1, 0.11, 0.09), disagreement=1.0 / (1.0 + setting.penalty))
        )
        found[setting] = entry._replace(**change.get((setting.form, setting.step, setting.penalty), {}))
    rows = {claim.quantity: claim for claim in survey_consensus._claims(found, NETWORKS, 10)}
    assert rows[quantity].holds is holds
    failed = sum("failure" in entry for entry in change.values()) * len(GRAPHS)
    assert rows["stability, symmetric, explicit"].measured.startswith(
        f"{failed} of {len(survey_consensus.PENALTIES) * len(GRAPHS)}"
    )
    assert rows["scalars a round, ring"].measured == "6"


def test_what_differs_by_rounding_has_not_fallen_and_other_step_sizes_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {
        setting: GOOD._replace(disagreement=1.0 / (1.0 + max(setting.penalty, 0.0)))
        for setting in survey_consensus._settings(NETWORKS)
    }
    low = survey_consensus.Setting(5, "ring", "symmetric", "implicit", 1.0)
    high = low._replace(penalty=10.0)
    found[high] = found[low]._replace(disagreement=found[low].disagreement * (1.0 - 1e-15))
    rows = {claim.quantity: claim for claim in survey_consensus._claims(found, NETWORKS, 10)}
    row = rows["disagreement, symmetric, implicit"]
    assert row.holds is False and row.measured == "falls in 11 of 12 steps of c by ten"  # three on each of four graphs
    assert survey_consensus._level(found, NETWORKS) == [(low, high)]

    def measured(topology: Any, stream: Any, protocol: Any, rounds: int, seed: int, **keys: Any) -> Outcome:
        eta = keys.get("step_size", 0.1)
        return GOOD._replace(disagreement=(1.0 + seed) / (1.0 + eta * protocol["penalty"]))

    monkeypatch.setattr(survey_consensus, "outcome", measured)
    tried = list(survey_consensus._tried([(low, high)], 10, [3, 4]))
    assert [claim.settings.partition(", ")[2] for claim in tried] == list(survey_consensus.TRIED)
    assert tried[0].measured == "0.55, 0.55 times what it is at c = 1, by seed; 2.25"  # 1.1 / 2, and 4.5 / 2
    assert all(claim.holds is None for claim in tried)


@pytest.mark.parametrize(
    ("place", "change", "quantity", "holds"),
    [
        (None, {}, "tolerance infinite, symmetric", True),
        (-1, {"error": 0.52}, "tolerance infinite, symmetric", False),
        (None, {}, "disagreement, symmetric", True),
        (0, {"disagreement": 7.0}, "disagreement, symmetric", False),
        (3, {"error": 0.3}, "best tolerance, symmetric", True),
        (None, {}, "best tolerance, symmetric", False),
    ],
)
def test_claims_on_proximity(place: int | None, change: dict[str, Any], quantity: str, holds: bool) -> None:
    found = {}
    for setting in survey_proximity._settings(NETWORKS):
        entry = GOOD._replace(error=0.5)
        if setting.rule == "proximity":
            entry = entry._replace(disagreement=setting.value)
            if place is not None and setting.value == survey_proximity.TOLERANCES[place]:
                entry = entry._replace(**change)
        found[setting] = entry
    rows = {claim.quantity: claim.holds for claim in survey_proximity._claims(found, NETWORKS)}
    assert rows[quantity] is holds
