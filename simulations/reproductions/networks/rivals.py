"""Consensus and proximity beside the protocols that send weights: error, disagreement and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    Course,
    Method,
    Table,
    Task,
    run,
)

Array = npt.NDArray[np.float64]

DATA = f"for nodes by location, and left out without: {HOUSING}"
FILES = (HOUSING_FILE,)
DATA_IS_OPTIONAL = True

TUNED_WITH = 1000
"""Added to the seed of the runs that methods are tuned with, and that nothing is measured of."""

NEAR = 1.1
"""An error within this factor of the least is as good."""


class Tuned(NamedTuple):
    """A method as it does best on a stream that nothing else is measured on."""

    settings: Table
    words: str
    courses: Sequence[Course]

    @property
    def errors(self) -> Array:
        """The errors at the end, by seed."""
        return np.array([course.last_error for course in self.courses])

    @property
    def bytes(self) -> float:
        """What a run sends."""
        return float(np.median([course.bytes[-1] for course in self.courses]))

    @property
    def disagreement(self) -> float:
        """The median over seeds of the disagreement at the end."""
        return float(np.median([course.last_disagreement for course in self.courses]))


Found = dict[tuple[str, str], Tuned]
"""By stream and method."""


def reproduce(request: Request) -> Reproduction:
    """Rivals: error and disagreement against bytes of protocols that send values and of those that send weights.

    Every method is tuned by one rule on a stream with another seed, and then measured on five.
    """
    quick = request.quick
    count, rounds = (3, 100) if quick else (5, 500)
    seeds = range(count * request.seed, count * (request.seed + 1))
    tasks = {"patches": STREAMS["patches"]} if quick else dict(STREAMS)
    if request.data is not None:
        tasks["housing"] = housing_by_location(request.data)
    cells = [(stream, method) for stream, task in tasks.items() for method in METHODS.values() if method.suits(task)]
    found: Found = {}
    for place, (stream, method) in enumerate(cells):
        settings = method.settings[:1] if quick else method.settings

        def tell(share: float, words: str = f"{method.words}: {stream}", place: int = place) -> None:
            request.tell(words, (place + share) / len(cells))

        for words, tuned in _tuned(tasks[stream], method, settings, seeds, rounds, tell):
            found[stream + words, method.words] = tuned
    return Reproduction(
        [*_published(found), *_best(found), *_rows(found)],
        [*_notes(len(seeds), rounds), WITH_HOUSING if "housing" in tasks else WITHOUT_HOUSING],
        {"rivals_bytes": rival_figures.draw(found)},
        dict(_arrays(found)),
    )


def _tuned(
    task: Task,
    method: Method,
    settings: Sequence[tuple[str, Table]],
    seeds: Sequence[int],
    rounds: int,
    tell: Callable[[float], None] = lambda share: None,
) -> Iterator[tuple[str, Tuned]]:
    """Take, for each error of the task, the settings with the least at the end of one run; run them with every seed.

    ``tell`` hears before each run which share of the runs is done, if every error takes settings of its own.
    """
    tried, most = [], len(settings) + len(seeds) * min(len(settings), len(task.errors))
    for place, (_, table) in enumerate(settings):
        tell(place / most)
        tried.append(run(task.validation or task, method, table, TUNED_WITH + seeds[0], rounds))
    measured: dict[int, list[dict[str, Course]]] = {}
    for error in task.errors:
        ends = [courses[error].last_error for courses in tried]
        best = int(np.argmin([np.inf if np.isnan(end) else end for end in ends]))
        words, table = settings[best]
        if best not in measured:
            measured[best] = []
            for place, seed in enumerate(seeds):
                tell((len(settings) + len(seeds) * (len(measured) - 1) + place) / most)
                measured[best].append(run(task, method, table, seed, rounds))
        yield error, Tuned(table, words, [courses[error] for courses in measured[best]])


PUBLISHED = (
    ("patches", "gradient tracking", "diffusion", "is not pulled to each node's own data (Pu and Nedic, 2021)"),
    ("patches", "DKLA", "ODKLA", "a step that is linearised converges more slowly (Xu et al., 2022)"),
    ("sensor field", "multitask", "diffusion", "keeps what makes nodes different (Chen, Richard, Sayed, 2014)"),
    ("sensor field", "diffusion, adaptive", "diffusion", "leaves out who learns something else (Zhao and Sayed, 2012)"),
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
        spread = f"{np.mean(errors):.4g} +- {np.std(errors, ddof=1) if len(errors) > 1 else 0.0:.2g}"
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
        f"one run with a seed {TUNED_WITH} beyond the first, and takes those with the least error. The kernel and, of "
        "methods with random features, their number (100, shared by all nodes) are given; Nystroem has 100 landmarks "
        "at most, those that others span left out, Raker and DOMKL have 20 features of each of five kernels, whose "
        "bandwidths are a quarter to four times that.",
        "Bytes are those of all messages in the whole run, 8 for each number. Centralized counts every sample once.",
    ]


def _arrays(found: Found) -> Iterator[tuple[str, Array]]:
    """Yield the rounds, errors, disagreements and bytes of every run."""
    for (stream, method), tuned in found.items():
        for place, course in enumerate(tuned.courses):
            yield f"{stream}, {method}, {place}", np.stack([course.error, course.disagreement, course.bytes])
