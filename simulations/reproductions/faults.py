"""What becomes of the sound nodes of a network when others are faulty, with each defence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Curve, Figure, Panel, Reproduction, Request, drawn
from kernelswarm.simulations.reproductions.sheets import Sheet, tables
from kernelswarm.simulations.reproductions.survey_networks import ended

SHEET = Sheet("faults", globals())


Table = Mapping[str, Any]

PENALTY = 1.0
ROUNDS = 300
SEEDS = 5

GRAPHS, FAULTS, FORMS = (tables(SHEET.name)[kind] for kind in ("graphs", "faults", "forms"))
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
    fault: str
    share: float


Found = Mapping[tuple[Cell, str], float]
"""The median error of each form in each cell; NaN where most runs were stopped."""


def reproduce(request: Request) -> Reproduction:
    """Faulty nodes: error of the sound ones against the share of faulty ones, for each fault and each defence.

    What breaks first, and what a defence costs where nobody is faulty.
    """
    graphs = ("complete",) if request.quick else tuple(GRAPHS)
    faults = EVERY_SHARE if request.quick else tuple(FAULTS)
    count, rounds = (1, 100) if request.quick else (SEEDS, ROUNDS)
    seeds = range(count * request.seed, count * (request.seed + 1))
    cells = [
        cell
        for graph in graphs
        for cell in (Cell(graph, "", 0.0), *(Cell(graph, fault, share) for fault in faults for share in _shares(fault)))
    ]
    pairs = [(cell, form) for cell in cells for form in FORMS if form != "isolated" or not cell.fault]
    found = {}
    for cell, form in request.each(pairs, lambda pair: f"{pair[0].graph}, {pair[0].fault or 'clean'}: {pair[1]}"):
        errors = np.array([error(cell, form, seed, rounds) for seed in seeds])
        middle = float(np.median(np.where(np.isnan(errors), np.inf, errors)))
        found[cell, form] = middle if np.isfinite(middle) else np.nan
    arrays = {f"{form}: {cell.graph}, {cell.fault}, {cell.share:g}": np.array([v]) for (cell, form), v in found.items()}
    said = SHEET.given(rounds=rounds, seeds=count, words="seed" if count == 1 else "seeds")
    return said.found([*_claims(found)], arrays, {"faults": _figure(found)})


def error(cell: Cell, form: str, seed: int, rounds: int) -> float:
    """Return the error of the sound nodes after a run, on all nodes' true data; NaN where the run was stopped."""
    topology = GRAPHS[cell.graph]
    nodes = int(topology["nodes"])
    faulty = np.random.default_rng(seed).permutation(nodes)[: round(cell.share * nodes)].tolist()
    fault: dict[str, Any] = {"fault": [{"nodes": faulty, **FAULTS[cell.fault]}]} if cell.fault else {}
    result = ended(
        rounds,
        seed=seed,
        topology=dict(topology),
        stream={"name": "sine_regression", "noise": 0.3},
        learner="newton",
        protocol=dict(FORMS[form]),
        **fault,
    )
    found = None if result is None else result.final["global_error"]
    return np.nan if found is None else float(found)


def _shares(fault: str) -> tuple[float, ...]:
    return SHARES if fault in EVERY_SHARE else FEW_SHARES


def _numbers(values: Iterable[float]) -> str:
    return " / ".join("stopped" if np.isnan(value) else f"{value:.3g}" for value in values)


def _claims(found: Found) -> Iterator[Claim]:
    """Yield the errors of all forms, where each first errs more than isolated nodes, and what is proved of two."""
    graphs, defended = _graphs(found), [form for form in FORMS if form != "isolated"]
    for form in FORMS:
        errors = _numbers(found[Cell(graph, "", 0.0), form] for graph in graphs)
        yield SHEET.claim("clean", form=form, errors=errors, graphs=", ".join(graphs))
    for fault, form in product(dict.fromkeys(cell.fault for cell, _ in found if cell.fault), defended):
        shares = _shares(fault)
        cells = {graph: _numbers(found[Cell(graph, fault, share), form] for share in shares) for graph in graphs}
        errors = "; ".join(f"{graph}: {numbers}" for graph, numbers in cells.items())
        yield SHEET.claim("fault", fault=fault, form=form, errors=errors, shares=shares)
    for form in defended:
        cells_of = [cell for cell, name in found if name == form and cell.fault]
        broken = [
            cell for cell in cells_of if not found[cell, form] <= BROKEN * found[Cell(cell.graph, "", 0.0), "isolated"]
        ]
        if broken:
            first, worst = min(broken, key=lambda cell: cell.share), max(found[cell, form] for cell in broken)
            of = SHEET.given(first=first._asdict(), worst=_numbers([worst]))
            yield of.claim("breaks", form=form, broken=broken, cells=cells_of)
        else:
            yield SHEET.claim("bears", form=form, cells=cells_of)
    for form, fault in product(("trimmed", "median"), EVERY_SHARE):
        bare, guarded = (found[Cell("complete", fault, 0.2), name] for name in ("no defence", form))
        of = SHEET.given(form=form, fault=fault, guarded=_numbers([guarded]), bare=_numbers([bare]))
        yield of.claim("bounded", not guarded >= BOUNDED * bare)


def _graphs(found: Found) -> list[str]:
    return list(dict.fromkeys(cell.graph for cell, _ in found))


def _figure(found: Found) -> Figure:
    """Draw the error against the share of faulty nodes, a panel for each graph and each fault with all shares."""
    graphs = _graphs(found)
    faults = [fault for fault in EVERY_SHARE if any(cell.fault == fault for cell, _ in found)]
    forms = [form for form in FORMS if form not in ("isolated", "proximity, trust")]
    panels = []
    for fault, graph in product(faults, graphs):
        clean = Cell(graph, "", 0.0)
        curves = []
        for place, form in enumerate(forms):
            errors = [found[clean, form], *(found[Cell(graph, fault, share), form] for share in SHARES)]
            color = style.BLACK if form == "no defence" else style.CLASS_COLORS[place]
            marker = style.CLASS_MARKERS[place % len(style.CLASS_MARKERS)]
            curves.append(Curve([0.0, *SHARES], errors, color, form, marker=marker))
        alone = found[clean, "isolated"]
        curves.append(Curve(None, alone, style.BLACK, "isolated", "--", look={"linewidth": 1.0}))
        y = "" if graph != graphs[0] else "error of the sound nodes"
        panels.append(Panel(curves, f"{graph}: {fault}", "share of faulty nodes", y, log="y"))
    size, columns = (3.3 * len(graphs), 2.9 * len(faults) + 0.8), len(graphs)
    figure = drawn(panels, size, columns, 2 if columns == 1 else 4, sharey=True)
    for axes in figure.axes:
        axes.title.set_fontsize(9)
    return figure
