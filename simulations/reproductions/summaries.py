"""What travelling means of samples err and send beside functions that are coupled, and beside data sent to all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import (
    Claim,
    Curve,
    Panel,
    Reproduction,
    Request,
    beyond,
    drawn,
    errs_more,
    spread,
)
from kernelswarm.simulations.reproductions.survey_networks import ended

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SEEDS = 6
PATCHES: dict[str, Any] = {"name": "sine_regression", "noise": 0.5, "split": "patches", "overlap": 0.3}
GEOMETRIC: dict[str, Any] = {"name": "random_geometric", "nodes": 20, "radius": 0.38}
LIARS = {"kind": "offset", "value": 20.0, "of": "messages", "nodes": [0, 3]}


class Problem(NamedTuple):
    """A network with its samples; ``pooled`` where a node is measured on all nodes' inputs, not on its own."""

    topology: dict[str, Any]
    stream: dict[str, Any]
    rounds: int
    pooled: bool


PROBLEMS = {
    "patches, ring": Problem({"name": "ring", "nodes": 8}, PATCHES, 500, True),
    "patches, geometric": Problem({**GEOMETRIC, "radius": 0.35}, PATCHES, 500, True),
}
FIELDS = {
    f"field, length {length:g}": Problem(
        GEOMETRIC, {"name": "sensor_field", "noise": 1.5, "length": length}, 300, False
    )
    for length in (2.0, 10.0)
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "isolated": {"name": "isolated"},
    "consensus": {"name": "consensus", "replay": 1, "certainty": 4},
    "flooding": {"name": "flooding"},
    "centralized": {"name": "centralized"},
    "summaries": {"name": "summaries"},
}
SENT_LIES = {"consensus": {"name": "consensus", "replay": 1}, "summaries": PROTOCOLS["summaries"]}
"""With liars: certainty is refused there, and the other rows send no values."""

Found = Mapping[tuple[str, str], Array]
"""Errors and megabytes of each seed, (2, S), by problem and protocol."""


def reproduce(request: Request) -> Reproduction:
    """Travelling means of samples: error and bytes beside consensus, isolated nodes and data sent to all, with liars.

    All rows have the same draws, and `newton` with its defaults.
    """
    seeds = 1 if request.quick else SEEDS
    problems = PROBLEMS | FIELDS
    runs = [(name, protocol, False) for name in problems for protocol in PROTOCOLS]
    runs += [(name, protocol, True) for name in FIELDS for protocol in SENT_LIES]
    found = {}
    for name, protocol, lies in request.each(runs, lambda run: f"{run[0]}: {run[1]}"):
        key = f"{name}, liars" if lies else name
        draws = range(seeds * request.seed, seeds * (request.seed + 1))
        found[key, protocol] = np.array([outcome(problems[name], protocol, lies, seed) for seed in draws]).T
    arrays = {f"{name}: {protocol}": outcomes for (name, protocol), outcomes in found.items()}
    return Reproduction([*_claims(found), *_rows(found)], _notes(seeds), {"summaries": _figure(found)}, arrays)


def outcome(problem: Problem, protocol: str, lies: bool, seed: int) -> tuple[float, float]:
    """Return the error and the megabytes of one run; NaN where it was stopped."""
    fault: dict[str, Any] = {"fault": [dict(LIARS)]} if lies else {}
    result = ended(
        problem.rounds,
        seed=seed,
        topology=dict(problem.topology),
        stream=dict(problem.stream),
        learner="newton",
        protocol=dict((SENT_LIES if lies else PROTOCOLS)[protocol]),
        **fault,
    )
    if result is None:
        return np.nan, np.nan
    error = result.final["global_error" if problem.pooled else "error"]
    return float(np.nan if error is None else error), float(result.final["bytes_sent"] or 0.0) / 1e6


def _claims(found: Found) -> Iterator[Claim]:
    """Check what docs/summaries.md says, on paired draws."""
    for name in PROBLEMS:
        yield _less(found, name, "consensus", "where nodes see parts of the inputs, summaries err less than consensus")
        (errors, sent), others = found[name, "summaries"], found[name, "consensus"]
        share = float(sent.mean() / others[1].mean())
        yield Claim(
            f"{name}: bytes", "a fifth of those of consensus, at most", f"{share:.2f} of them", "means", share <= 0.2
        )
        ratio = float(errors.mean() / found[name, "flooding"][0].mean())
        yield Claim(
            f"{name}: error against flooding",
            "near that of a learner with all samples: at most 1.5 times it",
            f"{ratio:.2f} times",
            "means",
            ratio <= 1.5,
        )
    for name in FIELDS:
        yield _less(
            found, name, "isolated", "where targets are alike and not equal, summaries err less than a node alone"
        )
        alone, lied = found[name, "isolated"][0], found[f"{name}, liars", "summaries"][0]
        harmless = errs_more(alone.tolist(), lied.tolist())
        yield Claim(
            f"{name}: two of 20 nodes add 20 to all they send",
            "summaries still err less than a node alone",
            f"{lied.mean():.3g} against {alone.mean():.3g}, {beyond(alone.tolist(), lied.tolist())}",
            "paired draws",
            harmless,
        )


def _less(found: Found, name: str, other: str, published: str) -> Claim:
    errors, others = found[name, "summaries"][0], found[name, other][0]
    return Claim(
        f"{name}: error against {other}",
        published,
        f"{errors.mean():.3g} against {others.mean():.3g}, {beyond(others.tolist(), errors.tolist())}",
        "paired draws",
        errs_more(others.tolist(), errors.tolist()),
    )


def _rows(found: Found) -> Iterator[Claim]:
    for (name, protocol), (errors, sent) in found.items():
        yield Claim(f"{name}: error, {protocol}", "", spread(errors.tolist(), ".3g", ".2g"), f"{sent.mean():.3g} MB")


def _notes(seeds: int) -> list[str]:
    return [
        f"Means over {'one seed' if seeds == 1 else f'{seeds} seeds'}, with the same draws for all rows. Patches have "
        "500 rounds of 2x + 3 sin 6x in noise of deviation .5, of which a node sees a part; errors are on all inputs. "
        "Fields have 300 rounds in noise of deviation 1.5; errors are each node's own, of sound nodes where others "
        "lie. Consensus has replay 1 and certainty 4, with liars replay 1, since certainty refuses faults.",
        "Published is what the page of the protocol says: no paper has this experiment. Flooding sends all samples "
        "to all nodes, centralized is one learner with all samples; both are nulls.",
    ]


def _figure(found: Found) -> Figure:
    """Draw the error against the bytes, a panel for each problem without liars."""
    panels = []
    for name in PROBLEMS | FIELDS:
        curves = []
        for place, protocol in enumerate(PROTOCOLS):
            error, sent = found[name, protocol].mean(axis=1)
            look = style.CLASS_COLORS[place], style.CLASS_MARKERS[place % len(style.CLASS_MARKERS)]
            curves.append(Curve([max(float(sent), 1e-3)], [float(error)], look[0], protocol, marker=look[1]))
        panels.append(Panel(curves, name, "MB sent, 0.001 for none", "error", log="xy"))
    return drawn(panels, (6.8, 6.4), 2, 5)
