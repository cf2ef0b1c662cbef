"""What travelling means of samples err and send beside functions that are coupled, and beside data sent to all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request, beyond, errs_more
from kernelswarm.simulations.reproductions.sheets import Sheet, tables
from kernelswarm.simulations.reproductions.survey_networks import ended

SHEET = Sheet("summaries", globals())
SEEDS = 6
PATCHES, FIELDS, PROTOCOLS, SENT_LIES = (
    tables(SHEET.name)[kind] for kind in ("patches", "fields", "protocols", "sent_lies")
)

Found = Mapping[tuple[str, str], Array]
"""Errors and megabytes of each seed, (2, S), by problem and protocol."""


def reproduce(request: Request) -> Reproduction:
    """Travelling means of samples: error and bytes beside consensus, isolated nodes and data sent to all, with liars.

    All rows have the same draws, and `newton` with its defaults.
    """
    seeds = 1 if request.quick else SEEDS
    draws = range(seeds * request.seed, seeds * (request.seed + 1))
    runs = [*product(PATCHES | FIELDS, PROTOCOLS, [False]), *product(FIELDS, SENT_LIES, [True])]
    found = {}
    for name, protocol, lies in request.each(runs, lambda run: f"{run[0]}: {run[1]}"):
        key = f"{name}, liars" if lies else name
        found[key, protocol] = np.array([outcome(name, protocol, lies, seed) for seed in draws]).T
    arrays = {f"{name}: {protocol}": outcomes for (name, protocol), outcomes in found.items()}
    shown = {
        f"{quantity}, {name}": values.mean(keepdims=True)
        for name, (errors, sent) in arrays.items()
        for quantity, values in (("error", errors), ("sent", np.maximum(sent, 1e-3)))
    }
    said = SHEET.given(arrays, shown, seeds="one seed" if seeds == 1 else f"{seeds} seeds")
    return said.found([*_claims(found)], arrays)


def outcome(name: str, protocol: str, lies: bool, seed: int) -> tuple[float, float]:
    """Return the error and the megabytes of one run; NaN where it was stopped."""
    problem = (PATCHES | FIELDS)[name]
    fault: dict[str, Any] = {"fault": tables(SHEET.name)["liars"]} if lies else {}
    result = ended(
        problem["rounds"],
        seed=seed,
        topology=problem["topology"],
        stream=problem["stream"],
        learner="newton",
        protocol=(SENT_LIES if lies else PROTOCOLS)[protocol],
        **fault,
    )
    if result is None:
        return np.nan, np.nan
    error = result.final["global_error" if name in PATCHES else "error"]
    return float(np.nan if error is None else error), float(result.final["bytes_sent"] or 0.0) / 1e6


def _claims(found: Found) -> Iterator[Claim]:
    """Check what docs/summaries.md says, on paired draws, and yield a row for each problem and protocol."""

    def less(key: str, name: str, ours: Array, theirs: Array) -> Claim:
        difference = beyond(theirs, ours)
        return SHEET.claim(key, errs_more(theirs, ours), name=name, ours=ours, theirs=theirs, difference=difference)

    for name in PATCHES:
        (errors, sent), (others, theirs) = found[name, "summaries"], found[name, "consensus"]
        yield less("consensus", name, errors, others)
        share, ratio = sent.mean() / theirs.mean(), errors.mean() / found[name, "flooding"][0].mean()
        yield SHEET.claim("bytes", share <= 0.2, name=name, share=share)
        yield SHEET.claim("flooding", ratio <= 1.5, name=name, ratio=ratio)
    for name in FIELDS:
        alone = found[name, "isolated"][0]
        yield less("isolated", name, found[name, "summaries"][0], alone)
        yield less("liars", name, found[f"{name}, liars", "summaries"][0], alone)
    for (name, protocol), (errors, sent) in found.items():
        yield SHEET.claim("row", name=name, protocol=protocol, errors=errors, sent=sent)
