"""What becomes of networks whose messages are lost, late, rounded or withheld, and whose nodes sleep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions import link_conditions
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.link_conditions import (
    NEAR,
    SWEEPS,
    Form,
    Found,
    Key,
    Outcome,
    Priced,
    Problem,
    Run,
    Strength,
    Thrift,
    cheapest,
    over_isolated,
    shares,
    swept,
    tested,
    values_of,
)
from kernelswarm.simulations.reproductions.panels import Curve, Panel, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What was measured of networks on unreliable links, as rows of a table.

NOTHING_GAINED = 0.95
"""Nodes whose error is above this share of that of isolated nodes gain nothing worth a message."""

QUARTER = 0.25


def sweep_rows(found: Found, measure: str) -> Iterator[Claim]:
    """Write a row for each condition and protocol: the factor over ideal links, the median over problems."""
    for name, points in values_of(found).items():
        for protocol in link_conditions.PROTOCOLS:
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
    settings = f"c = {link_conditions.PENALTY:g}, step size {link_conditions.STEP_SIZE:g}; {', '.join(cases)}"
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
    settings = f"sine, ring, step size {link_conditions.STEP_SIZE:g}; delays {', '.join(map(str, delays))}"
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
        f"{rounds} rounds; medians of the last {link_conditions.LAST:.0%} of the evaluations, and of "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}. POLK with a Gaussian kernel of bandwidth 0.1, one sample a "
        "round where nothing else is said. Consensus has the penalty 10, proximity adaptive tolerances; both are "
        "symmetric and implicit where nothing else is said.",
        "sine: 2x + 3 sin 6x in noise of deviation 1. patches: the same, where every node sees an eighth of the inputs "
        "and half of its neighbour's. field: sensor_field with noise 3 and length 2; targets differ from node to node, "
        "and errors are of each node's own. ring, complete: 8 nodes; geometric: 20, radius 0.35.",
        "The quotient of two errors is off by some percent: what is sent in 16 bits and more differs from exact "
        "numbers in nothing but chance.",
    ]


# The figures of networks on unreliable links.

ISOLATED = style.PROTOCOLS["isolated"][0]

HIGHEST = 10.0
"""The error of isolated nodes that an axis shows, times this; what lies above, or was stopped, lies on its edge."""


def _size(panels: int, columns: int, height: float = 2.9) -> tuple[float, float]:
    return 3.6 * columns, height * -(-panels // columns) + 0.7


def draw_sweeps(found: Found, measure: str) -> Figure:
    """Draw the "error" or the "disagreement" against every condition, as shares of that of isolated nodes."""
    panels = []
    for name, points in values_of(found).items():
        curves = []
        for protocol in ("consensus", "proximity"):
            color, dash, marker = style.PROTOCOLS[protocol]
            cells = [("ideal", 0.0), *((name, value) for value in points)]
            table = np.array(
                [
                    [over_isolated(found, kind, problem, protocol, value, measure) for kind, value in cells]
                    for problem in tested(found)
                ]
            )
            places = np.arange(len(cells))
            curves += [Curve(places, line, color, look={"linewidth": 0.6, "alpha": 0.4}) for line in table]
            curves.append(Curve(places, np.median(table, axis=0), color, protocol, dash, marker, 5))
        curves.append(Curve(None, 1.0, ISOLATED, "isolated, same clock", "--", look={"linewidth": 1.2}))
        ticks = ["ideal", *(f"{value:g}" for value in points)]
        y = f"{measure}, isolated = 1"
        panels.append(Panel(curves, "", SWEEPS[name].words, y, "y", "y", words=ticks))
    heading = (
        f"{measure} of networks on unreliable links, over that of isolated nodes with the same clock\n"
        "thin: each stream on each graph (median over seeds); thick: the median of these"
    )
    return drawn(panels, _size(len(panels), 3), 3, 3, heading)


def draw_strained(found: Mapping[tuple[Strength, int], Outcome], isolated: float) -> Figure:
    """Draw the error of explicit steps near what they bear against the delay; stopped runs lie on the upper edge."""
    delays = sorted({delay for _, delay in found})
    penalties = sorted({strength.penalty for strength, _ in found})
    dampings = sorted({strength.damping for strength, _ in found})
    colors = dict(zip(penalties, (style.SKY, style.GREEN, style.VERMILLION, style.PURPLE), strict=False))
    dashes = dict(zip(dampings, ("-", "--", ":"), strict=False))
    edge, panels, places = HIGHEST * isolated, [], np.arange(len(delays))
    for form in ("symmetric", "one_sided"):
        curves = []
        for strength in dict.fromkeys(strength for strength, _ in found if strength.form == form):
            errors = np.array([found[strength, delay].error for delay in delays])
            shown = np.where(np.isnan(errors), edge, np.minimum(errors, edge))
            label = f"{strength.step}, penalty {strength.penalty:g}"
            if strength.step == "implicit":
                curves.append(Curve(places, shown, style.BLACK, label, "-", "D"))
            else:
                label += f", damping {strength.damping:g}"
                curves.append(Curve(places, shown, colors[strength.penalty], label, dashes[strength.damping], "o"))
            beyond = np.flatnonzero(~(errors < edge))
            curves.append(
                Curve(beyond, np.full(len(beyond), edge), style.BLACK, None, "none", "x", 9, look={"zorder": 3})
            )
        curves.append(Curve(None, isolated, ISOLATED, "isolated", "--", look={"linewidth": 1.2}))
        ticks = [str(delay) for delay in delays]
        panels.append(Panel(curves, form.replace("_", "-"), "delay in rounds", "error", "y", "y", words=ticks))
    heading = f"consensus, sine, ring; crosses: stopped, or above {HIGHEST:g} times the error of isolated nodes"
    return drawn(panels, _size(2, 2, 3.8), below=2, heading=heading, of_all=True)


def draw_bytes(found: Priced) -> Figure:
    """Draw the error against the bytes, both as shares of those of ideal links, and mark the least bytes."""
    cells = list(dict.fromkeys((problem, batch) for problem, batch, _ in found))
    bits = sorted({thrift.bits for _, _, thrift in found}, reverse=True)
    triggers = sorted({(thrift.decay < 1.0, thrift.threshold) for _, _, thrift in found})
    colors, markers = (
        dict(zip(bits, style.CLASS_COLORS, strict=False)),
        dict(zip(triggers, style.CLASS_MARKERS, strict=False)),
    )
    panels = []
    for problem, batch in cells:
        cost = shares(found, problem, batch)
        curves = []
        for thrift, (sent, error) in cost.items():
            marker = markers[thrift.decay < 1.0, thrift.threshold]
            curves.append(Curve([sent], [error], colors[thrift.bits], None, "none", marker, 6))
        sent, error = cost[cheapest(cost)]
        curves += [
            Curve([sent], [error], style.BLACK, marker="o", size=15, look={"markerfacecolor": "none"}),
            Curve(None, NEAR, style.BLACK, dash=":", look={"linewidth": 1.0}),
            Curve(0.25, None, style.BLACK, dash=":", look={"linewidth": 1.0}),
        ]
        title = f"{problem.words}, {batch} {'sample' if batch == 1 else 'samples'} a round"
        panels.append(Panel(curves, title, "bytes, ideal links = 1", "error, ideal links = 1", "xy", "xy"))
    words = [("exact" if count == 64 else f"{count} bits", colors[count], "s") for count in bits]
    for fades, threshold in triggers:
        label = f"trigger {threshold:g}{', shrinking' if fades else ''}" if threshold else "no trigger"
        words.append((label, style.GREY, markers[fades, threshold]))
    legend = [Curve([], [], color, label, "none", marker, 6) for label, color, marker in words]
    panels[0] = replace(panels[0], curves=[*panels[0].curves, *legend])
    heading = (
        f"circles: the least bytes within {NEAR - 1:.0%} of the error of ideal links\n"
        "dotted: that error, and a quarter of the bytes"
    )
    columns = min(len(cells), 2)
    return drawn(panels, _size(len(cells), columns, 3.4), columns, 4, heading)


def reproduce(request: Request) -> Reproduction:
    """Networks on unreliable links: error and disagreement against loss, delay, sleep, few bits; error against bytes.

    What breaks first, which form survives, and what is saved at which price.
    """
    quick = request.quick
    one, every = (1, 3) if quick else (None, 1)
    count, rounds = (1, 300) if quick else (3, 1000)
    seeds = range(count * request.seed, count * (request.seed + 1))
    parts = [request.part(*ends) for ends in pairwise((0.0, 0.5, 0.7, 0.8, 0.95, 1.0))]
    words: dict[str, Outcome] = {}

    def measured(runs: Mapping[Key, Run]) -> dict[Key, Outcome]:
        outcomes = link_conditions.measured(runs, seeds, rounds, parts.pop(0))
        words.update({runs[key].words: one for key, one in outcomes.items()})
        return outcomes

    values = {name: sweep.values[1::3] if quick else sweep.values for name, sweep in SWEEPS.items()}
    found = measured(swept(link_conditions.PROBLEMS[:one], values))
    compared = measured(
        link_conditions.compared(
            link_conditions.FORM_PROBLEMS[:one], list(link_conditions.CONDITIONS)[:: 2 if quick else 1]
        )
    )
    strained = measured(
        link_conditions.strained(link_conditions.STRENGTHS[:: 4 if quick else 1], link_conditions.DELAYS[::every])
    )
    bits = (64, 8) if quick else link_conditions.BITS
    triggers = link_conditions.TRIGGERS[::every]
    priced = measured(
        link_conditions.priced(link_conditions.PRICED_PROBLEMS[:one], link_conditions.BATCHES, bits, triggers)
    )
    changed = measured(link_conditions.changing(link_conditions.CHANGING_PROBLEMS[: 2 if quick else None]))
    isolated = found["ideal", link_conditions.FORM_PROBLEMS[0], "isolated", 0.0].error
    return Reproduction(
        [
            *sweep_rows(found, "error"),
            *sweep_rows(found, "disagreement"),
            *link_conditions.rows(changed),
            *form_rows(compared),
            *strained_rows(strained),
            *byte_rows(priced),
        ],
        notes(count, rounds),
        {
            "unreliable_error": draw_sweeps(found, "error"),
            "unreliable_disagreement": draw_sweeps(found, "disagreement"),
            "unreliable_delay": draw_strained(strained, isolated),
            "unreliable_bytes": draw_bytes(priced),
        },
        {name: np.array(one, dtype=np.float64) for name, one in words.items()},
    )
