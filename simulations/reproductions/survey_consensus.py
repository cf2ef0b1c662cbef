"""SURVEY section III, consensus: networks of four sizes on four graphs, at penalties from 0 to 1,000."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request, Table, beyond, errs_more
from kernelswarm.simulations.reproductions.sheets import Sheet
from kernelswarm.simulations.reproductions.survey_networks import (
    GRAPHS,
    SINE,
    SIZES,
    Outcome,
    arrays,
    figure,
    graph,
    hyphened,
    measured,
    outcome,
)

SHEET = Sheet("survey-consensus", globals())


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
    found = measured(_settings(sizes), _rule, SINE, rounds, seeds, request)
    tried = _tried(_level(found, sizes), rounds, range(request.seed, request.seed + seeds))
    said = SHEET.given(rounds=rounds, drawn="one seed" if seeds == 1 else f"{seeds} seeds")
    figures = {"survey_consensus": figure(said, GRAPHS, _shown(found, sizes[-1]))}
    return said.found([*_claims(found, sizes, rounds), *tried], arrays(found, GRAPHS, FORMS, STEPS), figures)


def _rule(setting: Setting) -> Table | str:
    protocol = {"name": "consensus", "penalty": setting.penalty, "form": setting.form, "step": setting.step}
    return CONTROLS.get(setting.penalty, protocol)


def _settings(sizes: tuple[int, ...]) -> Iterator[Setting]:
    for nodes, name in product(sizes, GRAPHS):
        yield from (Setting(nodes, name, "", "", penalty) for penalty in CONTROLS)
        yield from (Setting(nodes, name, *keys) for keys in product(FORMS, STEPS, PENALTIES))


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
                runs = [outcome(topology, SINE, _rule(setting), rounds, seed, **keys) for seed in seeds]
                ends.append([run.disagreement for run in runs])
            ratios = [after / before for before, after in zip(*ends, strict=True)]
            of = SHEET.given(low=low._asdict(), high=high._asdict(), words=words)
            yield of.claim("tried", ratios=ratios, disagreement=ends[1])


def _claims(found: Mapping[Setting, Outcome], sizes: tuple[int, ...], rounds: int) -> Iterator[Claim]:
    for form, step in product(FORMS, STEPS):
        runs = {key: entry for key, entry in found.items() if (key.form, key.step) == (form, step)}
        ended = [key.penalty for key, entry in runs.items() if not entry.failure]
        falls = [_falls(found[low], found[high]) for low, high in _steps_of_penalty(runs, sizes)]
        of = SHEET.given(form=form, step=step, runs=list(runs), falls=falls, rounds=rounds)
        yield of.claim("stability", failed=len(runs) - len(ended), largest=max(ended, default=math.nan))
        yield of.claim("disagreement", bool(falls) and all(falls))
    for name in GRAPHS:
        ours, alone, central = (
            [found[Setting(nodes, name, *rule)] for nodes in sizes]
            for rule in (("symmetric", "implicit", BEST), ("", "", -2.0), ("", "", -1.0))
        )
        errors = ", ".join(
            f"{nodes} nodes {mine.error:.3f} (alone {one.error:.3f}, centralized {whole.error:.3f})"
            for nodes, mine, one, whole in zip(sizes, ours, alone, central, strict=True)
        )
        theirs, own = ([error for entry in each for error in entry.errors] for each in (alone, ours))
        ended_all = len(theirs) == len(own) > 0
        difference = f"; in all networks and seeds {beyond(theirs, own)}" if ended_all else ""
        orders = ", ".join(f"{mine.order:.1f} (alone {one.order:.1f})" for mine, one in zip(ours, alone, strict=True))
        sent = [mine.scalars / rounds for mine in ours]
        of = SHEET.given(name=name, errors=errors + difference, orders=orders, sent=sent)
        yield of.claim("error", errs_more(theirs, own) if ended_all else False)
        yield of.claim("order")
        yield of.claim("sent")


def _shown(found: Mapping[Setting, Outcome], nodes: int) -> dict[str, Any]:
    """Return what the sheet draws: by graph and form the errors and disagreements of runs that ended, and controls."""
    shown: dict[str, Any] = {"nodes": nodes}
    for name in GRAPHS:
        for form, step in product(FORMS, STEPS):
            rows = {c: found[Setting(nodes, name, form, step, c)] for c in PENALTIES[1:]}
            ended = {c: row for c, row in rows.items() if not row.failure}
            key = f"{name}, {hyphened(form)}, {step}"
            shown |= {f"{key}: c": [*ended], f"{key}: error": [row.error for row in ended.values()]}
            shown[f"{key}: disagreement"] = [row.disagreement for row in ended.values()]
        shown |= {f"{name}, {rule}": found[Setting(nodes, name, "", "", key)].error for key, rule in CONTROLS.items()}
    return shown
