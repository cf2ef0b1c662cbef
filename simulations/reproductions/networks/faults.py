"""What becomes of the sound nodes of a network when others are faulty, with each defence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.running.simulation import simulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table = Mapping[str, Any]

PENALTY = 1.0
ROUNDS = 300
SEEDS = 5

GRAPHS: dict[str, Table] = {
    "ring": {"name": "ring", "nodes": 10},
    "geometric": {"name": "random_geometric", "nodes": 20, "radius": 0.4},
    "complete": {"name": "complete", "nodes": 10},
}
FAULTS: dict[str, Table] = {
    "data, large offset": {"kind": "offset"},
    "data, small offset": {"kind": "offset", "value": 0.9},
    "data, sign": {"kind": "sign"},
    "data, noise": {"kind": "noise"},
    "data, random": {"kind": "random"},
    "messages, large offset": {"kind": "offset", "of": "messages"},
    "messages, mirrored": {"kind": "target", "of": "messages"},
    "messages, silent": {"kind": "silent", "of": "messages"},
}
EVERY_SHARE = "data, large offset", "messages, large offset"
"""The faults that are measured at every share."""

SHARES = 0.1, 0.2, 0.3, 0.4
FEW_SHARES = 0.2, 0.4

FORMS: dict[str, Table] = {
    "isolated": {"name": "isolated"},
    "no defence": {"name": "consensus", "penalty": PENALTY},
    "trimmed": {"name": "consensus", "penalty": PENALTY, "robust": "trimmed"},
    "median": {"name": "consensus", "penalty": PENALTY, "robust": "median"},
    "clipped": {"name": "consensus", "penalty": PENALTY, "robust": "clipped"},
    "absolute": {"name": "consensus", "distance": "absolute"},
    "trust": {"name": "consensus", "penalty": PENALTY, "robust": "trust"},
    "proximity": {"name": "proximity"},
    "proximity, trust": {"name": "proximity", "robust": "trust"},
}
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
    cells = [
        cell
        for graph in graphs
        for cell in (Cell(graph, "", 0.0), *(Cell(graph, fault, share) for fault in faults for share in _shares(fault)))
    ]
    seeds = range(count * request.seed, count * (request.seed + 1))
    return shown(dict(measured(cells, seeds, rounds, request.tell)), count, rounds)


def measured(
    cells: list[Cell], seeds: range, rounds: int, tell: Callable[[str, float], None]
) -> Iterator[tuple[tuple[Cell, str], float]]:
    """Yield the median error of the sound nodes in every cell for every form; isolated nodes know of no others."""
    for place, cell in enumerate(cells):
        for form in FORMS:
            if form == "isolated" and cell.fault:
                continue
            tell(f"{cell.graph}, {cell.fault or 'clean'}, {cell.share:g}: {form}", place / len(cells))
            errors = [error(cell, form, seed, rounds) for seed in seeds]
            middle = float(np.median([np.inf if np.isnan(one) else one for one in errors]))
            yield (cell, form), middle if np.isfinite(middle) else np.nan


def error(cell: Cell, form: str, seed: int, rounds: int) -> float:
    """Return the error of the sound nodes after a run, on all nodes' true data; NaN where the run was stopped."""
    topology = GRAPHS[cell.graph]
    nodes = int(topology["nodes"])
    faulty = np.random.default_rng(seed).permutation(nodes)[: round(cell.share * nodes)].tolist()
    described = {
        "seed": seed,
        "rounds": rounds,
        "evaluate_every": rounds,
        "topology": dict(topology),
        "stream": {"name": "sine_regression", "noise": 0.3},
        "learner": "newton",
        "protocol": dict(FORMS[form]),
        "evaluation": {"rkhs_distance": False},
    }
    if cell.fault:
        described["fault"] = [{"nodes": faulty, **FAULTS[cell.fault]}]
    try:
        found = simulate(Experiment.from_dict(described)).final["global_error"]
    except SimulationError:
        return np.nan
    return np.nan if found is None else float(found)


def shown(found: Found, seeds: int, rounds: int) -> Reproduction:
    """Write the table and draw the figure of what was measured."""
    claims = [*_clean_rows(found), *_fault_rows(found), *_first_to_break(found), *_published(found)]
    notes = [
        f"{rounds} rounds, the learner newton, one sample a round, 2x + 3 sin 6x in noise of deviation 0.3; medians of "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}, whose faulty nodes are drawn. The error is that of the sound "
        f"nodes on true data. Consensus has the penalty {PENALTY:g}, with the absolute distance its automatic one.",
        "A large offset is three deviations of the targets, a small one three of the noise; noise and random values "
        "have three deviations of the targets, and one. What is mirrored is at the targets' mean. All faulty nodes "
        "of a run have the same fault: with an offset, or mirrored, they agree with one another.",
    ]
    arrays = {f"{form}: {cell.graph}, {cell.fault}, {cell.share:g}": np.array([v]) for (cell, form), v in found.items()}
    return Reproduction(claims, notes, {"faults": drawn(found)}, arrays)


def _shares(fault: str) -> tuple[float, ...]:
    return SHARES if fault in EVERY_SHARE else FEW_SHARES


def _number(value: float) -> str:
    return "stopped" if np.isnan(value) else f"{value:.3g}"


def _clean_rows(found: Found) -> Iterator[Claim]:
    graphs = list(dict.fromkeys(cell.graph for cell, _ in found))
    for form in FORMS:
        cells = " / ".join(_number(found[Cell(graph, "", 0.0), form]) for graph in graphs)
        yield Claim(f"error, nobody faulty, {form}", "", cells, ", ".join(graphs))


def _fault_rows(found: Found) -> Iterator[Claim]:
    for fault in dict.fromkeys(cell.fault for cell, _ in found if cell.fault):
        graphs = list(dict.fromkeys(cell.graph for cell, _ in found))
        for form in FORMS:
            if form == "isolated":
                continue
            cells = []
            for graph in graphs:
                errors = [_number(found[Cell(graph, fault, share), form]) for share in _shares(fault)]
                cells.append(f"{graph}: {' / '.join(errors)}")
            settings = "shares " + ", ".join(f"{share:g}" for share in _shares(fault))
            yield Claim(f"error, {fault}, {form}", "", "; ".join(cells), settings)


def _first_to_break(found: Found) -> Iterator[Claim]:
    """Say at which share each form first errs more than isolated nodes, over all faults and graphs."""
    for form in FORMS:
        if form == "isolated":
            continue
        broken = [
            cell
            for cell, name in found
            if name == form
            and cell.fault
            and not found[cell, form] <= BROKEN * found[Cell(cell.graph, "", 0.0), "isolated"]
        ]
        cells = sum(1 for cell, name in found if name == form and cell.fault)
        worst = max((found[cell, form] for cell in broken), default=np.nan)
        first = min(broken, key=lambda cell: cell.share, default=None)
        words = f"{len(broken)} of {cells}"
        if first is not None:
            words += f"; first with {first.share:g} faulty, {first.graph}, {first.fault}; at most {_number(worst)}"
        yield Claim(
            f"cells in which sound nodes err more than isolated ones, {form}", "", words, "all faults, all graphs"
        )


def _published(found: Found) -> Iterator[Claim]:
    """Check what is proved of trimmed means and medians where all nodes are neighbours."""
    for form in ("trimmed", "median"):
        for fault in EVERY_SHARE:
            cell = Cell("complete", fault, 0.2)
            bare, guarded = found[cell, "no defence"], found[cell, form]
            yield Claim(
                f"{form} against {fault}, complete, 0.2 faulty",
                "errors stay bounded while fewer answers are faulty than are left out at an end (Yin, Chen, "
                f"Ramchandran, Bartlett 2018); checked: below {BOUNDED:g} of the error without a defence",
                f"{_number(guarded)}, without {_number(bare)}",
                "consensus",
                not guarded >= BOUNDED * bare,
            )


def drawn(found: Found) -> Figure:
    """Draw the error against the share of faulty nodes, a panel for each graph and each fault with all shares."""
    from matplotlib.figure import Figure

    graphs = list(dict.fromkeys(cell.graph for cell, _ in found))
    faults = [fault for fault in EVERY_SHARE if any(cell.fault == fault for cell, _ in found)]
    figure = Figure(figsize=(3.3 * len(graphs), 2.9 * len(faults) + 0.8), layout="constrained")
    axes = figure.subplots(len(faults), len(graphs), squeeze=False, sharey=True)
    drawn_forms = [form for form in FORMS if form not in ("isolated", "proximity, trust")]
    for row, fault in zip(axes, faults, strict=True):
        for ax, graph in zip(row, graphs, strict=True):
            clean = Cell(graph, "", 0.0)
            for place, form in enumerate(drawn_forms):
                errors = [found[clean, form], *(found[Cell(graph, fault, share), form] for share in SHARES)]
                color = style.BLACK if form == "no defence" else style.CLASS_COLORS[place]
                marker = style.CLASS_MARKERS[place % len(style.CLASS_MARKERS)]
                ax.plot([0.0, *SHARES], errors, color=color, marker=marker, markersize=4, label=form)
            ax.axhline(found[clean, "isolated"], color=style.BLACK, linestyle="--", linewidth=1.0, label="isolated")
            ax.set_yscale("log")
            ax.set_title(f"{graph}: {fault}", fontsize=9)
            ax.set_xlabel("share of faulty nodes")
        row[0].set_ylabel("error of the sound nodes")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 if len(graphs) == 1 else 4)
    return figure
