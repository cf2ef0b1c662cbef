"""The outcome of a comparison: its runs, the figures of each cell over its seeds, and paired differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core import notebook
from kernelswarm.simulations.core.errors import number_of
from kernelswarm.simulations.experiment.changes import nested
from kernelswarm.simulations.experiment.parts import merge
from kernelswarm.simulations.experiment.variation import NOT_APPLICABLE, Cell, RandomValues, as_table, differing
from kernelswarm.simulations.records.result import AGAINST, Result, Series, Table, repeated

if TYPE_CHECKING:
    import pandas

    from kernelswarm.simulations.records.result import MeasuredTable

# Differences of a comparison's cells over their common seeds: a sign-flip test, corrected for all pairs.

# Test that differences are not 0: the observed statistic among those of all sign flips of whole seeds.


FLIPS = 1024
"""Ways to give the seeds signs that are looked at: all of them up to eleven seeds, so many drawn ones beyond."""

ROUNDING = 1e-9
"""Statistics that differ by less are equal: the order of their sums decides then."""

BLOCK = 64
"""Ways at once, to bound the memory."""


def step_down(differences: Array) -> Array:
    """Return the p-value of each of several tests, corrected for all of them.

    The statistic of a test, which grows with the absolute value of Student's t, is

        |sum_s d_s| / sqrt(sum_s d_s^2)

    Where there is no difference, d_s has either sign with the same probability, for all tests of a seed at once, so
    that the statistics under any choice of the seeds' signs are as probable as those that were found (Fisher, The
    Design of Experiments, 1935). A p-value is the share of these choices under which the largest statistic, of this
    test and of all with smaller ones, is at least the one that was found (Westfall and Young, Resampling-Based Multiple
    Testing, 1993).

    Then the probability that any test without a difference has a p-value of at most a is at most a, whatever the
    distribution of the differences and however the tests depend on one another. With n seeds no p-value is below
    2 / 2^n: that share of the choices gives all seeds the signs that they have, or all the opposite ones.

    Parameters
    ----------
    differences : array (seeds, tests)
        The differences; 0 where a test lacks a seed.

    Returns
    -------
    array (tests,)
        The p-values, 1 for a test without any difference.

    Examples
    --------
    >>> step_down(np.ones((3, 1))), step_down(np.ones((6, 1)))
    (array([0.25]), array([0.03125]))
    """
    # Risks may be so large that their squares are beyond the floating-point numbers.
    scales = np.abs(differences).max(axis=0, initial=0.0)
    scaled = differences / np.where(scales > 0.0, scales, 1.0)
    lengths = np.sqrt((scaled * scaled).sum(axis=0))
    shares = scaled / np.where(lengths > 0.0, lengths, 1.0)
    found = np.abs(shares.sum(axis=0))
    order = np.argsort(found, kind="stable")
    shares, least = shares[:, order], found[order] - ROUNDING
    signs, counts = _signs(len(differences)), np.zeros(len(order))
    for start in range(0, len(signs), BLOCK):
        flipped = np.abs(signs[start : start + BLOCK] @ shares)
        counts += (np.maximum.accumulate(flipped, axis=1) >= least).sum(axis=0)
    result = np.empty(len(order))
    result[order] = np.maximum.accumulate((counts / len(signs))[::-1])[::-1]
    return result


def _signs(seeds: int) -> Array:
    """Return choices of the seeds' signs (choices, seeds), as they are first; the first seed keeps its own, since to
    turn all changes no statistic."""
    if 2 ** (seeds - 1) <= FLIPS:
        return np.array([(1.0, *others) for others in itertools.product((1.0, -1.0), repeat=seeds - 1)])
    drawn = np.random.default_rng(0).choice((1.0, -1.0), size=(FLIPS, seeds))
    drawn[0] = 1.0
    return drawn


LEVEL = 0.05
"""The probability, at most, that some difference is called supported where no two cells differ."""

FEWEST = 6
"""Shared seeds below which nothing is supported: of two cells that do not differ, one is ahead in all of five seeds
once in sixteen times, which is more often than ``LEVEL``."""

EQUAL = 1e-12
"""Values that differ by less, relative to the larger, differ by the order of their sums."""


@dataclass(frozen=True)
class Difference:
    """Two cells of a comparison, held against each other in one figure, seed by seed.

    Parameters
    ----------
    figure : str
        The figure; less is better.
    better, worse : int
        The places of the two cells; the better one has the lower mean over the seeds that both have. Of equal ones,
        it is the first.
    mean, deviation : float
        Of the worse cell's figure less the better one's: mean over these seeds, and standard deviation (n - 1 in the
        denominator); NaN where there are too few seeds.
    wins, seeds : int
        The seeds in which the better cell has the lower figure, and all that both have a figure of. Seeds that repeat
        the runs of another one, bit for bit, do not count.
    chance : float
        The two-sided p-value of the sign-flip test, corrected for all pairs; NaN for fewer than ``FEWEST`` seeds.
    """

    figure: str
    better: int
    worse: int
    mean: float
    deviation: float
    wins: int
    seeds: int
    chance: float

    @property
    def supported(self) -> bool:
        """Whether the seeds support that the better one is better."""
        return self.chance <= LEVEL


@dataclass(frozen=True)
class Value:
    """A figure of one run.

    Parameters
    ----------
    number : float
        Its value, which is finite.
    outcome : int
        A number that the run has in common with others of its cell where both are the same to the last bit.
    """

    number: float
    outcome: int


def paired_differences(figure: str, cells: Mapping[int, Mapping[int, Value]]) -> list[Difference]:
    """Hold every cell against every other one.

    The differences of a pair are taken for as probable as their negatives where the cells do not differ, and nothing
    else is supposed of them; see :func:`kernelswarm.simulations.records.outcome.step_down`. The probability
    that any
    of the pairs is called different wrongly is at most ``LEVEL``, whatever the spread of each and however they depend
    on one another.

    Parameters
    ----------
    figure : str
        The figure; less is better.
    cells : dict of int to dict of int to Value
        For each cell, by its place, the values by their seeds.

    Returns
    -------
    list of Difference
        One for each pair, in the order of the cells; pairs that share too few seeds are not tested.
    """
    found = [_rises(cells[one], cells[other]) for one, other in itertools.combinations(cells, 2)]
    tested = [place for place, rises in enumerate(found) if len(rises) >= FEWEST]
    seeds = sorted({seed for place in tested for seed in found[place]})
    chances = np.full(len(found), math.nan)
    if tested:
        chances[tested] = step_down(np.array([[found[place].get(seed, 0.0) for place in tested] for seed in seeds]))
    pairs = itertools.combinations(cells, 2)
    return [
        _difference(figure, one, other, list(rises.values()), float(chance))
        for (one, other), rises, chance in zip(pairs, found, chances, strict=True)
    ]


def _difference(figure: str, one: int, other: int, rises: Sequence[float], chance: float) -> Difference:
    mean, deviation = _spread(rises)
    if mean < 0.0:
        one, other, mean, rises = other, one, -mean, [-rise for rise in rises]
    return Difference(figure, one, other, mean, deviation, sum(rise > 0.0 for rise in rises), len(rises), chance)


def _rises(left: Mapping[int, Value], right: Mapping[int, Value]) -> dict[int, float]:
    """Return by how much the second cell is above the first, by the seeds that both have."""
    found, known = dict[int, float](), set[tuple[int, int]]()
    for seed in sorted(left.keys() & right.keys()):
        low, high = left[seed], right[seed]
        if (low.outcome, high.outcome) not in known:  # a pair of runs that another seed repeats tells nothing new
            known.add((low.outcome, high.outcome))
            found[seed] = _rise(low.number, high.number)
    return found


def _spread(rises: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation, the same bits in any order of the seeds."""
    if not rises:
        return math.nan, math.nan
    # Risks may be so large that their squares are beyond the floating-point numbers.
    scale = max(map(abs, rises)) or 1.0
    mean = math.fsum(rise / scale for rise in rises) / len(rises)
    if len(rises) == 1:
        return scale * mean, math.nan
    squares = math.fsum((rise / scale - mean) ** 2 for rise in rises)
    return scale * mean, scale * math.sqrt(squares / (len(rises) - 1))


def _rise(low: float, high: float) -> float:
    return 0.0 if abs(high - low) <= EQUAL * max(abs(low), abs(high)) else high - low


METRICS = (
    "risk",
    "constant_risk",
    "error",
    "global_risk",
    "global_error",
    "model_order",
    "disagreement",
    "violation",
    "scalars_sent",
    "bytes_sent",
    "seconds",
)
"""The final figures that a comparison gives for each cell: columns of the last row of ``network.parquet``."""

RANKED = ("risk", "error", "global_risk", "global_error")
"""Figures that are better when smaller. Others have no best value: nodes that never talk send least, equally wrong
ones agree, and a small model or a short time is worth its cost in risk."""

EXPERIMENT, RUNS, INDEX = "experiment.toml", "runs", "index.json"
"""In a comparison's folder the file that repeats it, the folder of the run folders, and in that the file that says
which run is where, written before the first of them starts."""

State = Literal["new", "resumed", "reused"]
STATES: tuple[State, ...] = ("reused", "resumed", "new")

SHOWN = 8
"""Rows that a comparison names of itself."""

CHANGE = "risk_change"
"""The risk less that of the reference cell with the same seed, which takes out how hard each seed's data are."""


@dataclass(frozen=True)
class Run:
    """One simulation of a comparison.

    Parameters
    ----------
    cell : int
        The place of its cell.
    seed : int
        Its seed.
    network : dict of str to array
        Its measurements, one row per evaluated round; what there is of them when it failed.
    final : dict of str to float
        The last row; empty when it failed.
    failure : str
        Why it failed; empty when it is done.
    refused : bool
        Whether it failed because its input was refused, before its first round.
    folder : Path, optional
        Its run folder.
    digest : str
        The digest of its models; empty when it failed.
    verdict : dict of str to str
        What is wrong with it although it ended well, as in the run's summary.
    facts : dict of str to object
        What is known of its data, as in the run's summary; empty when it failed.
    form, step : str
        Of its protocol; empty if nodes exchange nothing, or if unknown.
    origin : {"new", "resumed", "reused"}
        Whether it was begun, gone on with from a checkpoint, or found in the comparison's folder at its end.
    """

    cell: int
    seed: int
    network: Table = field(default_factory=dict, repr=False)
    final: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""
    refused: bool = False
    folder: Path | None = None
    digest: str = ""
    verdict: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    form: str = ""
    step: str = ""
    origin: State = field(default="new", compare=False)

    @property
    def outcome(self) -> tuple[object, ...]:
        """The values that are equal if a run is repeated: its models and all figures but the time.

        Equal models do not imply equal data, for example if nothing was learned.
        """
        return self.digest, *(repr(value) for name, value in sorted(self.final.items()) if name != "seconds")


@dataclass(frozen=True)
class Row:
    """One cell of a comparison in figures.

    Parameters
    ----------
    labels : tuple of str
        The varied values.
    mean, deviation : dict of str to float
        For each of ``METRICS`` and for ``CHANGE`` the mean over the runs that are done and their standard deviation
        (n - 1 in the denominator); NaN where the runs did not measure it, and the deviation of a single run.
    done, failed : int
        Successful runs, equal ones counted once, and failed runs.
    reasons : tuple of str
        Why runs failed, each reason once.
    equal : tuple of tuples of int
        Seeds whose runs are the same, models and figures.
    verdicts : dict of str to (int, str)
        For each kind of verdict, how many of the runs that are done it is true of, and the first one's sentence.
    """

    labels: tuple[str, ...]
    mean: Mapping[str, float]
    deviation: Mapping[str, float]
    done: int
    failed: int
    reasons: tuple[str, ...]
    equal: tuple[tuple[int, ...], ...] = ()
    verdicts: Mapping[str, tuple[int, str]] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Comparison:
    """The outcome of :func:`compare`.

    Parameters
    ----------
    keys : tuple of str
        The varied keys.
    cells : tuple of Cell
        Their combinations.
    runs : tuple of Run
        All runs, cell by cell and seed by seed.
    folder : Path, optional
        Where run folders, tables and figures are.
    drawn : dict of str to RandomValues
        How the values of varied keys were drawn; keys whose values were listed are not among them.
    """

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    runs: tuple[Run, ...]
    folder: Path | None = None
    drawn: Mapping[str, RandomValues] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return a text on the comparison, with the risk and error of the first rows."""
        keys = ", ".join(self.keys) or "nothing varied"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        lines = [
            f"Comparison({keys}: {number_of(len(self.cells), 'cell')}, {number_of(len(self.runs), 'run')}{failed})"
        ]
        for row in self.rows()[:SHOWN]:
            names = [name for name in ("risk", "error") if math.isfinite(row.mean[name]) and name not in self.repeated]
            figures = [f"{name} {row.mean[name]:.4g}" for name in names]
            lines.append(f"{', '.join(row.labels) or 'as it is'}: {', '.join(figures) or 'no run is done'}")
        more = len(self.cells) - SHOWN
        return "\n  ".join([*lines, *([f"and {more} more"] if more > 0 else [])])

    def __str__(self) -> str:
        """Return the table that the command prints, with the supported differences in words."""
        text: str = notebook.found("comparison_text")(self)
        return text.rstrip("\n")

    def _repr_html_(self) -> str:
        page: str = notebook.found("comparison_page")(self)
        return page

    @property
    def table(self) -> MeasuredTable:
        """The columns of ``comparison.csv``, a row for each cell."""
        table: MeasuredTable = notebook.found("comparison_table")(self)
        return table

    def to_pandas(self) -> pandas.DataFrame:
        """Return :attr:`table` as a pandas data frame.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        return self.table.to_pandas()

    def to_latex(self, columns: Sequence[str] = (), spread: bool = True) -> str:
        """Return a ``tabular`` that needs the package ``booktabs``.

        Parameters
        ----------
        columns : sequence of str
            The measured columns that are shown, in this order; the usual ones when left out.
        spread : bool
            Whether the standard deviations over the seeds are shown.

        Raises
        ------
        InputError
            A chosen column was not measured.
        """
        text: str = notebook.found("comparison_latex")(self, columns, spread)
        return text

    @property
    def plot(self) -> Any:
        """The figures of the comparison, such as ``comparison.plot.risk()``.

        Each method takes axes, if given, and returns its figure.
        """
        return notebook.found("comparison_plots")(self)

    @property
    def origins(self) -> dict[State, int]:
        """The numbers of runs that were begun, resumed, and reused, as text; zeros are left out."""
        found = [run.origin for run in self.runs]
        return {state: found.count(state) for state in STATES if state in found}

    @property
    def failed(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.failure)

    @property
    def facts(self) -> dict[str, object]:
        """The facts about the data that all complete runs have, with the values of the first."""
        facts = [run.facts for run in self.runs if not run.failure]
        return {key: facts[0][key] for key in facts[0] if all(key in other for other in facts)} if facts else {}

    def done(self, cell: int) -> list[Run]:
        """Return the runs of a cell that ended well."""
        return [run for run in self.runs if run.cell == cell and not run.failure]

    def distinct(self, cell: int) -> list[list[Run]]:
        """Return the runs of a cell that ended well, those with equal models and figures together.

        Seeds that change nothing, such as those of data in a given order, repeat one run: they say nothing of a spread.
        """
        found: dict[tuple[object, ...], list[Run]] = {}
        for place, run in enumerate(self.done(cell)):
            found.setdefault(run.outcome if run.digest else (place,), []).append(run)
        return list(found.values())

    @cached_property
    def repeated(self) -> frozenset[str]:
        """The errors that are the risks once more in all runs; tables and figures show such numbers once."""
        return repeated([*(run.network for run in self.runs), *(run.final for run in self.runs)])

    @property
    def inner(self) -> tuple[int, ...]:
        """The places of the keys whose values are held against one another.

        The protocol's, or else the learner's, or else the last one, of the keys with several values; all others say
        under which circumstances.
        """
        several = [place for place in range(len(self.keys)) if len({cell.labels[place] for cell in self.cells}) > 1]
        for part in ("protocol", "learner"):
            found = tuple(place for place in several if self.keys[place].split(".")[0] == part)
            if found:
                return found
        return tuple(several[-1:])

    @property
    def outer(self) -> tuple[int, ...]:
        """The places of the keys that are not :attr:`inner`."""
        inner = self.inner
        return tuple(place for place in range(len(self.keys)) if place not in inner)

    def exact(self, cell: int) -> tuple[str, ...]:
        """Return the labels of a cell, drawn numbers with all their digits."""
        found = self.cells[cell]
        pairs = zip(self.keys, found.labels, strict=True)
        return tuple(repr(found.drawn[key]) if key in found.drawn else label for key, label in pairs)

    def circumstances(self, cell: int) -> tuple[str, ...]:
        """Return the values of the keys that are not :attr:`inner`."""
        return tuple(self.cells[cell].labels[place] for place in self.outer)

    def groups(self) -> list[list[int]]:
        """Return the cells under the same circumstances, which are held against one another."""
        outer, found = self.outer, dict[tuple[str, ...], list[int]]()
        for place, cell in enumerate(self.cells):
            found.setdefault(tuple(cell.labels[key] for key in outer), []).append(place)
        return list(found.values())

    def reference(self, cell: int) -> int:
        """Return the cell to hold another one against: isolated nodes under the same circumstances, or the first cell.

        See :meth:`circumstances`.
        """
        alike = next(group for group in self.groups() if cell in group)
        return next((place for place in alike if self.cells[place].protocol == "isolated"), alike[0])

    def differences(self) -> list[Difference]:
        """Hold cells against one another, seed by seed: all pairs under the same circumstances, in each of ``RANKED``.

        Cells without a figure, because all their runs failed or none measured it, are in no pair. P-values are
        corrected for the pairs of one figure under the same circumstances.
        """
        return list(self._differences)

    @cached_property
    def _differences(self) -> tuple[Difference, ...]:
        """All pairs, once: each format of the table asks for them, and 200 rows have 80,000."""
        distinct = [self.distinct(cell) for cell in range(len(self.cells))]
        found, groups = list[Difference](), self.groups()
        for figure in RANKED:
            for group in groups:
                values = {
                    cell: {
                        run.seed: Value(run.final[figure], outcome)
                        for outcome, runs in enumerate(distinct[cell])
                        for run in runs
                        if math.isfinite(run.final.get(figure, math.nan))
                    }
                    for cell in group
                }
                found += paired_differences(figure, {cell: seeds for cell, seeds in values.items() if seeds})
        return tuple(found)

    def rows(self, also: Sequence[str] = ()) -> list[Row]:
        """Return the final figures, one row per cell: ``METRICS`` and other measured columns."""
        rows = []
        names = dict.fromkeys([*METRICS, *(name for name in also if name != CHANGE)])
        several = len({run.seed for run in self.runs}) > 1
        for place, cell in enumerate(self.cells):
            groups = self.distinct(place)
            done = [group[0] for group in groups]
            failures = [run.failure for run in self.runs if run.cell == place and run.failure]
            values = {name: np.array([_number(run.final.get(name)) for run in done]) for name in names}
            reference = self.reference(place)
            risks = {run.seed: run.final["risk"] for run in self.done(reference)} if reference != place else {}
            paired = [run for run in done if several and run.seed in risks]
            values[CHANGE] = np.array([run.final["risk"] - risks[run.seed] for run in paired])
            rows.append(
                Row(
                    cell.labels,
                    {name: float(np.mean(found)) if len(found) else math.nan for name, found in values.items()},
                    {
                        name: float(np.std(found, ddof=1)) if len(found) > 1 else math.nan
                        for name, found in values.items()
                    },
                    len(done),
                    len(failures),
                    tuple(dict.fromkeys(failures)),
                    tuple(tuple(run.seed for run in group) for group in groups if len(group) > 1),
                    _verdicts(done),
                )
            )
        return rows

    def series(self, cell: int, column: str, fewest: int = 2, against: str = "samples") -> Series | None:
        """Return a column of the network's measurements over what ``AGAINST`` names, one curve per seed.

        None where fewer than ``fewest`` rows have numbers. Seeds whose data ended earlier cut the others to their
        length. Where seeds have sent differently much, their courses stand over the mean.
        """
        along = AGAINST[against]
        done = [group[0] for group in self.distinct(cell) if along in group[0].network]
        runs = [run for run in done if np.isfinite(run.network.get(column, np.array([np.nan]))).any()]
        if not runs:
            return None
        rows = min(len(run.network["round"]) for run in runs)
        values = np.stack([np.asarray(run.network[column][:rows], dtype=np.float64) for run in runs], axis=1)
        samples = np.mean([run.network[along][:rows] for run in runs], axis=0)
        kept = np.isfinite(values).all(axis=1)
        return Series(samples[kept], values[kept]) if kept.sum() >= max(fewest, 1) else None

    def unfinished(self, cell: int, column: str, against: str = "samples") -> list[Series]:
        """Return a column of each failed run of a cell up to its failure, if it has any numbers."""
        found, along = [], AGAINST[against]
        for run in self.runs:
            if run.cell == cell and run.failure and column in run.network and along in run.network:
                values = np.asarray(run.network[column], dtype=np.float64)
                kept = np.isfinite(values)
                if kept.any():
                    samples = np.asarray(run.network[along], dtype=np.float64)
                    found.append(Series(samples[kept], values[kept][:, None]))
        return found


def label(comparison: Comparison, labels: Sequence[str], places: Sequence[int]) -> str:
    """Return the labels of some keys as one text; names stand alone, other values follow their key."""
    words = []
    for place in places:
        key, value = comparison.keys[place], labels[place]
        last = key.rpartition(".")[2]
        plain = last == "name" or ("." not in key and last in ("protocol", "topology", "stream", "learner", "backend"))
        if value != NOT_APPLICABLE:
            words.append(value if plain else f"{last} = {value}")
    return ", ".join(words)


def gather(results: Sequence[Result]) -> Comparison:
    """Make a comparison of finished runs: runs whose experiments differ in their seed only form one cell.

    Words that each seed's data turned into numbers are words again. Networks from files differ where their edges do.
    """
    configs = []
    for result in results:
        config = {key: value for key, value in result.config.items() if key not in ("seed", "backend")}
        for key, word in result.summary.get("automatic", {}).items():
            config = merge(config, nested(key, word))
        configs.append(config)
    places = [place for place, config in enumerate(configs) if config["topology"]["name"] == "file"]
    edges = {place: _edges(results[place]) for place in places}
    if len(set(edges.values())) > 1:
        for place, own in edges.items():
            table = {**configs[place]["topology"], **as_table(results[place].graph), "edges": own}
            configs[place] = {**configs[place], "topology": table}
    distinct = [config for place, config in enumerate(configs) if config not in configs[:place]]
    keys, labels = differing(distinct)
    found = tuple(Cell(label, config) for label, config in zip(labels, distinct, strict=True))
    runs = [run_of(distinct.index(config), result) for config, result in zip(configs, results, strict=True)]
    return Comparison(keys, found, tuple(sorted(runs, key=lambda run: (run.cell, run.seed))))


def _edges(result: Result) -> str:
    """Return a digest of a run's network."""
    network = result.adjacency
    return sha256(b"".join(part.tobytes() for part in (network.labels, network.offsets, network.neighbors))).hexdigest()


def run_of(cell: int, result: Result, folder: Path | None = None, failure: str = "") -> Run:
    """Reduce a result to the record of a comparison; failed runs have no final figures."""
    failure = failure or (str(result.summary.get("reason") or "it failed") if result.failed else "")
    final = {} if failure else {key: _number(value) for key, value in result.final.items()}
    summary = result.summary
    return Run(
        cell,
        int(result.config.get("seed", 0)),
        dict(result.network),  # a few numbers for each evaluation, which may lie in a file
        final,
        failure,
        folder=folder,
        digest="" if failure else str(summary.get("digest") or ""),
        verdict={} if failure else result.verdict,
        facts={} if failure else dict(summary.get("facts") or {}),
        form=str(summary.get("form") or ""),
        step=str(summary.get("step") or ""),
    )


def _verdicts(runs: Sequence[Run]) -> dict[str, tuple[int, str]]:
    kinds = dict.fromkeys(kind for run in runs for kind in run.verdict)
    texts = {kind: [run.verdict[kind] for run in runs if kind in run.verdict] for kind in kinds}
    return {kind: (len(sentences), sentences[0]) for kind, sentences in texts.items()}


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
