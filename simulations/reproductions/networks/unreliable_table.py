"""What was measured of networks on unreliable links, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kernelswarm.simulations.reproductions.contract import Claim
from kernelswarm.simulations.reproductions.networks import forms, problems
from kernelswarm.simulations.reproductions.networks.forms import Form, Strength
from kernelswarm.simulations.reproductions.networks.frontier import NEAR, Priced, Thrift, cheapest, shares
from kernelswarm.simulations.reproductions.networks.problems import Outcome, Problem
from kernelswarm.simulations.reproductions.networks.sweeps import (
    SWEEPS,
    Found,
    over_isolated,
    tested,
    values_of,
)

NOTHING_GAINED = 0.95
"""Nodes whose error is above this share of that of isolated nodes gain nothing worth a message."""

QUARTER = 0.25


def sweep_rows(found: Found, measure: str) -> Iterator[Claim]:
    """Write a row for each condition and protocol: the factor over ideal links, the median over problems."""
    for name, points in values_of(found).items():
        for protocol in problems.PROTOCOLS:
            if protocol == "isolated" and (not SWEEPS[name].asleep or measure == "disagreement"):
                continue
            cells = []
            for value in points:
                factors = [_over_ideal(found, name, problem, protocol, value, measure) for problem in tested(found)]
                cells.append(f"{value:g}: {np.median(factors):.2f} ({min(factors):.2f} to {max(factors):.2f})")
            words = f"{SWEEPS[name].words}; median of {len(tested(found))} problems (least to largest)"
            if protocol != "isolated" and measure == "error":
                words += f"; nothing is gained over isolated nodes: {_lost(found, name, protocol)}"
            yield Claim(f"{measure} over that on ideal links, {name}, {protocol}", "", "; ".join(cells), words)


def _over_ideal(found: Found, name: str, problem: Problem, protocol: str, value: float, measure: str) -> float:
    ideal = found["ideal", problem, protocol, 0.0]
    return float(getattr(found[name, problem, protocol, value], measure) / getattr(ideal, measure))


def _lost(found: Found, name: str, protocol: str) -> str:
    """Count the problems, by value, in which nodes err as much as they would alone with the same clock."""
    counts = {
        value: sum(
            not over_isolated(found, name, problem, protocol, value, "error") < NOTHING_GAINED
            for problem in tested(found)
        )
        for value in values_of(found)[name]
    }
    return ", ".join(f"in {count} at {value:g}" for value, count in counts.items() if count) or "nowhere"


def form_rows(compared: Mapping[tuple[Form, Problem, str], Outcome]) -> list[Claim]:
    """Write a row for each form and problem: its errors under all conditions."""
    cases = list(dict.fromkeys(conditions for _, _, conditions in compared))
    settings = f"c = {forms.PENALTY:g}, step size {forms.STEP_SIZE:g}; {', '.join(cases)}"
    return [
        Claim(
            f"error, {problem.words}, {form.words}",
            "",
            " / ".join(_error(compared[form, problem, conditions]) for conditions in cases),
            settings,
        )
        for form, problem in dict.fromkeys((form, problem) for form, problem, _ in compared)
    ]


def strained_rows(strained: Mapping[tuple[Strength, int], Outcome]) -> list[Claim]:
    """Write a row for each penalty near what explicit steps bear, and check what delays do to those that survive."""
    delays = sorted({delay for _, delay in strained})
    strengths = list(dict.fromkeys(strength for strength, _ in strained))
    settings = f"sine, ring, step size {forms.STEP_SIZE:g}; delays {', '.join(map(str, delays))}"
    rows = [
        Claim(
            f"error, {strength.words}", "", " / ".join(_error(strained[strength, delay]) for delay in delays), settings
        )
        for strength in strengths
    ]
    safe = [strength for strength in strengths if not strained[strength, 0].stopped]
    broken = [strength for strength in safe if any(strained[strength, delay].stopped for delay in delays)]
    rows.append(
        Claim(
            "forms that bear ideal links and are stopped where messages are late",
            "none: an asynchronous saddle point method converges for bounded delays (Bedi, Koppel, Rajawat 2019)",
            f"{len(broken)} of {len(safe)}",
            settings,
            not broken,
        )
    )
    return rows


def byte_rows(priced: Priced) -> Iterator[Claim]:
    """Write what the same error costs at least, and check whether 8 bits and the trigger bring it to a quarter."""
    for problem, batch in dict.fromkeys((problem, batch) for problem, batch, _ in priced):
        cost = shares(priced, problem, batch)
        best = cheapest(cost)
        where = f"{problem.words}, b = {batch}"
        settings = f"consensus, {where}, on_missing = repeat"
        yield Claim(f"least bytes for the same error, {where}", "", _priced({best: cost[best]}), settings)
        both = {thrift: share for thrift, share in cost.items() if thrift.bits == 8 and thrift.threshold}
        yield Claim(
            f"8 bits and the trigger, {where}",
            "censoring saves communication and keeps the error (COKE: Xu, Wang, Chen, Tian 2021); checked: the "
            f"error within {NEAR - 1:.0%} for a quarter of the bytes",
            _priced(both),
            settings,
            any(share[0] <= QUARTER and share[1] <= NEAR for share in both.values()),
        )
        few = {thrift: share for thrift, share in cost.items() if thrift.bits < 64 and not thrift.threshold}
        yield Claim(
            f"few bits without the trigger, {where}",
            f"checked: the error within {NEAR - 1:.0%} for a quarter of the bytes",
            _priced(few),
            settings,
            any(share[0] <= QUARTER and share[1] <= NEAR for share in few.values()),
        )


def _priced(cost: Mapping[Thrift, tuple[float, float]]) -> str:
    return "; ".join(
        f"{thrift.words}: {sent:.3f} of the bytes, {error:.2f} of the error" for thrift, (sent, error) in cost.items()
    )


def _error(outcome: Outcome) -> str:
    return "stopped" if np.isnan(outcome.error) else f"{outcome.error:.4g}"


def notes(seeds: int, rounds: int) -> list[str]:
    """Say what was run."""
    return [
        f"{rounds} rounds; medians of the last {problems.LAST:.0%} of the evaluations, and of "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}. POLK with a Gaussian kernel of bandwidth 0.1, one sample a "
        "round where nothing else is said. Consensus has the penalty 10, proximity adaptive tolerances; both are "
        "symmetric and implicit where nothing else is said.",
        "sine: 2x + 3 sin 6x in noise of deviation 1. patches: the same, where every node sees an eighth of the inputs "
        "and half of its neighbour's. field: sensor_field with noise 3 and length 2; targets differ from node to node, "
        "and errors are of each node's own. ring, complete: 8 nodes; geometric: 20, radius 0.35.",
        "The quotient of two errors is off by some percent: what is sent in 16 bits and more differs from exact "
        "numbers in nothing but chance.",
    ]
