"""SURVEY section III, proximity: tolerances from 0 to infinity where the nodes' targets differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.sheets import Sheet
from kernelswarm.simulations.reproductions.survey_networks import (
    FIELD,
    GRAPHS,
    SIZES,
    Outcome,
    arrays,
    figure,
    hyphened,
    measured,
)

SHEET = Sheet("survey-proximity", globals())


TOLERANCES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 1e9)
"""The last is larger than any squared difference: no constraint."""

PENALTIES = (0.1, 1.0, 10.0, 1000.0)
FORMS = ("one_sided", "symmetric")
ROUNDS, SEEDS = 800, 3


class Setting(NamedTuple):
    """One network under one rule: proximity with its tolerance, consensus with its penalty, isolated or adaptive."""

    nodes: int
    graph: str
    rule: str
    form: str
    value: float


def reproduce(request: Request) -> Reproduction:
    """SURVEY section III-B: tolerances from none to infinite, with consensus and isolated learning as their ends."""
    sizes, rounds, seeds = ((5, 10), 400, 1) if request.quick else (SIZES, ROUNDS, SEEDS)
    found = measured(_settings(sizes), _protocol, FIELD, rounds, seeds, request)
    said = SHEET.given(rounds=rounds, drawn="one seed" if seeds == 1 else f"{seeds} seeds")
    figures = {"survey_proximity": figure(said, GRAPHS, _shown(found, sizes[-1]))}
    return said.found([*_claims(found, sizes)], arrays(found, GRAPHS, RULES, FORMS), figures)


RULES = ("isolated", "consensus", "proximity", "adaptive")


def _settings(sizes: tuple[int, ...]) -> Iterator[Setting]:
    for nodes, name in product(sizes, GRAPHS):
        yield Setting(nodes, name, "isolated", "one_sided", 0.0)
        for form in FORMS:
            yield Setting(nodes, name, "adaptive", form, 2.0)
            yield from (Setting(nodes, name, "consensus", form, penalty) for penalty in PENALTIES)
            yield from (Setting(nodes, name, "proximity", form, tolerance) for tolerance in TOLERANCES)


def _protocol(setting: Setting) -> dict[str, Any]:
    if setting.rule == "isolated":
        return {"name": "isolated"}
    if setting.rule == "consensus":
        return {"name": "consensus", "penalty": setting.value, "form": setting.form}
    gamma = setting.value if setting.rule == "proximity" else {"name": "adaptive", "scale": setting.value}
    return {"name": "proximity", "gamma": gamma, "form": setting.form, "dual_step": 1.0}


def _claims(found: Mapping[Setting, Outcome], sizes: tuple[int, ...]) -> Iterator[Claim]:
    networks = [*product(sizes, GRAPHS)]
    for form in FORMS:
        ends, falls, between, adaptive = [], [], [], []
        for network in networks:
            alone = found[Setting(*network, "isolated", "one_sided", 0.0)].error
            line = [found[Setting(*network, "proximity", form, tolerance)] for tolerance in TOLERANCES]
            errors = [entry.error for entry in line]
            ends.append(abs(errors[-1] / alone - 1.0))
            falls.append(line[0].disagreement < line[4].disagreement < line[-1].disagreement)
            between.append(min(errors[1:-1]) < min(errors[0], errors[-1]))
            tuned = min(found[Setting(*network, "consensus", form, penalty)].error for penalty in PENALTIES)
            adaptive.append(found[Setting(*network, "adaptive", form, 2.0)].error / min(tuned, alone))
        of = SHEET.given(form=form, ends=ends, falls=falls, between=between, adaptive=adaptive)
        yield of.claim("infinite", max(ends) < 0.01)
        yield of.claim("disagreement", all(falls))
        yield of.claim("best", all(between))
        yield of.claim("learned")
    nodes = sizes[-1]
    for name in GRAPHS:
        rules = {
            "isolated:": ("isolated", "one_sided", 0.0),
            **{f"c = {c:g}:": ("consensus", "symmetric", c) for c in PENALTIES[:3]},
            **{f"gamma = {g:g}:": ("proximity", "symmetric", g) for g in (0.0, 0.1, 1.0)},
            "adaptive:": ("adaptive", "symmetric", 2.0),
        }
        rows = {label: found[Setting(nodes, name, *rule)] for label, rule in rules.items()}
        by_label, orders = ({label: getattr(row, of) for label, row in rows.items()} for of in ("error", "order"))
        yield SHEET.claim("error", name=name, nodes=nodes, errors=by_label)
        yield SHEET.claim("order", name=name, nodes=nodes, orders=orders)


def _shown(found: Mapping[Setting, Outcome], nodes: int) -> dict[str, Any]:
    """Return what the sheet draws: by graph and form the errors and disagreements over the tolerance, and controls."""
    shown: dict[str, Any] = {"nodes": nodes, "inner": TOLERANCES[1:-1]}
    for name in GRAPHS:
        for form in FORMS:
            rows = [found[Setting(nodes, name, "proximity", form, gamma)] for gamma in TOLERANCES[1:-1]]
            key = f"{name}, {hyphened(form)}"
            shown |= {f"{key}: {of}": [getattr(row, of) for row in rows] for of in ("error", "disagreement")}
            shown[f"{key}: adaptive"] = found[Setting(nodes, name, "adaptive", form, 2.0)].error
        tuned = [found[Setting(nodes, name, "consensus", "symmetric", penalty)] for penalty in PENALTIES]
        best = min(tuned, key=lambda row: row.error)
        for rule, row in ("isolated", found[Setting(nodes, name, "isolated", "one_sided", 0.0)]), ("consensus", best):
            shown |= {f"{name}, {rule}: error": row.error, f"{name}, {rule}: disagreement": row.disagreement}
    return shown
