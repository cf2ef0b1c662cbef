"""Networks that send values, weights or means beside learners alone and data sent once: error against bytes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.reproductions import methods
from kernelswarm.simulations.reproductions.contract import Claim, Figure, Reproduction, Request, Table, errs_more
from kernelswarm.simulations.reproductions.data_sets import HOUSING, HOUSING_FILE
from kernelswarm.simulations.reproductions.methods import (
    METHODS,
    STREAMS,
    Family,
    Method,
    Setting,
    Task,
    best,
    housing_by_location,
    run,
    untried,
)
from kernelswarm.simulations.reproductions.pieces import computed
from kernelswarm.simulations.reproductions.sheets import Sheet, tables

# The front of methods: no other method errs as little for as few bytes.

WITHOUT_HOUSING = "California housing by location is left out: its data is not at hand."
SHEET = Sheet("rivals", ChainMap(globals(), vars(methods)))

NEAR = 1.1
"""An error within this factor of another one is as good."""


class Point(NamedTuple):
    """A method with the bytes sent by its nodes in a run, and its mean error."""

    method: str
    family: Family
    bytes: float
    error: float


def front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other dominates, with at most their bytes and error and less of one; by their bytes.

    What one learner does with all samples is left out: no node has its function. Learners alone send 0 bytes.

    Examples
    --------
    >>> points = [Point("c", "nulls", 2.0, 4.0), Point("a", "values", 1.0, 3.0), Point("b", "vectors", 1.0, 3.0)]
    >>> [point.method for point in front(points)]
    ['a', 'b']
    """
    network = [point for point in points if point.family != "one learner"]

    def dominated(point: Point) -> bool:
        return any(
            other.bytes <= point.bytes
            and other.error <= point.error
            and (other.bytes, other.error) != (point.bytes, point.error)
            for other in network
        )

    return sorted((point for point in network if not dominated(point)), key=lambda point: point.bytes)


def corners(front: Sequence[Point]) -> list[Point]:
    """Return the cheapest point of a front among points that err at most :data:`NEAR` times the least error.

    Then the same among cheaper points, and so on; sorted by bytes.
    """
    found: list[Point] = []
    cheaper = list(front)
    while cheaper:
        found.append(next(point for point in cheaper if point.error <= NEAR * cheaper[-1].error))
        cheaper = [point for point in cheaper if point.bytes < found[-1].bytes]
    return found[::-1]


# The figure of rivals: error against bytes, and the front.

IN_SHORT = "patches", "sensor field"
"""The streams of the short figure: one target seen in parts, and a target of each node's own."""

SHOWN = 1.3
"""How many times the error of the best learner alone is drawn at most."""


def draw(streams: Mapping[str, Sequence[Point]]) -> Figure:
    """Draw each method's error against its bytes, with the front of each family and of all, a panel for each stream.

    Methods that err more than the best learner alone are worth no byte: what errs :data:`SHOWN` times as much is left
    out. Corners of the common front are named at the left, where nothing is cheaper than the first of them.
    """
    panels = {stream: {"marks": dict(_marks(points))} for stream, points in streams.items()}
    columns = min(2, len(streams))
    figure = SHEET.given(streams=panels).figure("front", "pictures", columns=columns, below=2 * columns)
    for axes, points in zip(figure.axes, streams.values(), strict=True):
        left, right = axes.get_xlim()
        axes.set_xlim(left / (right / left) ** 0.9, right)
        named = [point for point in corners(front(points)) if point.bytes]
        for number, point in enumerate(named, 1):
            place, offset = (point.bytes / 1e6, point.error), (-4, -3)
            axes.annotate(
                f"{number}", place, offset, textcoords="offset points", ha="right", va="top", fontsize=8, weight="bold"
            )
        names = "\n".join(f"{number} {point.method}" for number, point in enumerate(named, 1))
        axes.text(0.02, 0.8, names, transform=axes.transAxes, va="top", fontsize=7.5)
    return figure


def _marks(points: Sequence[Point]) -> Iterator[tuple[str, Table]]:
    """Yield the lines of controls without a network, each family's points with its front, and the common front."""
    level = min((point.error for point in points if point.family == "alone"), default=float("inf"))
    points = [point for point in points if point.error <= SHOWN * level]
    sheet = tables(SHEET.name)
    for family, look in sheet["levels"].items():
        errors = [point.error for point in points if point.family == family]
        if errors:
            yield family, {**look, "y": min(errors)}
    for family, look in sheet["looks"].items():
        shown = [point for point in points if point.family == family]
        yield f"{family}, each", {**_line(shown), **look, **sheet["marks"]["each"]}
        yield family, {**_line(front(shown)), **look, **sheet["marks"]["front"]}
    yield "all", {**_line([point for point in front(points) if point.bytes]), **sheet["marks"]["all"]}


def _line(points: Sequence[Point]) -> dict[str, list[float]]:
    """Return the errors over bytes: between two budgets the cheaper one holds."""
    return {"x": [point.bytes / 1e6 for point in points], "y": [point.error for point in points]}


DATA = f"for nodes by location, and left out without: {HOUSING}"
FILES = (HOUSING_FILE,)
DATA_IS_OPTIONAL = True

HOUSING_STREAM = "housing"

TUNED_WITH = 1000
"""Added to the seeds of the runs that methods are tuned with, and that nothing is measured of."""

SEEDS = 3
"""The runs that are measured."""

PILOTS = 1
"""The runs with which each setting is tried."""

BEYOND = 6
"""How often, at most, a search goes on to what lies beside the best setting."""

BESIDE = 1
"""The same of a budget, whose search begins at the best setting with all bytes."""


class Tuned(NamedTuple):
    """A method as it does best on a stream that nothing else is measured on: its settings, and runs by seed."""

    words: str
    runs: Array  # (seeds, 3): error, disagreement, bytes

    @property
    def errors(self) -> Array:
        """The errors at the end."""
        return self.runs[:, 0]

    @property
    def disagreement(self) -> float:
        """The median of the disagreements at the end."""
        return float(np.median(self.runs[:, 1]))

    @property
    def bytes(self) -> float:
        """What a run sends."""
        return float(np.median(self.runs[:, 2]))


Found = dict[tuple[str, str], Tuned]
"""By stream and method."""

Tried = dict[Setting, float]
"""Mean errors by settings."""


class Search(NamedTuple):
    """A method to be tuned and measured on a stream, with all its budgets, as it is sent to another process."""

    stream: str
    method: str
    seeds: range
    rounds: int
    quick: bool
    data: Path | None

    @property
    def words(self) -> str:
        """What distinguishes it from all others of a request."""
        return f"{self.method}: {self.stream}"

    @property
    def task(self) -> Task:
        """What is learned; quickly without budgets."""
        task = STREAMS[self.stream] if self.stream in STREAMS else _housing(self.data)
        return task._replace(budgets=False) if self.quick else task

    @property
    def methods(self) -> list[Method]:
        """The method, and its versions with fewer bytes."""
        found = [method for method in METHODS.values() if self.method in (method.words, method.begins)]
        return [method for method in found if method.suits(self.task)]


def reproduce(request: Request) -> Reproduction:
    """Rivals: error against bytes of values, weights and means that travel, beside learners alone and data sent once.

    Every method is tuned by one rule on streams with other seeds, and then measured on three. The search of one that
    sends fewer bytes begins at its best settings with all.
    """
    rounds = 100 if request.quick else 500
    seeds = range(SEEDS * request.seed, SEEDS * (request.seed + 1))
    streams = ["patches"] if request.quick else list(STREAMS)
    if request.data is not None:
        streams.insert(3, HOUSING_STREAM)  # after the others whose bytes are tuned
    searches = [
        Search(stream, method.words, seeds, rounds, request.quick, request.data)
        for stream in streams
        for method in METHODS.values()
        if not method.begins
    ]
    searches = [search for search in searches if search.methods]
    by_words = {search.words: search for search in searches}
    pieces = computed(searched, by_words, request.jobs, request.shelf, request.tell)
    found: Found = {}
    for words, search in by_words.items():
        found |= _tuned(search, pieces[words])
    of_streams = points(found)
    in_short = [name for name in IN_SHORT if name in of_streams]
    said = SHEET.given(rounds=rounds, seeds=len(seeds), near=NEAR - 1.0)
    said = said.given(housing=SHEET.notes("housing")[0] if HOUSING_STREAM in streams else WITHOUT_HOUSING)
    figures = {"rivals_front": draw(of_streams), "rivals_in_short": draw({name: of_streams[name] for name in in_short})}
    arrays = {f"{stream}, {method}": tuned.runs for (stream, method), tuned in found.items()}
    return said.found([*_published(found), *_corners(found), *_rows(found)], arrays, figures)


def searched(search: Search) -> dict[str, Array]:
    """Tune a method and its budgets by each error, and measure each with all seeds.

    What was tried of each, rows of grid, place and mean error, and what its runs with the best of these end with.
    """
    task, found = search.task, dict[str, Array]()
    begins: list[Setting] = []
    for method in search.methods:
        first = begins if method.begins else method.first(task)
        tried = _tried(search, method, first)
        best_of = {error: best(errors) for error, errors in tried.items()}
        if not method.begins:
            begins = list(dict.fromkeys(best_of.values()))
        runs = {
            setting: [run(task, method, method.table(setting), seed, search.rounds) for seed in search.seeds]
            for setting in dict.fromkeys(best_of.values())
        }
        for error, errors in tried.items():
            rows = [[setting.grid, *setting.place, value] for setting, value in errors.items()]
            width = max(map(len, rows))
            found[f"{method.words}{error}: tried"] = np.array(
                [[*row[:-1], *[np.nan] * (width - len(row)), row[-1]] for row in rows], dtype=np.float64
            )
            found[f"{method.words}{error}: runs"] = np.stack([each[error] for each in runs[best_of[error]]])
    return found


def _tried(search: Search, method: Method, asked: list[Setting]) -> dict[str, Tried]:
    """Try these settings, and so often what lies beside the best one by each error until nothing there is better."""
    task = search.task.validation or search.task
    found: dict[str, Tried] = {error: {} for error in task.errors}
    turns = 0 if search.quick else BESIDE if method.begins else BEYOND
    for _ in range(1 + turns):
        for setting in asked:
            runs = [
                run(task, method, method.table(setting), TUNED_WITH + search.seeds[0] + pilot, search.rounds)
                for pilot in range(1 if search.quick else PILOTS)
            ]
            for error, errors in found.items():
                mean = float(np.mean([each[error][0] for each in runs]))
                errors[setting] = np.inf if np.isnan(mean) else mean
        asked = list(dict.fromkeys(each for errors in found.values() for each in untried(best(errors), errors)))
    return found


def _tuned(search: Search, piece: Mapping[str, Array]) -> Found:
    """Return the results of a method and its budgets, with the words of the best settings."""
    found: Found = {}
    for method in search.methods:
        for error in search.task.errors:
            tried: Tried = {}
            for grid, *place, value in piece[f"{method.words}{error}: tried"].tolist():
                tried[Setting(int(grid), tuple(int(key) for key in place if not np.isnan(key)))] = value
            words = method.described(best(tried), None if search.quick else tried)
            found[search.stream + error, method.words] = Tuned(words, piece[f"{method.words}{error}: runs"])
    return found


@cache
def _housing(data: Path | None) -> Task:
    assert data is not None
    return housing_by_location(data)


def _published(found: Found) -> Iterator[Claim]:
    """Yield a row for each comparison that was published: it holds where the paired seeds say so."""
    for entry in tables(SHEET.name)["published"]:
        stream, first, second = (entry[key] for key in ("stream", "first", "second"))
        if (stream, first) in found:
            one, other = found[stream, first].errors, found[stream, second].errors
            yield SHEET.claim("published", errs_more(other, one), one=one, other=other, entry=entry)


def points(found: Found) -> dict[str, list[Point]]:
    """Return the methods of each stream with their bytes and mean errors; stopped ones are left out."""
    streams: dict[str, list[Point]] = {}
    for (stream, method), tuned in found.items():
        if not np.isnan(tuned.errors).any():
            point = Point(method, METHODS[method].family, tuned.bytes, float(np.mean(tuned.errors)))
            streams.setdefault(stream, []).append(point)
    return streams


def _corners(found: Found) -> Iterator[Claim]:
    """Write a row for each corner of a stream's front, from the fewest bytes to the least error."""
    for stream, of_stream in points(found).items():
        for place, point in enumerate(corners(front(of_stream)), 1):
            of = SHEET.given(
                stream=stream, place=place, method=point.method, settings=found[stream, point.method].words
            )
            yield of.claim("corner", error=_spread(found[stream, point.method].errors), sent=point.bytes / 1e6)


def _rows(found: Found) -> Iterator[Claim]:
    """Write a row for each method on each stream, with its error as a share of that of the same learner alone."""
    alone = {method.learner: words for words, method in METHODS.items() if method.family == "alone"}
    for (stream, method), tuned in found.items():
        errors, stopped = tuned.errors, int(np.isnan(tuned.errors).sum())
        measured = f"error {_spread(errors)}" if not stopped else f"{stopped} of {len(errors)} runs stopped"
        null = alone.get(METHODS[method].like, method)
        if null != method and (stream, null) in found and not METHODS[method].begins:
            measured += f", {np.mean(errors) / np.mean(found[stream, null].errors):.2g} of {null}"
        if tuned.bytes:
            measured += f", disagreement {tuned.disagreement:.2g}, {tuned.bytes / 1e6:.3g} MB"
        yield SHEET.claim("row", stream=stream, method=method, measured=measured, settings=tuned.words)


def _spread(errors: Array) -> str:
    return f"{np.mean(errors):.4g} ± {np.std(errors, ddof=1) if len(errors) > 1 else 0.0:.2g}"
