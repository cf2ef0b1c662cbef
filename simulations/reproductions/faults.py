"""What becomes of the sound nodes of a network when others are faulty, with each defence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.sheets import Sheet, tables
from kernelswarm.simulations.reproductions.survey_networks import ended

SHEET = Sheet("faults", globals())


PENALTY = 1.0
ROUNDS = 300
SEEDS = 5

GRAPHS, FAULTS, FORMS, STROKES = (tables(SHEET.name)[kind] for kind in ("graphs", "faults", "forms", "strokes"))
EVERY_SHARE = "data, large offset", "messages, large offset"
"""The faults that are measured at every share."""

SHARES = 0.1, 0.2, 0.3, 0.4
FEW_SHARES = 0.2, 0.4

BOUNDED = 0.5
"""What is left of an error, at most, where a defence bounds it."""

BROKEN = 1.0
"""A form breaks where the sound nodes err more than so many times as much as isolated ones."""


class Cell(NamedTuple):
    """A graph with a share of its nodes faulty in a way; the clean one has no fault and the share 0."""

    graph: str
    fault: str = ""
    share: float = 0.0


Found = Mapping[tuple[Cell, str], float]
"""The median error of each form in each cell; NaN where most runs were stopped."""


def reproduce(request: Request) -> Reproduction:
    """Faulty nodes: error of the sound ones against the share of faulty ones, for each fault and each defence.

    What breaks first, and what a defence costs where nobody is faulty.
    """
    graphs = ["complete"] if request.quick else list(GRAPHS)
    faults = EVERY_SHARE if request.quick else tuple(FAULTS)
    count, rounds = (1, 100) if request.quick else (SEEDS, ROUNDS)
    seeds = range(count * request.seed, count * (request.seed + 1))
    pairs = []
    for graph in graphs:
        cells = [Cell(graph, fault, share) for fault in faults for share in _shares(fault)]
        pairs += [
            (cell, form) for cell in (Cell(graph), *cells) for form in FORMS if form != "isolated" or not cell.fault
        ]
    found = {}
    for cell, form in request.each(pairs, lambda pair: f"{pair[0].graph}, {pair[0].fault or 'clean'}: {pair[1]}"):
        errors = np.array([error(cell, form, seed, rounds) for seed in seeds])
        middle = float(np.median(np.where(np.isnan(errors), np.inf, errors)))
        found[cell, form] = middle if np.isfinite(middle) else np.nan
    arrays = {f"{form}: {cell.graph}, {cell.fault}, {cell.share:g}": np.array([v]) for (cell, form), v in found.items()}
    said = SHEET.given(rounds=rounds, seeds=count, words="seed" if count == 1 else "seeds")
    figure = _shown(found, graphs).figure("faults", "pictures", columns=len(graphs), below=2 if request.quick else 4)
    for axes in figure.axes:
        axes.title.set_fontsize(9)
    return said.found([*_claims(found, graphs, faults)], arrays, {"faults": figure})


def error(cell: Cell, form: str, seed: int, rounds: int) -> float:
    """Return the error of the sound nodes after a run, on all nodes' true data; NaN where the run was stopped."""
    topology = GRAPHS[cell.graph]
    nodes = int(topology["nodes"])
    faulty = np.random.default_rng(seed).permutation(nodes)[: round(cell.share * nodes)].tolist()
    fault: dict[str, Any] = {"fault": [{"nodes": faulty, **FAULTS[cell.fault]}]} if cell.fault else {}
    stream = {"name": "sine_regression", "noise": 0.3}
    tables = {"topology": topology, "stream": stream, "learner": "newton", "protocol": FORMS[form], **fault}
    result = ended(rounds, seed=seed, **tables)
    found = None if result is None else result.final["global_error"]
    return np.nan if found is None else float(found)


def _shares(fault: str) -> tuple[float, ...]:
    return SHARES if fault in EVERY_SHARE else FEW_SHARES


def _numbers(values: Iterable[float]) -> str:
    return " / ".join("stopped" if np.isnan(value) else f"{value:.3g}" for value in values)


def _claims(found: Found, graphs: Sequence[str], faults: Sequence[str]) -> Iterator[Claim]:
    """Yield the errors of all forms, where each first errs more than isolated nodes, and what is proved of two."""
    defended = [form for form in FORMS if form != "isolated"]
    for form in FORMS:
        errors = _numbers(found[Cell(graph), form] for graph in graphs)
        yield SHEET.claim("clean", form=form, errors=errors, graphs=", ".join(graphs))
    for fault, form in product(faults, defended):
        shares = _shares(fault)
        cells = {graph: _numbers(found[Cell(graph, fault, share), form] for share in shares) for graph in graphs}
        errors = "; ".join(f"{graph}: {numbers}" for graph, numbers in cells.items())
        yield SHEET.claim("fault", fault=fault, form=form, errors=errors, shares=shares)
    for form in defended:
        of = {cell: error for (cell, name), error in found.items() if name == form and cell.fault}
        broken = [cell for cell in of if not of[cell] <= BROKEN * found[Cell(cell.graph), "isolated"]]
        if broken:
            first, worst = min(broken, key=lambda cell: cell.share), _numbers([max(of[cell] for cell in broken)])
            yield SHEET.claim("breaks", form=form, broken=broken, cells=[*of], first=first._asdict(), worst=worst)
        else:
            yield SHEET.claim("bears", form=form, cells=[*of])
    for form, fault in product(("trimmed", "median"), EVERY_SHARE):
        bare, guarded = (found[Cell("complete", fault, 0.2), name] for name in ("no defence", form))
        words = {"guarded": _numbers([guarded]), "bare": _numbers([bare])}
        yield SHEET.claim("bounded", not guarded >= BOUNDED * bare, form=form, fault=fault, **words)


def _shown(found: Found, graphs: Sequence[str]) -> Sheet:
    """Return the sheet with the errors by the share of faulty nodes, for each graph and each fault with all shares."""
    forms = {form: STROKES[form] for form in FORMS if form in STROKES}
    said, panels = SHEET.given(forms=forms, shares=[0.0, *SHARES]), {}
    for fault, graph in product(EVERY_SHARE, graphs):
        cells = [Cell(graph), *(Cell(graph, fault, share) for share in SHARES)]
        said = said.given({f"{graph}: {fault}, {form}": [found[cell, form] for cell in cells] for form in forms})
        side = "error of the sound nodes" if graph == graphs[0] else ""
        panels[f"{graph}: {fault}"] = {"isolated": found[Cell(graph), "isolated"], "side": side}
    return said.given(panels=panels)
