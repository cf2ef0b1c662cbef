"""SURVEY section III, consensus: networks of four sizes on four graphs, at penalties from 0 to 1,000."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request, beyond, errs_more
from kernelswarm.simulations.reproductions.surveys.networks import GRAPHS, SINE, SIZES, Outcome, graph, mean, outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PENALTIES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
FORMS, STEPS = ("one_sided", "symmetric"), ("explicit", "implicit")
ROUNDS, SEEDS = 500, 2
BEST = 10.0
"""The penalty that the networks' errors are compared at; larger ones are no better where they are stable."""


ROUNDING = 1e-9
"""A disagreement that is less by no more than this share of it has not fallen."""

TRIED: dict[str, dict[str, Any]] = {
    "as above": {},
    "step size 0.03": {"step_size": 0.03},
    "step size 0.01": {"step_size": 0.01},
    "step size 0.001": {"step_size": 0.001},
    "step size 0.1, budget epsilon = 1e-6": {"budget": {"epsilon": 1e-6}},
}
"""What is tried where the disagreement does not fall with the penalty."""


class Setting(NamedTuple):
    """One network under one protocol; a penalty of -1 is centralized, -2 isolated."""

    nodes: int
    graph: str
    form: str
    step: str
    penalty: float


CONTROLS = {-2.0: "isolated", -1.0: "centralized"}


def reproduce(request: Request) -> Reproduction:
    """SURVEY section III-A: error, disagreement, size and traffic of consensus, beside isolated and centralized."""
    sizes, rounds, seeds = ((5, 10), 300, 1) if request.quick else (SIZES, ROUNDS, SEEDS)
    settings = list(_settings(sizes))
    found: dict[Setting, Outcome] = {}
    for place, setting in enumerate(settings):
        request.tell(f"{setting.nodes} nodes, {setting.graph}", place / len(settings))
        protocol = {"name": "consensus", "penalty": setting.penalty, "form": setting.form, "step": setting.step}
        topology = graph(setting.graph, setting.nodes)
        rule = CONTROLS.get(setting.penalty, protocol)
        found[setting] = mean([outcome(topology, SINE, rule, rounds, request.seed + draw) for draw in range(seeds)])
    claims = [
        *_claims(found, sizes, rounds),
        *_tried(_level(found, sizes), rounds, range(request.seed, request.seed + seeds)),
    ]
    return Reproduction(
        claims=claims,
        notes=_notes(rounds, seeds),
        figures={"survey_consensus": _figure(found, sizes)},
        arrays={
            "settings": np.array([_numbers(setting) for setting in found]),
            "outcomes": np.array([entry[:7] for entry in found.values()]),
        },
    )


def _settings(sizes: tuple[int, ...]) -> Iterator[Setting]:
    for nodes in sizes:
        for name in GRAPHS:
            for penalty in CONTROLS:
                yield Setting(nodes, name, "", "", penalty)
            for form in FORMS:
                for step in STEPS:
                    for penalty in PENALTIES:
                        yield Setting(nodes, name, form, step, penalty)


def _numbers(setting: Setting) -> list[float]:
    form = FORMS.index(setting.form) if setting.form else -1
    step = STEPS.index(setting.step) if setting.step else -1
    return [setting.nodes, GRAPHS.index(setting.graph), form, step, setting.penalty]


def _steps_of_penalty(found: Mapping[Setting, Outcome], sizes: tuple[int, ...]) -> Iterator[tuple[Setting, Setting]]:
    """Yield the settings, with a penalty and with ten times as much, in which both runs ended."""
    for low, high in pairwise(PENALTIES[1:5]):
        for setting in found:
            other = setting._replace(penalty=high)
            if setting.penalty != low or setting.nodes not in sizes:
                continue
            if not (found[setting].failure or found[other].failure):
                yield setting, other


def _level(found: Mapping[Setting, Outcome], sizes: tuple[int, ...]) -> list[tuple[Setting, Setting]]:
    """Return the steps of the penalty by which the disagreement does not fall by more than rounding."""
    return [(low, high) for low, high in _steps_of_penalty(found, sizes) if not _falls(found[low], found[high])]


def _falls(low: Outcome, high: Outcome) -> bool:
    return high.disagreement < (1.0 - ROUNDING) * low.disagreement


def _tried(level: Sequence[tuple[Setting, Setting]], rounds: int, seeds: Sequence[int]) -> Iterator[Claim]:
    """Write what else was tried where the disagreement does not fall: other steps, and hardly any compression."""
    for low, high in level:
        topology = graph(low.graph, low.nodes)
        for words, keys in TRIED.items():
            ends = []
            for setting in (low, high):
                rule = {"name": "consensus", "penalty": setting.penalty, "form": setting.form, "step": setting.step}
                ends.append([outcome(topology, SINE, rule, rounds, seed, **keys).disagreement for seed in seeds])
            ratios = ", ".join(f"{after / before:.4g}" for before, after in zip(*ends, strict=True))
            yield Claim(
                f"disagreement, {low.form}, {low.step}, {low.nodes} nodes, {low.graph}: tried",
                "",
                f"{ratios} times what it is at c = {low.penalty:g}, by seed; {np.mean(ends[1]):.3g}",
                f"c = {high.penalty:g}, {words}",
            )


def _claims(found: Mapping[Setting, Outcome], sizes: tuple[int, ...], rounds: int) -> list[Claim]:
    claims = []
    for form in FORMS:
        for step in STEPS:
            runs = {key: entry for key, entry in found.items() if (key.form, key.step) == (form, step)}
            failed = [key for key, entry in runs.items() if entry.failure]
            largest = max((key.penalty for key in runs if key not in failed), default=math.nan)
            words = f"{form}, {step}"
            measured = f"{len(failed)} of {len(runs)} refused or diverged; the largest penalty that ends is {largest:g}"
            claims.append(Claim(f"stability, {words}", "", measured, f"c = 0 to 1,000, {rounds} rounds"))
            falls = [_falls(found[low], found[high]) for low, high in _steps_of_penalty(runs, sizes)]
            measured = f"falls in {sum(falls)} of {len(falls)} steps of c by ten"
            published = "falls with c, O(1/c) (section III-A)"
            claims.append(
                Claim(f"disagreement, {words}", published, measured, "c = .01 to 10", bool(falls) and all(falls))
            )
    for name in GRAPHS:
        rows = [(nodes, name) for nodes in sizes]
        ours = [found[Setting(*network, "symmetric", "implicit", BEST)] for network in rows]
        alone = [found[Setting(*network, "", "", -2.0)] for network in rows]
        central = [found[Setting(*network, "", "", -1.0)] for network in rows]
        measured = ", ".join(
            f"{nodes} nodes {mine.error:.3f} (alone {one.error:.3f}, centralized {whole.error:.3f})"
            for (nodes, _), mine, one, whole in zip(rows, ours, alone, central, strict=True)
        )
        theirs, own = ([error for entry in each for error in entry.errors] for each in (alone, ours))
        ended = len(theirs) == len(own) > 0
        below = errs_more(theirs, own) if ended else False
        measured += f"; in all networks and seeds {beyond(theirs, own)}" if ended else ""
        published = "below learning alone (section III)"
        claims.append(Claim(f"error, {name}", published, measured, f"c = {BEST:g}, symmetric, implicit", below))
        sizes_of = ", ".join(f"{mine.order:.1f} (alone {one.order:.1f})" for mine, one in zip(ours, alone, strict=True))
        sent = ", ".join(f"{mine.scalars / rounds:.0f}" for mine in ours)
        claims.append(Claim(f"model order, {name}", "", sizes_of, f"c = {BEST:g}, symmetric, implicit"))
        claims.append(Claim(f"scalars a round, {name}", "", sent, f"c = {BEST:g}, symmetric, implicit"))
    return claims


def _notes(rounds: int, seeds: int) -> list[str]:
    drawn = "one seed" if seeds == 1 else f"{seeds} seeds"
    return [
        f"The survey prints no experiment on networks; these are ours, for what its section III says. {rounds} "
        f"samples a node of y = 2x + 3 sin 6x + noise of deviation 0.5 on [0, 1], means over {drawn}; "
        "POLK, bandwidth 0.1, step size 0.1, budget per_sample 0.2. Errors are mean squares against "
        "the noise-free target.",
        "Grids are 1 x 5, 2 x 5, 4 x 5 and 5 x 10; Erdos-Renyi graphs have edges with probability 2 log(n) / n. "
        "Centralized takes a step on every node's sample in a round. What stands in no claim is in numbers.npz. It has "
        "a row of settings (nodes, graph, form, step, penalty; -1 is centralized, -2 isolated). Each has a row of "
        "outcomes (error, risk, progressive risk, disagreement, model order, scalars, violation).",
        "An explicit run is refused where the stability rule is broken at its start; the survey states none. "
        "Beyond what a pair of neighbours bears, a larger penalty changes nothing in an implicit step. Disagreement "
        "then stays where it is, on the complete graph of 50 nodes from a penalty of 1 on. It has fallen "
        "where it is less by more than rounding. Where it has not, other step sizes were tried, and hardly any "
        "compression, on the same samples. The smaller the step, the larger the penalty that still tells.",
        "An error is below learning alone where it is less on the same graphs and seeds by more than two standard "
        "errors of the difference.",
    ]


def _figure(found: Mapping[Setting, Outcome], sizes: tuple[int, ...]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.0 * len(GRAPHS), 5.6), layout="constrained")
    places = figure.subplots(2, len(GRAPHS), sharex=True, sharey="row", squeeze=False)
    nodes = sizes[-1]
    shown = [(form, step) for form in FORMS for step in STEPS]
    colors = (style.VERMILLION, style.PURPLE, style.BLUE, style.GREEN)
    for column, name in enumerate(GRAPHS):
        for (form, step), color, dash in zip(shown, colors, style.DASHES, strict=False):
            ended = [c for c in PENALTIES[1:] if not found[Setting(nodes, name, form, step, c)].failure]
            rows = [found[Setting(nodes, name, form, step, c)] for c in ended]
            look = {
                "color": color,
                "linestyle": dash,
                "marker": "o",
                "markersize": 3,
                "label": f"{form.replace('_', '-')}, {step}",
            }
            places[0, column].loglog(ended, [row.error for row in rows], **look)
            places[1, column].loglog(ended, [row.disagreement for row in rows], **look)
        for penalty, rule in CONTROLS.items():
            color, dash, _ = style.PROTOCOLS[rule]
            level = found[Setting(nodes, name, "", "", penalty)].error
            places[0, column].axhline(level, color=color, linestyle=dash, label=rule)
        places[0, column].set_title(f"{name.replace('_', '-')}, {nodes} nodes")
        places[1, column].set_xlabel("penalty c")
    places[0, 0].set_ylabel("error")
    places[1, 0].set_ylabel("disagreement")
    figure.legend(*places[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure
