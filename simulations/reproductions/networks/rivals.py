"""Consensus and proximity beside the protocols that send weights: error, disagreement and bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request, errs_more
from kernelswarm.simulations.reproductions.data_sets import HOUSING, HOUSING_FILE
from kernelswarm.simulations.reproductions.networks import rival_figures
from kernelswarm.simulations.reproductions.networks.housing import WITH_HOUSING, WITHOUT_HOUSING, housing_by_location
from kernelswarm.simulations.reproductions.networks.methods import (
    CONTROLS,
    METHODS,
    STREAMS,
    LearningCurve,
    Method,
    Table,
    Task,
    run,
)
from kernelswarm.simulations.reproductions.pieces import computed

Array = npt.NDArray[np.float64]

DATA = f"for nodes by location, and left out without: {HOUSING}"
FILES = (HOUSING_FILE,)
DATA_IS_OPTIONAL = True

HOUSING_STREAM = "housing"

TUNED_WITH = 1000
"""Added to the seed of the runs that methods are tuned with, and that nothing is measured of."""

NEAR = 1.1
"""An error within this factor of the least is as good."""


class Tuned(NamedTuple):
    """A method as it does best on a stream that nothing else is measured on."""

    settings: Table
    words: str
    learning_curves: Sequence[LearningCurve]

    @property
    def errors(self) -> Array:
        """The errors at the end, by seed."""
        return np.array([learning_curve.last_error for learning_curve in self.learning_curves])

    @property
    def bytes(self) -> float:
        """What a run sends."""
        return float(np.median([learning_curve.bytes[-1] for learning_curve in self.learning_curves]))

    @property
    def disagreement(self) -> float:
        """The median over seeds of the disagreement at the end."""
        return float(np.median([learning_curve.last_disagreement for learning_curve in self.learning_curves]))


Found = dict[tuple[str, str], Tuned]
"""By stream and method."""


class Run(NamedTuple):
    """A run of a method, as another process is told of it."""

    stream: str
    method: str
    setting: int
    seed: int
    rounds: int
    validation: bool
    """Whether it is on what methods are tuned on."""
    data: Path | None

    @property
    def words(self) -> str:
        """What distinguishes it from all others of a request."""
        place = METHODS[self.method].settings[self.setting][0]
        return f"{self.method}: {self.stream}, setting {self.setting} ({place}), {self.seed}, {self.rounds} rounds"


def reproduce(request: Request) -> Reproduction:
    """Rivals: error and disagreement against bytes of protocols that send values and of those that send weights.

    Every method is tuned by one rule on a stream with another seed, and then measured on five.
    """
    quick = request.quick
    count, rounds = (3, 100) if quick else (5, 500)
    seeds = range(count * request.seed, count * (request.seed + 1))
    tasks = {"patches": STREAMS["patches"]} if quick else dict(STREAMS)
    if request.data is not None:
        tasks[HOUSING_STREAM] = housing_by_location(request.data)
    cells = [(stream, method) for stream, task in tasks.items() for method in METHODS.values() if method.suits(task)]
    chosen = _tuned(tasks, cells, TUNED_WITH + seeds[0], rounds, request)
    found = _measured(tasks, chosen, seeds, rounds, request)
    return Reproduction(
        [*_published(found), *_best(found), *_rows(found)],
        [*_notes(len(seeds), rounds), WITH_HOUSING if HOUSING_STREAM in tasks else WITHOUT_HOUSING],
        {"rivals_bytes": rival_figures.draw(found)},
        dict(_arrays(found)),
    )


TUNING = 0.5
"""The share of the runs, about, with which methods are tuned."""


def _tuned(
    tasks: Mapping[str, Task], cells: Sequence[tuple[str, Method]], seed: int, rounds: int, request: Request
) -> dict[tuple[str, str], dict[str, int]]:
    """Find for each stream and method, by each error, the setting with the least at the end of one run: its place."""
    tried = {
        (stream, method.words): [
            Run(stream, method.words, place, seed, rounds, True, request.data)
            for place in method.tried(tasks[stream])[: 1 if request.quick else None]
        ]
        for stream, method in cells
    }
    ends = _run_all([run for runs in tried.values() for run in runs], request, 0.0, TUNING)

    def best(runs: Sequence[Run], error: str) -> int:
        found = [ends[run][error].last_error for run in runs]
        return runs[int(np.argmin([np.inf if np.isnan(end) else end for end in found]))].setting

    return {cell: {error: best(runs, error) for error in tasks[cell[0]].errors} for cell, runs in tried.items()}


def _measured(
    tasks: Mapping[str, Task],
    chosen: Mapping[tuple[str, str], Mapping[str, int]],
    seeds: Sequence[int],
    rounds: int,
    request: Request,
) -> Found:
    """Run every method with each of its chosen settings and every seed."""
    runs = {
        (cell, place): [Run(*cell, place, seed, rounds, False, request.data) for seed in seeds]
        for cell, places in chosen.items()
        for place in dict.fromkeys(places.values())
    }
    learning_curves = _run_all([run for each in runs.values() for run in each], request, TUNING, 1.0)
    found: Found = {}
    for cell, places in chosen.items():
        stream, method = cell
        for error, place in places.items():
            words, table = METHODS[method].settings[place]
            if not request.quick:
                words = METHODS[method].said(place)
            found[stream + error, method] = Tuned(
                table, words, [learning_curves[run][error] for run in runs[cell, place]]
            )
    return found


def _run_all(runs: Sequence[Run], request: Request, begin: float, end: float) -> dict[Run, dict[str, LearningCurve]]:
    """Run all of them, on so many processes as are asked for; what has ended before is read."""

    def tell(words: str, share: float) -> None:
        request.tell(words.partition(", setting")[0], begin + (end - begin) * share)

    pieces = computed(learning_curve_arrays, {run.words: run for run in runs}, request.jobs, request.shelf, tell)
    return {run: _learning_curves(pieces[run.words]) for run in runs}


def learning_curve_arrays(asked: Run) -> dict[str, Array]:
    """Run a method once, and write what was measured as arrays."""
    task = STREAMS[asked.stream] if asked.stream in STREAMS else _housing(asked.data)
    method = METHODS[asked.method]
    table = method.settings[asked.setting][1]
    on = (task.validation or task) if asked.validation else task
    learning_curves = run(on, method, table, asked.seed, asked.rounds)
    return {
        f"{name}{error}": np.asarray(value, dtype=np.float64)
        for error, learning_curve in learning_curves.items()
        for name, value in learning_curve._asdict().items()
    }


@cache
def _housing(data: Path | None) -> Task:
    assert data is not None
    return housing_by_location(data)


def _learning_curves(piece: Mapping[str, Array]) -> dict[str, LearningCurve]:
    """Return the courses that were written as arrays, by their errors."""
    errors = [name.removeprefix("bytes") for name in piece if name.startswith("bytes")]
    return {
        error: LearningCurve(
            piece["error" + error],
            piece["disagreement" + error],
            piece["bytes" + error],
            float(piece["last_error" + error]),
            float(piece["last_disagreement" + error]),
        )
        for error in errors
    }


PUBLISHED = (
    ("patches", "gradient tracking", "diffusion", "is not pulled to each node's own data (Pu and Nedic, 2021)"),
    ("patches", "DKLA", "ODKLA", "a step that is linearised converges more slowly (Xu et al., 2022)"),
    ("sensor field", "multitask", "diffusion", "keeps what makes nodes different (Chen, Richard, Sayed, 2014)"),
    ("sensor field", "diffusion, adaptive", "diffusion", "leaves out who learns something else (Zhao and Sayed, 2012)"),
    ("housing, own area", "DeKRR-DDRF", "DKLA", "each node has the features that suit its data (Yang et al., 2024)"),
)
"""On a stream the first method is said to err less than the second."""


def _published(found: Found) -> Iterator[Claim]:
    """Write a row for each comparison that was published: it holds where the paired seeds say so."""
    for stream, first, second, reason in PUBLISHED:
        if (stream, first) not in found:
            continue
        one, other = found[stream, first].errors, found[stream, second].errors
        yield Claim(
            f"{stream}: {first} errs less than {second}",
            reason,
            f"{np.mean(one):.3g} against {np.mean(other):.3g}",
            f"{len(one)} paired seeds",
            errs_more(list(other), list(one)),
        )


def _best(found: Found) -> Iterator[Claim]:
    """Write a row for each stream: who errs least, and who comes near for the fewest bytes."""
    for stream in dict.fromkeys(stream for stream, _ in found):
        rows = ranked(found, stream)
        best, least, cost = rows[0]
        near = min((row for row in rows if row[1] <= NEAR * least), key=lambda row: row[2])
        frugal = min(rows, key=lambda row: row[2])
        said = f"{best}, {least:.3g} for {cost / 1e6:.3g} MB"
        if near[0] != best:
            said += f"; {near[0]}, {near[1]:.3g} for {near[2] / 1e6:.3g} MB"
        if frugal[0] not in (best, near[0]):
            said += f"; least bytes: {frugal[0]}, {frugal[1]:.3g} for {frugal[2] / 1e6:.3g} MB"
        words = f"least error; fewest bytes for an error within {NEAR - 1.0:.0%} of it; fewest bytes of all"
        yield Claim(f"{stream}: best", "", said, words)


def _rows(found: Found) -> Iterator[Claim]:
    """Write a row for each method on each stream."""
    for (stream, method), tuned in found.items():
        errors, stopped = tuned.errors, int(np.isnan(tuned.errors).sum())
        spread = f"{np.mean(errors):.4g} ± {np.std(errors, ddof=1) if len(errors) > 1 else 0.0:.2g}"
        measured = f"error {spread}" if not stopped else f"{stopped} of {len(errors)} runs stopped"
        if tuned.bytes:
            measured += f", disagreement {tuned.disagreement:.2g}, {tuned.bytes / 1e6:.3g} MB"
        yield Claim(f"{stream}: {method}", "", measured, tuned.words)


def ranked(found: Found, stream: str) -> list[tuple[str, float, float]]:
    """Return the methods of a stream but for the controls, by their mean errors, with these and their bytes."""
    rows = [
        (method, float(np.mean(tuned.errors)), tuned.bytes)
        for (name, method), tuned in found.items()
        if name == stream and method not in CONTROLS and not np.isnan(tuned.errors).any()
    ]
    return sorted(rows, key=lambda row: row[1])


def _notes(seeds: int, rounds: int) -> list[str]:
    return [
        f"20 nodes on a random geometric graph, {rounds} rounds, one sample a node and round (eight where classes are "
        f"learned), mean and standard deviation over {seeds} seeds of the median error of the last 30% of the "
        "evaluations. Errors are against the noise-free target, on all nodes' data; on a node's own where targets "
        "differ from node to node; of classes, the share that is wrong.",
        "One rule for all: each method tries the values in METHODS of the one or two keys that matter most to it, in "
        f"one run with a seed {TUNED_WITH} beyond the first, and takes those with the least error. Rows say which of "
        "these are the least or the largest that were tried. The kernel and, of methods with random features, their "
        "number (100, shared by all nodes) are given; Nystroem has 100 landmarks at most, those that others span left "
        "out, Raker and DOMKL have 20 features of each of five kernels, whose bandwidths are a quarter to four times "
        "that.",
        "Bytes are those of all messages in the whole run, 8 for each number. Centralized counts every sample once.",
        "DeKRR-DDRF is a batch method. Before its first round a node has all its samples, those that others see one a "
        "round, and its neighbours' points. It then exchanges weights in as many rounds as others have. Each node "
        "chooses its own 100 features for its data, of 2,000 random ones. It has no row where the target moves or "
        "classes are learned.",
    ]


def _arrays(found: Found) -> Iterator[tuple[str, Array]]:
    """Yield the rounds, errors, disagreements and bytes of every run."""
    for (stream, method), tuned in found.items():
        for place, learning_curve in enumerate(tuned.learning_curves):
            yield (
                f"{stream}, {method}, {place}",
                np.stack([learning_curve.error, learning_curve.disagreement, learning_curve.bytes]),
            )
